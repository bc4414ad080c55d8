"""Actions that rehearse a failover without touching any group of an application: `groups.shadow` and `canary.read`.

Rules: a shadow group is `drill.<run>.<group>`, so it belongs to one run; undoing the step deletes every shadow of that run,
also those of a process that was killed. The canary reads without joining any group. What it reads is compared with what the
source has right after the group's position, by key, value, timestamp and headers; where there is nothing after it on either
side, the records right before it are. From a bounded position it reads on until the record that the group's own position has
next, which measures what the group would read again; to find a later one first would mean that records are skipped. Where the
source does not answer, or not one position could be compared, the check is unknown, which is not a pass.
Not for: moving anything (`translate`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from drlib.config.patterns.selection import matches
from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.commit import TIMEOUT_S
from drlib.drill.actions.groups.rules import AsOf, PositionMove, read_again, sum_known
from drlib.drill.actions.groups.translate import TranslateGroups
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Patterns, Positive
from drlib.drill.step.flow_arguments import ReadOnlyTargetAction
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import Deviated, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range, Record
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition, TranslationKind
from drlib.runs.abort import Abort
from drlib.runs.check import CANARY, Check, Verdict
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import GroupScore

PREFIX: Final = "drill."
SHADOW: Final = "shadow"
_ROOM: Final = 64  # offsets looked through for each record wanted: markers and aborted records have offsets too
NOTHING_AFTER: Final = "nothing to read there yet"
_MOST_AGAIN: Final = 20_000  # offsets read to find where a bounded position should be


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison says, and how many records the group would read again; None where that was not measured."""

    verdict: str
    again: int | None = None


class ShadowGroups(TranslateGroups):
    """Translate every group's position, and commit it on the target to a shadow of the group."""

    name = "groups.shadow"
    use: ClassVar[str] = SHADOW

    @property
    def entity(self) -> str:
        return f"shadow groups {self.prefix}* on {self.flow.target}"

    @property
    def prefix(self) -> str:
        return f"{PREFIX}{self.context.run_dir.name}."

    def named(self, group: str) -> str:
        return self.prefix + group

    def _as_of(self, moves: Sequence[PositionMove]) -> list[AsOf]:
        """What is predicted for a failover at this moment: no later commit is part of it."""
        return [
            replace(each, re_reads=read_again(move)) for move, each in zip(moves, super()._as_of(moves), strict=True)
        ]

    def changes(self, observed: Sequence[Fact]) -> Changes:
        (before,) = (fact.value for fact in observed if fact.entity == self.entity)
        return (Change(self.entity, before, f"at the records that groups {', '.join(self.groups)} have reached"),)

    def undo(self, changes: Changes) -> None:
        """Delete every shadow group of this run, whichever process made it."""
        with Cluster(self.target_cluster, timeout_s=TIMEOUT_S) as cluster:
            for listing in cluster.groups():
                if listing.group.startswith(self.prefix):
                    cluster.delete_group(listing.group)
        positions.forget(self.context.run_dir, self.flow.target, self.use)


