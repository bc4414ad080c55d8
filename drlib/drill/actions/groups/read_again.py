"""Measure what groups read again: the records at a position on the target, and those that the source has at the group's own.

Rules: it reads without joining any group. Records are compared by key, value, timestamp and headers. From a position that is
bounded, or behind as the mirror had not reached the group's own, it reads on until the record that the group's own position has
next; to find a later one first would mean that records are skipped. Where nothing is next, the last one before it has to be
the last that is read. What cannot be compared is None.
Not for: predicting it (`rules.read_again`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.drill.actions.groups.commit import TIMEOUT_S
from drlib.drill.actions.groups.rules import PositionMove, read_again, sum_known
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range, Record
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition, TranslationKind
from drlib.runs.abort import Abort
from drlib.runs.scorecard import GroupScore

ROOM: Final = 64  # offsets looked through for each record wanted: markers and aborted records have offsets too
NOTHING_AFTER: Final = "nothing to read there yet"
AROUND: Final = 500  # records on each side of a position that are compared where both directions copy a topic
NEXT: Final = 5  # records that are looked for
_MOST_AGAIN: Final = 20_000  # offsets read to find where a bounded position should be

Start = tuple[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison says, and how many records the group would read again; None where that was not measured."""

    verdict: str
    again: int | None = None

    @property
    def wrong(self) -> bool:
        return self.verdict.startswith("wrong")


def measure(
    source: ClusterSettings, target: ClusterSettings, moves: Sequence[PositionMove], abort: Abort
) -> list[Compared | None]:
    """What each of `moves` reads again on `target`, in their order; None for one that is not bounded, or was left.

    Raises `Aborted`, and what the clusters answer.
    """
    mine = [move for move in moves if move.offset is not None and is_bounded(move)]
    wanted: dict[Start, int] = {}
    for move in mine:
        wanted[on_target(move)] = max(wanted.get(on_target(move), 0), to_find(move))
    read = read_from(target, wanted, NEXT, abort)
    following = read_from(source, dict.fromkeys(map(on_source, mine), 0), NEXT, abort)
    before = read_from(source, dict.fromkeys(map(on_source, mine), 0), NEXT, abort, back=True)
    return [
        compare_bounded(read[on_target(m)], following[on_source(m)], before[on_source(m)]) if m in mine else None
        for m in moves
    ]


def measure_shared(
    source: ClusterSettings, target: ClusterSettings, moves: Sequence[PositionMove], count: int, abort: Abort
) -> tuple[list[tuple[int, Compared]], str]:
    """Of all `moves`, whose topics both directions copy: how many records were read of each, and what they are; and why the
    source was not read, if it was not. `count`: the records that the group would read next."""
    most: dict[Start, int] = {}
    for move in moves:
        for start in (on_target(move), on_source(move)):
            most[start] = max(most.get(start, 0), AROUND + to_find(move))
    there = {start: most[start] for start in map(on_target, moves)}
    here = {start: most[start] for start in map(on_source, moves)}
    read = read_from(target, there, count, abort)
    read_before = read_from(target, there, count, abort, back=True)
    try:
        following = read_from(source, here, count, abort)
        before = read_from(source, here, count, abort, back=True)
    except (Unreachable, UsageError) as error:
        unknown = Compared("unknown: the source does not answer")
        return [(len(read[on_target(m)]), unknown) for m in moves], str(error)
    found = []
    for move in moves:
        at, away = on_source(move), on_target(move)
        whole = len(before[at]) < here[at] + count
        logs = TwoLogs(read_before[away], read[away], before[at], following[at], whole)
        found.append((len(read[away]), compare_shared(logs, count, read_again(move))))
    return found, ""


def score(group: str, measured: Sequence[tuple[PositionMove, int | None]]) -> GroupScore:
    """Predicted and measured, of one group's positions; what was not measured makes its sum unknown."""
    kinds = Counter(move.kind.value for move, _ in measured)
    predicted = sum(read_again(move) for move, _ in measured)
    return GroupScore(
        group=group,
        re_read=sum_known(again for _, again in measured),
        re_read_at_most=predicted,
        positions=dict(kinds),
    )


