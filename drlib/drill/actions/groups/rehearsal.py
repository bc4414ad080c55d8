"""Actions that rehearse a failover without touching any group of an application: `groups.shadow` and `canary.read`.

Rules: a shadow group is `drill.<run>.<group>`, so it belongs to one run; undoing the step deletes every shadow of that run,
also those of a process that was killed. The canary reads without joining any group. What it reads is compared with what the
source has right after the group's position, by key, value, timestamp and headers; where the source does not answer, the
comparison is unknown, which is not a pass.
Not for: moving anything (`translate`).
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from drlib.config.patterns.selection import matches
from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.commit import TIMEOUT_S
from drlib.drill.actions.groups.rules import PositionMove
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
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Scalar

PREFIX: Final = "drill."
SHADOW: Final = "shadow"
_ROOM: Final = 64  # offsets looked through for each record wanted: markers and aborted records have offsets too
CHECK: Final = "a canary reads the right records"


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
        mine = [m for m in moves if m.offset is not None and matches(self.groups, m.group.removeprefix(prefix))]
        read = self._read(self.target_cluster, {(m.target, m.offset or 0) for m in mine}, abort)
        try:
            source_records = self._read(self.source_cluster, {(m.source, m.source_offset) for m in mine}, abort)
            silence = ""
        except (Unreachable, UsageError) as error:
            source_records, silence = {}, str(error)
        rows: list[dict[str, Scalar]] = []
        wrong: list[str] = []
        for move in mine:
            records = read[move.target, move.offset or 0]
            expected = source_records.get((move.source, move.source_offset))
            verdict = _compared(move, records, expected)
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
                    "compared": verdict,
                }
            )
        self.show(rows)
        compared = sum(row["compared"] == "the same" for row in rows)
        total = sum(len(records) for records in read.values())
        verdict = Verdict.FAIL if wrong else Verdict.UNKNOWN if silence or not total else Verdict.PASS
        evidence = "; ".join(wrong[:3]) or silence or f"{total} records, {compared} of {len(rows)} positions compared"
        self.score(ScorecardPart(checks=(Check(name=CHECK, verdict=verdict, evidence=evidence),)))
        if wrong:
            raise Deviated(
                f"{len(wrong)} of {len(rows)} positions lead to other records",
                "; ".join(wrong[:3]),
                "Do not fail over by this map. See the journal with drlib status, and report it.",
            )
        return {"positions": len(rows), "records": total, "the_same": compared, "source": silence or "it answers"}

    def _read(
        self, cluster: ClusterSettings, starts: set[tuple[TopicPartition, int]], abort: Abort
    ) -> dict[tuple[TopicPartition, int], list[Record]]:
        """Read the next records from each of `starts`, at most `records` of each."""
        records: dict[tuple[TopicPartition, int], list[Record]] = {start: [] for start in starts}
        with Cluster(cluster, timeout_s=TIMEOUT_S) as handle:
            existing = handle.topics({partition.topic for partition, _ in starts})
            missing = {partition.topic for partition, _ in starts} - existing.keys()
            if missing:
                raise UsageError(
                    f"topics {', '.join(sorted(missing))}", f"they are not on {cluster.alias}", "See: drlib status."
                )
            ends = handle.log_ends({partition for partition, _ in starts})
            for turn in _turns(starts):
                abort.check()
                ranges = {p: Range(at, min(ends[p], at + self.records * _ROOM)) for p, at in turn.items()}
                for record in handle.read(ranges):
                    mine = records[record.partition, turn[record.partition]]
                    if len(mine) < self.records:
                        mine.append(record)
        return records


def _turns(starts: set[tuple[TopicPartition, int]]) -> Iterator[dict[TopicPartition, int]]:
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
        return "nothing to read there yet" if not expected else "not mirrored yet"
    return "the same" if expected else "wrong: the source has nothing there"


def _content(record: Record) -> tuple[object, ...]:
    return record.key, record.value, record.timestamp_ms, record.headers