class ReadCanary(ReadOnlyTargetAction):
    """Read from the position of each shadow group, and compare with what the source has after the group's own position."""

    name = "canary.read"

    records: Positive = 5
    """Records to read for each group and partition, at most."""
    groups: Patterns = (".*",)
    """Which groups."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `Deviated` naming the first record that is not the right one."""
        run_dir, flow = self.context.run_dir, self.flow
        moves = positions.read(run_dir, flow.target, SHADOW)
        if moves is None:
            raise UsageError(
                "the canary has nothing to read", "no shadow groups were made", "Add groups.shadow before it."
            )
        prefix = f"{PREFIX}{run_dir.name}."
        chosen = [m for m in moves if matches(self.groups, m.group.removeprefix(prefix))]
        mine = [m for m in chosen if m.offset is not None]
        wanted: dict[tuple[TopicPartition, int], int] = {}
        for m in mine:
            wanted[_at(m)] = max(wanted.get(_at(m), 0), _to_find(m))
        read = self._read(self.target_cluster, wanted, abort)
        try:
            source_records = self._read(self.source_cluster, dict.fromkeys(map(_from, mine), 0), abort)
            silence = ""
        except (Unreachable, UsageError) as error:
            source_records, silence = {}, str(error)
        ended = [m for m in mine if not read[_at(m)] and not source_records.get(_from(m), [None]) and _exact(m)]
        at_end = [m for m in mine if _bounded(m) and read[_at(m)] and not source_records.get(_from(m), [None])]
        before = self._read(self.target_cluster, dict.fromkeys(map(_at, ended), 0), abort, back=True)
        source_before = self._read(
            self.source_cluster, dict.fromkeys(map(_from, [*ended, *at_end]), 0), abort, back=True
        )
        rows: list[dict[str, Scalar]] = []
        wrong: list[str] = []
        measured: dict[str, list[tuple[PositionMove, int | None]]] = {}
        for move in mine:
            records = read[_at(move)]
            verdict, again = _compared(move, records, source_records.get(_from(move))), None
            if verdict == NOTHING_AFTER and _at(move) in before:
                verdict = _compared_before(before[_at(move)], source_before[_from(move)])
            if _bounded(move) and source_records:
                found = _measured(records, source_records[_from(move)], source_before.get(_from(move), ()))
                verdict, again = found.verdict, found.again
            elif verdict.startswith("the same"):
                again = 0
            measured.setdefault(move.group.removeprefix(prefix), []).append((move, again))
            if verdict.startswith("wrong"):
                wrong.append(f"{move.group.removeprefix(prefix)} in {move.target} at {move.offset}: {verdict}")
            rows.append(
                {
                    "group": move.group.removeprefix(prefix),
                    "topic": move.target.topic,
                    "partition": move.target.partition,
                    "from": move.offset,
                    "meaning": move.kind.value,
                    "records read": len(records),
                    "reads again at most": read_again(move),
                    "reads again": again,
                    "compared": verdict,
                }
            )
        self.show(rows)
        compared = sum(str(row["compared"]).startswith("the same") for row in rows)
        total = sum(len(records) for records in read.values())
        verdict = Verdict.FAIL if wrong else Verdict.UNKNOWN if silence or not compared else Verdict.PASS
        counted = (
            f"{total:,} records read; {compared:,} of {len(rows):,} positions lead to the same records as on the source"
        )
        counted += "" if compared == len(rows) else f"; the table has the other {len(rows) - compared:,}"
        evidence = "; ".join(wrong[:3]) or silence or (counted if compared else f"not checked: {counted}")
        for move in chosen:
            if move.offset is None:  # it is left where it is, and not compared
                measured.setdefault(move.group.removeprefix(prefix), []).append((move, None))
        check = Check(name=CANARY, verdict=verdict, evidence=evidence)
        scores = tuple(_score(group, measured[group]) for group in sorted(measured))
        self.score(ScorecardPart(checks=(check,), groups=scores))
        if wrong:
            raise Deviated(
                f"{len(wrong)} of {len(rows)} positions lead to other records",
                "; ".join(wrong[:3]),
                "Do not fail over by this map. See the journal with drlib status, and report it.",
            )
        return {
            "positions": len(rows),
            "records": total,
            "the_same": compared,
            "reads_again_at_most": sum(map(read_again, mine)),
            "reads_again": sum_known(again for each in measured.values() for _, again in each),
            "source": silence or "it answers",
        }

    def _read(
        self,
        cluster: ClusterSettings,
        starts: Mapping[tuple[TopicPartition, int], int],
        abort: Abort,
        *,
        back: bool = False,
    ) -> dict[tuple[TopicPartition, int], list[Record]]:
        """Read the next records from each of `starts`: `records` of each, and as many more as it says; with `back` the last
        ones before it."""
        records: dict[tuple[TopicPartition, int], list[Record]] = {start: [] for start in starts}
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
                ranges = {
                    p: Range(at, min(ends[p], at + starts[p, at] + self.records * _ROOM)) for p, at in turn.items()
                }
                if back:
                    far = {p: max(begins[p], at - self.records * _ROOM) for p, at in turn.items()}
                    ranges = {p: Range(far[p], at) for p, at in turn.items() if far[p] < at}
                for record in handle.read(ranges):
                    mine = records[record.partition, turn[record.partition]]
                    mine.append(record)
                    if len(mine) > self.records + starts[record.partition, turn[record.partition]]:
                        mine.pop(0 if back else -1)
        return records


