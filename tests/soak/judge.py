"""Compares the logs of a soak run record by record. Pure.

Rules: a record is its number, unique in the run, and a digest of key, value, headers and timestamp. The producers'
acknowledgements are the truth for the source, and the source is the truth for the mirror. The engine's own report excuses
one thing only: records that it *journaled* as lost, or as possible duplicates, and only where a fault really deleted some.
Every function returns findings, none when nothing is wrong, and never raises for the content of a log.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    where: str
    what: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what} ({self.evidence})"


class Log:
    """Records of one partition in log order: 24 bytes each, so that an hour of them fits."""

    __slots__ = ("digests", "numbers", "offsets")

    def __init__(self, rows: Iterable[tuple[int, int, int]] = ()) -> None:
        self.offsets, self.numbers, self.digests = array("q"), array("q"), array("q")
        for row in rows:
            self.add(*row)

    def add(self, offset: int, number: int, digest: int) -> None:
        self.offsets.append(offset)
        self.numbers.append(number)
        self.digests.append(digest)

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.offsets, self.numbers, self.digests, strict=True)

    def sorted(self) -> Log:
        return Log(sorted(self))


def never(_: int) -> bool:
    return False


def acknowledged_stand(
    where: str, acked: Log, source: Log, in_doubt: frozenset[int] = frozenset(), may_double: int = 0
) -> list[Finding]:
    """Every acknowledged record is in the log as it was sent, and nothing else except records in doubt."""
    found = compare(where, "acknowledged", acked, "on the source", source, in_doubt=in_doubt, may_double=may_double)
    known, there = set(source.numbers), set(zip(source.numbers, source.offsets, strict=True))
    moved = [(n, o) for o, n, _ in acked if n in known and (n, o) not in there]
    if moved:
        found.append(
            _finding(
                where, f"{len(moved)} records are not at the offset that the producer got", moved, "acknowledged at"
            )
        )
    return found


def compare(
    where: str,
    one: str,
    here: Log,
    other: str,
    there: Log,
    *,
    in_doubt: frozenset[int] = frozenset(),
    may_miss: Callable[[int], bool] = never,
    may_double: int = 0,
) -> list[Finding]:
    """`there` holds the records of `here`, each once, unchanged and in order.

    `in_doubt`: numbers that may be there without being here; `may_miss`: offsets of `here` reported as lost; `may_double`:
    how many records were reported as possible duplicates.
    """
    if here.numbers == there.numbers and here.digests == there.digests:
        return []
    found: list[Finding] = []
    digests = dict(zip(here.numbers, here.digests, strict=True))
    counts = Counter(there.numbers)
    missing = [(n, o) for o, n, _ in here if n not in counts and not may_miss(o)]
    if missing:
        found.append(_finding(where, f"{len(missing)} records {one} are not {other}", missing, "offset"))
    doubled = [(n, o) for o, n, _ in there if counts[n] > 1]
    wanted = Counter(here.numbers)  # more than once only where a producer's own retry doubled it
    extra = sum(count - max(1, wanted[n]) for n, count in counts.items() if count > max(1, wanted[n]))
    if extra > may_double:
        found.append(
            _finding(where, f"{extra} records are more than once {other}, {may_double} reported", doubled, "at")
        )
    rarer = [(n, o) for o, n, _ in there if counts[n] < wanted[n]]
    if rarer:
        found.append(_finding(where, f"{len(rarer)} records {one} are not {other} as often", rarer, "at"))
    invented = [(n, o) for o, n, _ in there if n not in digests and n not in in_doubt]
    if invented:
        found.append(_finding(where, f"{len(invented)} records {other} were never {one}", invented, "at"))
    altered = [(n, o) for o, n, d in there if n in digests and digests[n] != d]
    if altered:
        found.append(_finding(where, f"{len(altered)} records {other} are not as they were", altered, "at"))
    if len(digests) < len(here):  # what stands twice on both sides: nothing is missing, so the sequences are the same
        if not found:
            found.append(Finding(where, f"the records {other} stand in another order", f"{len(there)} records"))
    elif not (doubled and may_double):
        found += _in_order(where, other, here, there)
    return found


def _in_order(where: str, other: str, here: Log, there: Log) -> list[Finding]:
    place = {n: at for at, n in enumerate(here.numbers)}
    last, before = -1, -1
    wrong: list[tuple[int, int]] = []
    for offset, number, _ in there:
        at = place.get(number)
        if at is None:
            continue
        if at < last:
            wrong.append((number, offset))
        last, before = max(last, at), number
    if not wrong:
        return []
    return [_finding(where, f"{len(wrong)} records {other} come after later ones", wrong, f"the last is {before};")]


def newest_stand(
    where: str,
    acked: Log,
    keys: Mapping[int, bytes],
    source: Log,
    mirror: Log,
    in_doubt: frozenset[int] = frozenset(),
) -> list[Finding]:
    """A compacted topic: the newest of each key is on both sides, nothing is twice, altered, invented or out of order."""
    found = compare(where, "acknowledged", acked, "in the mirror", mirror, in_doubt=in_doubt, may_miss=lambda _: True)
    for name, log in (("source", source), ("mirror", mirror)):
        newest = {keys[n]: n for n in acked.numbers}
        there = {keys[n]: n for n in log.numbers if n in keys}
        missing = [(n, 0) for key, n in newest.items() if there.get(key) != n and there.get(key, -1) not in in_doubt]
        if missing:
            found.append(_finding(where, f"the newest of {len(missing)} keys is not on the {name}", missing, "key"))
    return found


def incarnations_stand(
    where: str, lives: Sequence[Log], mirror: Log, reported: int, in_doubt: frozenset[int] = frozenset()
) -> list[Finding]:
    """A topic made again and again: a beginning of each incarnation's records, in their order, and all of the last.

    `reported`: incarnations whose deletion the engine reported.
    """
    found: list[Finding] = []
    there = set(mirror.numbers)
    whole = Log()
    cut = 0
    for at, life in enumerate(lives):
        reached = [n in there for n in life.numbers]
        count = sum(reached)
        if at == len(lives) - 1:
            count = len(life)
        elif not all(reached[:count]):
            gap = reached.index(False)
            missing = [(life.numbers[gap], life.offsets[gap])]
            found.append(
                _finding(f"{where} incarnation {at}", "a record is missing before later ones", missing, "offset")
            )
        cut += count < len(life)
        for row in list(life)[:count]:
            whole.add(*row)
    found += compare(where, "acknowledged", whole, "in the mirror", mirror, in_doubt=in_doubt)
    if cut and not reported:
        found.append(
            Finding(where, "records went with a deleted topic and nothing was reported", f"{cut} incarnations")
        )
    return found


def prefix_stands(where: str, sent: Log, in_doubt: frozenset[int], source: Log, mirror: Log) -> list[Finding]:
    """A topic whose source lost acknowledged records, which the engine reported and then copied no further.

    The mirror has what was on the source until then: everything in order, once, as it was sent. What the source still has
    of that time is in the mirror.
    """
    found = compare(where, "sent", sent, "in the mirror", mirror, in_doubt=in_doubt, may_miss=lambda _: True)
    last = max(mirror.numbers, default=-1)
    there = set(mirror.numbers)
    missing = [(n, o) for o, n, _ in source if n <= last and n not in there]
    if missing:
        found.append(
            _finding(where, f"{len(missing)} records from before the loss are not in the mirror", missing, "at")
        )
    return found


def map_is_exact(where: str, segments: Iterable[tuple[int, int, int]], source: Log, mirror: Log) -> list[Finding]:
    """Each stretch (source offset, target offset, count) joins the same records, and no mirrored one is left out."""
    here = dict(zip(source.offsets, source.numbers, strict=True))
    there = dict(zip(mirror.offsets, mirror.numbers, strict=True))
    wrong: list[tuple[int, int]] = []
    joined = 0
    for start, target, count in segments:
        for n in range(count):
            a, b = here.get(start + n), there.get(target + n)
            joined += b is not None
            if a is not None and b is not None and a != b:
                wrong.append((b, target + n))
    found = [_finding(where, f"the map is wrong about {len(wrong)} records", wrong, "at")] if wrong else []
    if joined != len(mirror):
        found.append(Finding(where, "mirrored records are not in the map", f"{joined} of {len(mirror)} are"))
    return found


def _finding(where: str, what: str, rows: Sequence[tuple[int, int]], word: str) -> Finding:
    shown = ", ".join(f"number {n} {word} {o}" for n, o in rows[:EXAMPLES])
    return Finding(where, what, shown + (" ..." if len(rows) > EXAMPLES else ""))
