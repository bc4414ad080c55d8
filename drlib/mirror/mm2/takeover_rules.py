"""Where to continue after MirrorMaker 2 was stopped, and which of its offset syncs may be used to translate positions.

MirrorMaker 2 commits "copied up to N" every 60 seconds; a killed one may have copied more. It copies each partition in
source order and restarts at N + 1, so the mirror partition ends with a run of copies from N + 1 on, perhaps several.

Rules:
- A source record whose content (key, value, headers, timestamp) occurs once in the compared source records and is found in
  the mirror was copied, and so was every record before it. Repeated content proves nothing by itself.
- `position` follows the last record proven this way; records after it that may have been copied make it inexact, and they
  are counted. A mirror without the copy of N itself has other content than the source, and then nothing is proven.
- A committed offset says what was copied only to the mirror that holds the copies. Syncs beyond the mirror's end, fewer
  offsets than there are copies, or a complete mirror without anything of the source contradict it (`contradiction`).
- Positions in the copied stretch are translated from MM2's sparse syncs: never past the first record not read, with a
  bound on what is read again, and not as exact before both logs were compared (`drlib.mirror.offsets.comparison`).
Source: `MirrorSourceTask`, `OffsetSyncStore`. Not for: reading anything (`drlib.mirror.mm2.takeover`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

PAIRS_KEPT: Final = 256
_MARGIN: Final = 1000  # records compared before the first that matters: syncs of a killed MM2 may be lost
_SHORT: Final = 100_000  # mirrors up to this length are compared from their start where it matters

Pairs = tuple[tuple[int, int], ...]  # (source offset, target offset) of the same record


@dataclass(frozen=True, slots=True)
class RecordDigest:
    """A record by its content. `may_be_aborted`: it belongs to a transaction, so a read_committed consumer may skip it.

    `timestamp`: in ms, -1 where it is not the producer's.
    """

    offset: int
    digest: bytes
    may_be_aborted: bool = False
    timestamp: int = -1


@dataclass(frozen=True, slots=True)
class Decision:
    """Continue at `position`; up to `doubtful` records from there on may be on the target already.

    `ahead`: records past the committed offset that were found on the target.
    """

    position: int
    doubtful: int
    ahead: int

    @property
    def exact(self) -> bool:
        return self.doubtful == 0


def decide(
    source: Sequence[RecordDigest], target: Sequence[RecordDigest], committed: int | None, first: int
) -> Decision:
    """Where to continue, from the source's records around and after `committed` and the mirror's records at its end.

    `committed` is the last offset the replicator committed, None for none; `first` the position to begin at when nothing
    of the source is on the target. `source` reaches back at least as far as `target` does, and beyond `committed` for at
    least as many records as `target` has.
    """
    begin = first if committed is None else committed + 1
    copies = Counter(mark.digest for mark in target)
    repeated = Counter(mark.digest for mark in source)
    after = [mark for mark in source if mark.offset >= begin]
    last = next((mark for mark in source if mark.offset == committed), None)
    if last is not None and last.digest not in copies:
        return Decision(begin, min(len(target), len(after)), 0)
    for mark in source:
        if mark.offset < begin:
            copies[mark.digest] -= 1
    proven = max((m.offset for m in after if repeated[m.digest] == 1 and copies[m.digest] > 0), default=-1)
    ahead = [mark for mark in after if mark.offset <= proven]
    for mark in ahead:
        copies[mark.digest] -= 1
    doubtful = 0
    for compared, mark in enumerate(after[len(ahead) :], 1):
        if copies[mark.digest] > 0:
            copies[mark.digest] -= 1
            doubtful = compared
        elif not mark.may_be_aborted:
            break
    return Decision(max(begin, proven + 1), doubtful, len(ahead))


@dataclass(frozen=True, slots=True)
class MirrorLog:
    """What was read of the mirror, up to its log `end` at our fence: records, and the offsets of control records.

    `complete`: nothing between the beginning of the comparison and `end` was deleted or cleaned.
    """

    end: int
    marks: Sequence[RecordDigest]
    control: Sequence[int]
    complete: bool


def contradiction(
    source: Sequence[RecordDigest], mirror: MirrorLog, committed: int, pairs: Sequence[tuple[int, int]]
) -> str:
    """Why the mirror cannot be the one that holds the copies up to `committed`; "" if it may be.

    `source` are the source's records as `decide` takes them, `pairs` the syncs of the partition in written order.
    """
    if mirror.end <= len(mirror.control):
        return "no record was ever in it"
    if pairs and (pairs[-1][1] >= mirror.end or pairs[-1][1] in mirror.control):
        return f"record {pairs[-1][0]} was copied to its offset {pairs[-1][1]}, which is not there: it ends at {mirror.end}"
    before = [mark for mark in source if mark.offset <= committed]
    upstream, downstream = next((p for p in reversed(pairs) if p[0] <= committed), (committed, 0))
    copies = sum(mark.offset >= upstream and not mark.may_be_aborted for mark in before)
    room = mirror.end - downstream - sum(offset >= downstream for offset in mirror.control)
    if copies > room:
        return f"{copies} records were copied to offset {downstream} and after it, and {room} are there at most"
    if not mirror.complete or not before or not mirror.marks:
        return ""
    contents = {mark.digest for mark in mirror.marks}
    timestamps = {mark.timestamp for mark in mirror.marks} - {-1}  # a connector's transform usually leaves them
    if any(mark.digest in contents or mark.timestamp in timestamps for mark in before):
        return ""
    return f"of {len(before)} records up to {committed} none is among the {len(mirror.marks)} in it"


def window(pairs: Sequence[tuple[int, int]], committed: int, mirror_end: int) -> tuple[int, int]:
    """The (source, mirror) offsets from which the logs are compared, so that every copy past `committed` is found.

    `pairs` are the syncs of the partition in written order. That is the newest sync not past the committed offset,
    unless an earlier run of MM2 got further than it: between two syncs there are as many copies as the mirror has offsets,
    whatever the next sync says. With later syncs only, the records after the committed one are at most as many offsets
    before such a sync as on the source; without any sync, the whole mirror is compared.
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
    pairs: Iterable[tuple[int, int]], source: Sequence[RecordDigest], target: Sequence[RecordDigest], position: int
) -> Pairs:
    """Of the syncs of one partition, in written order, those to translate with; both sides ascend.

    A sync that goes back supersedes those it contradicts, as in MM2's own store. Among the records compared, a sync
    counts only where every record after it up to `position` follows it one to one on the target too: in a run that was cut
    short it would point past the only copy of a later record.
    """
    if not target:
        return ()
    begin, end = target[0].offset, target[-1].offset
    matched: set[tuple[int, int]] = set()
    before = [mark for mark in source if mark.offset < position]
    for original, copy in zip(reversed(before), reversed(target), strict=False):
        if original.digest != copy.digest:
            break
        matched.add((original.offset, copy.offset))
    kept: list[tuple[int, int]] = []
    for pair in pairs:
        upstream, downstream = pair
        if upstream >= position or downstream > end or (downstream > begin and pair not in matched):
            continue
        while kept and (kept[-1][0] >= upstream or kept[-1][1] >= downstream):
            kept.pop()
        kept.append(pair)
    while len(kept) > PAIRS_KEPT:  # the newer half stays complete: most groups are there
        half = len(kept) // 2
        kept = kept[:half:2] + kept[half:]
    return tuple(kept)