def _turns(starts: Iterable[tuple[TopicPartition, int]]) -> Iterator[dict[TopicPartition, int]]:
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


def _at(move: PositionMove) -> tuple[TopicPartition, int]:
    return move.target, move.offset or 0


def _from(move: PositionMove) -> tuple[TopicPartition, int]:
    return move.source, move.source_offset


def _exact(move: PositionMove) -> bool:
    return move.kind is TranslationKind.EXACT


def _bounded(move: PositionMove) -> bool:
    return move.kind is TranslationKind.BOUNDED and move.records <= _MOST_AGAIN


def _to_find(move: PositionMove) -> int:
    """How many records more than usual are read from a position, to find where it should be."""
    return move.records if _bounded(move) else 0


def _score(group: str, measured: Sequence[tuple[PositionMove, int | None]]) -> GroupScore:
    kinds = Counter(move.kind.value for move, _ in measured)
    predicted = sum(read_again(move) for move, _ in measured)
    return GroupScore(
        group=group,
        re_read=sum_known(again for _, again in measured),
        re_read_at_most=predicted,
        positions=dict(kinds),
    )


def _measured(records: Sequence[Record], expected: Sequence[Record], before: Sequence[Record]) -> Compared:
    """From a bounded position: how many `records` come in front of those that the group's own position has next, `expected`;
    without these, all up to the one that it has last, the last of `before`."""
    contents = [_content(record) for record in records]
    for number, record in enumerate(expected):
        if _content(record) not in contents:
            continue
        at = contents.index(_content(record))
        if number and at < number:
            return Compared(f"wrong: {number - at} records that the source has before {record.offset} are not there")
        return Compared(f"the same behind {max(0, at - number):,} that are read again", max(0, at - number))
    if expected:
        return Compared(f"not compared: none of the source's next records is among {len(records):,}")
    if before and contents and _content(before[-1]) == contents[-1]:
        return Compared(f"the same: {len(records):,} are read again, nothing after them", len(records))
    return Compared(f"{NOTHING_AFTER}, and the last one before it is another one")


def _compared_before(records: Sequence[Record], expected: Sequence[Record]) -> str:
    """Compare the records right before a position that has nothing after it, from the last one back."""
    for actual, wanted in zip(reversed(records), reversed(expected), strict=False):
        if _content(actual) != _content(wanted):
            return f"wrong: before it, offset {actual.offset} is not what the source has at {wanted.offset}"
    if not records or not expected:
        return f"{NOTHING_AFTER}, nor before it on both sides"
    return "the same before it, nothing after it"


def _compared(move: PositionMove, records: Sequence[Record], expected: Sequence[Record] | None) -> str:
    """Compare records with those that the source has at the same position, as far as both have them."""
    if expected is None:
        return "unknown: the source does not answer"
    if move.kind is not TranslationKind.EXACT:
        return f"not compared: {move.kind}"
    for actual, wanted in zip(records, expected, strict=False):
        if _content(actual) != _content(wanted):
            return f"wrong: offset {actual.offset} is not what the source has at {wanted.offset}"
    if not records:
        return NOTHING_AFTER if not expected else "not mirrored yet"
    return "the same" if expected else "wrong: the source has nothing there"


def _content(record: Record) -> tuple[object, ...]:
    return record.key, record.value, record.timestamp_ms, record.headers
