"""Where to go on behind a replicator that was stopped, and what positions in the stretch it copied mean.

MirrorMaker 2 commits "copied up to N" every 60 seconds; a killed one may have copied more. It copies each partition in
source order and starts again at N + 1, so on the mirror partition stands a run of copies from N + 1 on, perhaps several.

Rules:
- A source record whose content (key, value, headers, timestamp) stands once on the source side looked at and is found in
  the mirror is there, and with it every record before it. Content that repeats proves nothing by itself.
- `position` is behind the last record proven so; records behind it that only might be there make it inexact, and they
  are counted. A mirror without the copy of N itself holds other content than the source, and nothing is proven then.
- Positions in the copied stretch are translated from MM2's sparse syncs: never past the first record not seen, with a
  bound on what is read again, and never called exact.
Source: `MirrorSourceTask`, `OffsetSyncStore`. Not for: reading anything (`drlib.mirror.mm2.takeover`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

PAIRS_KEPT: Final = 256
_MARGIN: Final = 1000  # records looked at before the first that matters: syncs of a killed MM2 may be lost
_SHORT: Final = 100_000  # a mirror this long is compared whole where its beginning matters

Pairs = tuple[tuple[int, int], ...]  # (source offset, target offset) of the same record


@dataclass(frozen=True, slots=True)
class Mark:
    """A record by its content. `may_be_aborted`: it belongs to a transaction, so a committed reader may pass it over."""

    offset: int
    digest: bytes
    may_be_aborted: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Go on at `position`; up to `doubtful` records from there on may be on the target already.

    `ahead`: records past the committed offset that were found on the target.
    """

    position: int
    doubtful: int
    ahead: int

    @property
    def exact(self) -> bool:
        return self.doubtful == 0


def decide(source: Sequence[Mark], target: Sequence[Mark], committed: int | None, first: int) -> Decision:
    """Where to go on, from the source's records around and behind `committed` and the mirror's records at its end.

    `committed` is the last offset the replicator committed, None for none; `first` the position to begin at when nothing
    of the source is on the target. `source` reaches back at least as far as `target` does, and beyond `committed` for at
    least as many records as `target` has.
    """
    begin = first if committed is None else committed + 1
    held = Counter(mark.digest for mark in target)
    repeated = Counter(mark.digest for mark in source)
    after = [mark for mark in source if mark.offset >= begin]
    at = next((mark for mark in source if mark.offset == committed), None)
    if at is not None and at.digest not in held:
        return Decision(begin, min(len(target), len(after)), 0)
    for mark in source:
        if mark.offset < begin:
            held[mark.digest] -= 1
    proven = max((m.offset for m in after if repeated[m.digest] == 1 and held[m.digest] > 0), default=-1)
    ahead = [mark for mark in after if mark.offset <= proven]
    for mark in ahead:
        held[mark.digest] -= 1
    doubtful = 0
    for seen, mark in enumerate(after[len(ahead) :], 1):
        if held[mark.digest] > 0:
            held[mark.digest] -= 1
            doubtful = seen
        elif not mark.may_be_aborted:
            break
    return Decision(max(begin, proven + 1), doubtful, len(ahead))


def window(pairs: Sequence[tuple[int, int]], committed: int, mirror_end: int) -> tuple[int, int]:
    """From which (source, mirror) offsets on the two logs are compared, so that every copy past `committed` is seen.

    `pairs` are the syncs of the partition in written order. That is the newest sync not past the committed offset,
    unless an earlier run of the replicator got further than it: between two syncs stand as many copies as the mirror
    has offsets there, whatever the next sync says. With later syncs only, what lies behind the committed record stands
    at most as many offsets before such a sync as on the source; without any, the whole mirror is compared.
    """
    known = [pair for pair in pairs if pair[1] < mirror_end]
    if mirror_end <= _SHORT:
        known.insert(0, (0, 0))  # the very first run may have died before its first sync was written
    at = max((i for i, pair in enumerate(known) if pair[0] <= committed), default=None)
    if at is None:
        return 0, 0
    begin = at
    for i in range(at - 1, -1, -1):
        upstream, downstream = known[i]
        copies = known[i + 1][1] - downstream
        near = known[at][1] - downstream < _MARGIN
        if copies < 0:
            break  # the mirror topic was made again after this sync
        if near or upstream + copies - 1 > committed:
            begin = i
    upstream = min(pair[0] for pair in known[begin : at + 1])
    return upstream, known[begin][1]


def usable_pairs(
    pairs: Iterable[tuple[int, int]], source: Sequence[Mark], target: Sequence[Mark], position: int
) -> Pairs:
    """Of the syncs of one partition, in written order, those to translate with; both sides ascend.

    A sync that goes back supersedes those it contradicts, as in MM2's own store. Among the records compared, a sync
    counts only where everything behind it up to `position` stands one to one behind it on the target too: in a run that
    was cut short it would point behind the only copy of a later record.
    """
    begin = target[0].offset if target else -1
    end = target[-1].offset if target else -1
    matched: set[tuple[int, int]] = set()
    here = [mark for mark in source if mark.offset < position]
    for one, other in zip(reversed(here), reversed(target), strict=False):
        if one.digest != other.digest:
            break
        matched.add((one.offset, other.offset))
    kept: list[tuple[int, int]] = []
    for pair in pairs:
        upstream, downstream = pair
        if upstream >= position or downstream > end or (downstream > begin and pair not in matched):
            continue
        while kept and (kept[-1][0] >= upstream or kept[-1][1] >= downstream):
            kept.pop()
        kept.append(pair)
    while len(kept) > PAIRS_KEPT:  # the newer half stays as it is: most groups stand there
        half = len(kept) // 2
        kept = kept[:half:2] + kept[half:]
    return tuple(kept)