def read_from(
    cluster: ClusterSettings,
    starts: Mapping[Start, int],
    count: int,
    abort: Abort,
    *,
    back: bool = False,
) -> dict[Start, list[Record]]:
    """Read the next records from each of `starts`: `count` of each, and as many more as it says; with `back` the last ones
    before it."""
    records: dict[Start, list[Record]] = {start: [] for start in starts}
    with Cluster(cluster, timeout_s=TIMEOUT_S) as handle:
        existing = handle.topics({partition.topic for partition, _ in starts})
        missing = {partition.topic for partition, _ in starts} - existing.keys()
        if missing:
            raise UsageError(
                f"topics {', '.join(sorted(missing))}", f"they are not on {cluster.alias}", "See: drlib status."
            )
        partitions = {partition for partition, _ in starts}
        ends, begins = handle.log_ends(partitions), handle.log_starts(partitions) if back else {}
        for turn in _turns(starts):
            abort.check()
            ranges = {p: Range(at, min(ends[p], at + starts[p, at] + count * ROOM)) for p, at in turn.items()}
            if back:
                far = {p: max(begins[p], at - count * ROOM) for p, at in turn.items()}
                ranges = {p: Range(far[p], at) for p, at in turn.items() if far[p] < at}
            for record in handle.read(ranges):
                mine = records[record.partition, turn[record.partition]]
                mine.append(record)
                if len(mine) > count + starts[record.partition, turn[record.partition]]:
                    mine.pop(0 if back else -1)
    return records


def _turns(starts: Iterable[Start]) -> Iterator[dict[TopicPartition, int]]:
    """Split `starts` into rounds with each partition once, because a consumer reads a partition from one position."""
    waiting = sorted(starts, key=lambda start: (start[1], start[0]))
    while waiting:
        turn: dict[TopicPartition, int] = {}
        left = []
        for partition, at in waiting:
            if partition in turn:
                left.append((partition, at))
            else:
                turn[partition] = at
        yield turn
        waiting = left


def on_target(move: PositionMove) -> Start:
    return move.target, move.offset or 0


def on_source(move: PositionMove) -> Start:
    return move.source, move.source_offset


def is_bounded(move: PositionMove) -> bool:
    """Is it near enough to be measured, too?"""
    return move.kind is TranslationKind.BOUNDED and move.records <= _MOST_AGAIN


def is_near(move: PositionMove) -> bool:
    """Is the group's next record to be found from its position on, as that is bounded, or the mirror had not reached it?"""
    return move.kind in (TranslationKind.BOUNDED, TranslationKind.BEHIND) and move.records <= _MOST_AGAIN


def to_find(move: PositionMove) -> int:
    """How many records more than usual are read from a position, to find where it should be."""
    return move.records if is_near(move) else 0


def compare_bounded(records: Sequence[Record], expected: Sequence[Record], before: Sequence[Record]) -> Compared:
    """From a bounded position: how many `records` come in front of those that the group's own position has next, `expected`;
    without these, all up to the one that it has last, the last of `before`."""
    contents = [content(record) for record in records]
    for number, record in enumerate(expected):
        if content(record) not in contents:
            continue
        at = contents.index(content(record))
        if number and at < number:
            return Compared(f"wrong: {number - at} records that the source has before {record.offset} are not there")
        return Compared(f"the same behind {max(0, at - number):,} that are read again", max(0, at - number))
    if expected:
        return Compared(f"not compared: none of the source's next records is among {len(records):,}")
    if before and content(before[-1]) in contents:
        again = len(contents) - contents[::-1].index(content(before[-1]))
        return Compared(f"the same: {again:,} are read again, nothing after them", again)
    return Compared(f"{NOTHING_AFTER}, and the last one before it is another one")


@dataclass(frozen=True, slots=True)
class TwoLogs:
    """Records around a group's position on the target and on the source. `whole`: the source has none before `before`."""

    there_before: Sequence[Record]
    there: Sequence[Record]
    before: Sequence[Record]
    following: Sequence[Record]
    whole: bool


def compare_shared(logs: TwoLogs, count: int, predicted: int) -> Compared:
    """In a topic that both directions copy: whether the next `count` records of the group are those that it would read from its
    position on the target on, and how many it would read again, which are `predicted`. Contents that follow again later on the
    source say nothing."""
    there, later = {content(record) for record in logs.there}, {content(record) for record in logs.following}
    skipped = {content(record) for record in logs.there_before}
    read = {content(record) for record in logs.before} - later
    expected = logs.following[:count]
    missing = [record for record in expected if content(record) not in there]
    if lost := [record for record in missing if content(record) in skipped]:
        return Compared(f"wrong: {len(lost)} records that the source has next, from {lost[0].offset} on, are skipped")
    again = sum(content(record) in read for record in logs.there)
    if again > predicted:
        return Compared(f"wrong: {again} records are read again, and {predicted} were predicted", again)
    if missing:
        return Compared(
            f"not compared: {len(missing)} of {len(expected)} next records are not among {len(logs.there):,}"
        )
    if not expected and not again and not {content(record) for record in logs.before[-1:]} & skipped:
        return Compared(f"{NOTHING_AFTER}, and the last one before it is another one")
    said = f", {again:,} are read again" if again else ""
    behind = "" if expected else ", nothing after them"
    return Compared(f"the same{said}{behind}", again if again == predicted or logs.whole else None)


def content(record: Record) -> tuple[object, ...]:
    return record.key, record.value, record.timestamp_ms, record.headers
