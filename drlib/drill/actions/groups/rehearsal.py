"""Rehearsing a failover where it disturbs nobody: shadow groups get the translated positions, and a canary reads from each.

Rules: no group of an application is touched; a shadow is `drill.<run>.<group>`, so it belongs to one run, and undoing the step
deletes every shadow of that run, also those of a process that was killed. The canary reads without joining any group. What
it finds is compared with what the source has right after the group's position, by key, value, timestamp and headers;
where the source does not answer, what was read is told and the comparison is unknown, which is not a pass.
Arguments: `groups.shadow` as `groups.translate` · `canary.read` records (for each group and partition), groups (patterns).
Not for: moving anything (`group_actions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from drlib.config.patterns.selection import matches, validate
from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.commit import TIMEOUT_S
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.actions.groups.translate import TranslateGroups
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.step.action import Action, ActionMaker, Changes, Evidence, StepCall
from drlib.drill.step.arguments import number, texts
from drlib.drill.step.context import DrillContext
from drlib.drill.step.move_step import MovingStep, TargetStep
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import Deviated, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range, Record
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition, TranslationKind
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Check, Verdict

PREFIX: Final = "drill."
SHADOW: Final = "shadow"
_ROOM: Final = 64  # offsets looked through for each record wanted: markers and aborted records have offsets too
CHECK: Final = "a canary reads the right records"


def makers(workplace: DrillContext) -> dict[str, ActionMaker]:
    """The actions of this module. Making one raises `UsageError` for an argument that is wrong."""

    def shadow(call: StepCall) -> Action:
        return ShadowGroups(MovingStep(workplace, call))

    def canary(call: StepCall) -> Action:
        return ReadCanary(MovingStep(workplace, call))

    return {"groups.shadow": shadow, "canary.read": canary}


class ShadowGroups(TranslateGroups):
    """The translated positions of every group, committed on the target to a shadow of it."""

    use = SHADOW

    @property
    def entity(self) -> str:
        return f"shadow groups {self._prefix}* on {self.step.flow.target}"

    @property
    def _prefix(self) -> str:
        return f"{PREFIX}{self.step.place.run_dir.name}."

    def named(self, group: str) -> str:
        return self._prefix + group

    def changes(self, observed: Sequence[Fact]) -> Changes:
        (before,) = (fact.value for fact in observed if fact.entity == self.entity)
        return (Change(self.entity, before, f"at the records that groups {', '.join(self.groups)} have reached"),)

    def undo(self, changes: Changes) -> None:
        """Delete every shadow of this run, whoever left it there."""
        with Cluster(self.step.target, timeout_s=TIMEOUT_S) as cluster:
            for listing in cluster.groups():
                if listing.group.startswith(self._prefix):
                    cluster.delete_group(listing.group)
        positions.forget(self.step.place.run_dir, self.step.flow.target, self.use)


class ReadCanary(TargetStep):
    """Read on from where each shadow stands, and compare with what the source has after the group's own position."""

    def __init__(self, step: MovingStep) -> None:
        super().__init__(step)
        self.records = int(number(step.call, "records", 5))
        self.groups = texts(step.call, "groups", (".*",))
        validate(self.groups)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `Deviated` naming the first record that is not the right one."""
        run_dir, flow = self.step.place.run_dir, self.step.flow
        moves = positions.read(run_dir, flow.target, SHADOW)
        if moves is None:
            raise UsageError(
                "the canary has nothing to read", "no shadow groups were made", "Add groups.shadow before it."
            )
        prefix = f"{PREFIX}{run_dir.name}."
        mine = [m for m in moves if m.offset is not None and matches(self.groups, m.group.removeprefix(prefix))]
        read = self._read(self.step.target, {(m.target, m.offset or 0) for m in mine}, abort)
        try:
            wanted = self._read(self.step.source, {(m.source, m.source_offset) for m in mine}, abort)
            silence = ""
        except (Unreachable, UsageError) as error:
            wanted, silence = {}, str(error)
        rows: list[dict[str, Scalar]] = []
        wrong: list[str] = []
        for move in mine:
            found = read[move.target, move.offset or 0]
            expected = wanted.get((move.source, move.source_offset))
            verdict = _compared(move, found, expected)
            if verdict.startswith("wrong"):
                wrong.append(f"{move.group.removeprefix(prefix)} in {move.target} at {move.offset}: {verdict}")
            rows.append(
                {
                    "group": move.group.removeprefix(prefix),
                    "topic": move.target.topic,
                    "partition": move.target.partition,
                    "from": move.offset,
                    "meaning": move.kind.value,
                    "records read": len(found),
                    "compared": verdict,
                }
            )
        self.step.show(rows)
        compared = sum(row["compared"] == "the same" for row in rows)
        total = sum(len(found) for found in read.values())
        verdict = Verdict.FAIL if wrong else Verdict.UNKNOWN if silence or not total else Verdict.PASS
        told = "; ".join(wrong[:3]) or silence or f"{total} records, {compared} of {len(rows)} positions compared"
        self.step.score(ScorecardPart(checks=(Check(name=CHECK, verdict=verdict, evidence=told),)))
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
        """The next records from each of `starts`, as many as there are and no more than wanted."""
        found: dict[tuple[TopicPartition, int], list[Record]] = {start: [] for start in starts}
        with Cluster(cluster, timeout_s=TIMEOUT_S) as handle:
            there = handle.topics({partition.topic for partition, _ in starts})
            missing = {partition.topic for partition, _ in starts} - there.keys()
            if missing:
                raise UsageError(
                    f"topics {', '.join(sorted(missing))}", f"they are not on {cluster.alias}", "Look at it."
                )
            ends = handle.log_ends({partition for partition, _ in starts})
            for turn in _turns(starts):
                abort.check()
                ranges = {p: Range(at, min(ends[p], at + self.records * _ROOM)) for p, at in turn.items()}
                for record in handle.read(ranges):
                    mine = found[record.partition, turn[record.partition]]
                    if len(mine) < self.records:
                        mine.append(record)
        return found


def _turns(starts: set[tuple[TopicPartition, int]]) -> Iterator[dict[TopicPartition, int]]:
    """Starts put together so that a partition is in each only once: one reader reads it from one place."""
    rest = sorted(starts, key=lambda start: (start[1], start[0]))
    while rest:
        turn: dict[TopicPartition, int] = {}
        left = []
        for partition, at in rest:
            if partition in turn:
                left.append((partition, at))
            else:
                turn[partition] = at
        yield turn
        rest = left


def _compared(move: PositionMove, found: Sequence[Record], expected: Sequence[Record] | None) -> str:
    """What is read has to be what the source has there, as far as both have it."""
    if expected is None:
        return "unknown: the source does not answer"
    if move.kind is not TranslationKind.EXACT:
        return f"not compared: {move.kind}"
    for one, other in zip(found, expected, strict=False):
        if _content(one) != _content(other):
            return f"wrong: offset {one.offset} is not what the source has at {other.offset}"
    if not found:
        return "nothing to read there yet" if not expected else "not mirrored yet"
    return "the same" if expected else "wrong: the source has nothing there"


def _content(record: Record) -> tuple[object, ...]:
    return record.key, record.value, record.timestamp_ms, record.headers
