"""Actions on the tail of a cluster that came back, the records that only it has: `tail.list`, `tail.settle`, and the
aliases `tail.recover` and `tail.quarantine`.

Rules: the drill's flow is the one that failed over: its source came back, its target serves. Listing changes nothing. What
is settled is in the target's ledger in the same transactions as the records, so a step that was killed continues at the
exact record. A recovered record is not taken back: applications may have read it. Nothing is done while workers of the flow
run, or the source is still written. A record that is older than others of its key is reported, or set aside with `keep_order`.
Where both directions copy the flow's topics there is nothing to settle: `tail.list` counts what crossed late.
Not for: groups' positions after it (`actions`).
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from drlib.config.both_ways.shared_topics import all_shared
from drlib.config.settings import MirrorSettings
from drlib.drill.actions.applications.pointer import PointerPlace
from drlib.drill.actions.moving.late_records import find_crossed
from drlib.drill.actions.moving.late_records import rows as late_rows
from drlib.drill.plan.plan import Change, Drill, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Changes, DrillAction, Evidence, ReadOnlyAction
from drlib.drill.step.argument_types import Flag, Texts
from drlib.drill.step.cluster_identity import cluster_id
from drlib.drill.step.context import DrillContext
from drlib.drill.step.flow_arguments import refuse_no_way_back
from drlib.errors import Aborted, Deviated, DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.mirror.offsets.unreplicated.find import UnreplicatedRecords, find_unreplicated
from drlib.mirror.offsets.unreplicated.rules import Settle, quarantine_topic
from drlib.mirror.offsets.unreplicated.settle import Settled, count_sent_again, read_ledger, settle_unreplicated
from drlib.model import Flow
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar

_SAMPLE: Final = 5  # groups named in evidence; all are in the rows


def settings_of(workplace: DrillContext) -> MirrorSettings:
    """The mirror's settings, its clusters as applications reach them."""
    return replace(workplace.mirror_settings(), clusters=dict(workplace.clusters))


class ListTail(ReadOnlyAction):
    """List what only the source has, and what only the target has."""

    name = "tail.list"

    topics: Texts = ()
    """Which topics; by default every one that the flow mirrors."""

    def check(self) -> None:
        super().check()
        refuse_no_way_back(self.context, self.context.flow)

    def observe(self) -> Sequence[Fact]:
        return ()  # the source may be away when the plan is made, and a tail moves until it is fenced

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        settings, flow = settings_of(self.context), self.context.flow
        if all_shared(settings, flow):
            return self._crossed(settings, flow)
        tail = find_unreplicated(settings, flow, self.topics or None, wait=abort.wait)
        abort.check()
        other, why = _other(self.context, settings, self.topics or None, abort)
        self.show(rows(tail))
        details.write_rows(self.context.run_dir, f"{self.step}.examples", _examples(tail))
        span = tail.span_ms
        return {
            "tail_records": tail.records,
            "tail_bytes": tail.bytes,
            "tail_first_ms": span[0] if span else None,
            "tail_last_ms": span[1] if span else None,
            "tail_keys": sum(len(keys) for keys in tail.keys.values()),
            "tail_still_growing": tail.growing,
            "in_doubt_records": tail.doubtful,
            f"only_on_{flow.target}_records": other,
            **({f"only_on_{flow.target}_unknown": why} if why else {}),
            "read_already_by": _said(tail.read_there),
            "examples": len(tail.examples),
            "more_than_examples": tail.rest,
        }

    def _crossed(self, settings: MirrorSettings, flow: Flow) -> Evidence:
        found, why = find_crossed(settings, flow, PointerPlace(self.context, self.step).read().pointer)
        if found is None:
            return {"crossed_late_records": None, "crossed_late_unknown": why}
        self.show(late_rows(found, flow))
        return {
            "crossed_late_records": found.records,
            "still_to_cross_records": found.left,
            "read_already_by_at_most" if found.read_there_at_most else "read_already_by": _said(found.read_there),
            **({"crossed_late_unknown": why} if why else {}),
        }

    def cluster_id(self) -> str:
        return cluster_id(self.context.cluster(self.context.flow.source))


class TailAction(DrillAction):
    """Recover or quarantine the tail, or leave it where it is."""

    topics: Texts = ()
    """Which topics; by default every one that the flow mirrors."""
    keep_order: Flag = False
    """Whether records older than others of their key are set aside instead of recovered."""

    def check(self) -> None:
        super().check()
        refuse_no_way_back(self.context, self.context.flow)

    @property
    @abstractmethod
    def settle(self) -> Settle: ...

    @property
    def entity(self) -> str:
        return f"run that settled the tail of {self.context.flow} last"

    def observe(self) -> Sequence[Fact]:
        with Cluster(self.context.cluster(self.context.flow.target)) as target:
            return (Fact(self.entity, read_ledger(target).last_run(self.context.flow)),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        before = {fact.entity: fact.value for fact in observed}[self.entity]
        if (
            self.settle is Settle.LEAVE
            or before == self._mark
            or all_shared(settings_of(self.context), self.context.flow)
        ):
            return ()
        return (Change(self.entity, before, self._mark),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        settings, flow = settings_of(self.context), self.context.flow
        if all_shared(settings, flow):
            return {"settled": "nothing: both directions copy these topics, so each record is on both clusters"}
        tail = find_unreplicated(settings, flow, self.topics or None, wait=abort.wait)
        abort.check()
        if self.settle is Settle.LEAVE:
            return {
                "left": tail.records,
                "sent_again_by_producers": count_sent_again(settings, tail),
                "read_already_by": _said(tail.read_there),
            }
        done = settle_unreplicated(
            settings, tail, self.settle, self._mark, keep_order=self.keep_order, check=abort.check
        )
        self.show(_settled(flow, tail, done))
        again = tail.read_there if self.settle is Settle.RECOVER else {}
        return {
            "tail_records": tail.records,
            "recovered": done.recovered,
            "quarantined": done.in_quarantine,
            "sent_again_by_producers": done.sent_again,
            "set_aside_to_keep_order": done.set_aside,
            "unaccounted": tail.records - done.recovered - done.in_quarantine,
            "behind_newer_records_of_their_key": done.late,
            "keys_on_both_sides": done.both,
            "read_again_by": _said(again),
        }

    def probe(self, changes: Changes) -> Reach:
        """Its progress is in the ledger, from where `act` continues; when all is done, it only counts again."""
        return Reach.PARTLY if self._began() else Reach.UNTOUCHED

    def undo(self, changes: Changes) -> None:
        """Raises `Deviated`: recovered records may have been read already, and a quarantine took nothing away."""
        if changes and self._began():
            raise Deviated(
                f"what was settled of the tail of {self.context.flow} stays so",
                f"its records stand on {self.context.flow.target}, where applications may have read them",
                "Nothing is lost or doubled by leaving them there.",
            )

    def _began(self) -> bool:
        with Cluster(self.context.cluster(self.context.flow.target)) as target:
            known = read_ledger(target)
        mine = any(progress.run == self._mark for progress in known.progress.values())
        return mine or known.last_run(self.context.flow) == self._mark

    def cluster_id(self) -> str:
        return cluster_id(self.context.cluster(self.context.flow.target))

    @property
    def _mark(self) -> str:
        return f"{self.context.run_dir.name}/{self.step}"


class SettleTail(TailAction):
    """Recover or quarantine the tail, or leave it where it is."""

    name = "tail.settle"

    how: Settle
    """What to do with the tail."""

    @property
    def settle(self) -> Settle:
        return self.how


class RecoverTail(TailAction):
    """Recover the tail: its records are written to the target."""

    name = "tail.recover"

    @property
    def settle(self) -> Settle:
        return Settle.RECOVER


class QuarantineTail(TailAction):
    """Quarantine the tail: its records are written to a topic of their own on the target."""

    name = "tail.quarantine"

    @property
    def settle(self) -> Settle:
        return Settle.QUARANTINE


def settles_as(drill: Drill) -> Settle | None:
    """What becomes of the unreplicated records by the drill's steps; None where none of them settles any."""
    kinds: dict[str, type[TailAction]] = {kind.name: kind for kind in (SettleTail, RecoverTail, QuarantineTail)}
    found = (kinds[step.action.name].parse(step.action, step.name) for step in drill.steps if step.action.name in kinds)
    return next((each.settle for each in found), None)


def rows(tail: UnreplicatedRecords) -> list[dict[str, Scalar]]:
    """One row a partition that has a tail."""
    return [
        {
            "topic": part.partition.topic,
            "partition": part.partition.partition,
            "mirrored to": part.mirrored,
            "ends at": part.end,
            "records": part.records,
            "bytes": part.bytes,
            "first ms": part.first_ms,
            "last ms": part.last_ms,
        }
        for part in tail.partitions
        if part.records or part.doubtful
    ]


def _examples(tail: UnreplicatedRecords) -> list[dict[str, Scalar]]:
    return [
        {
            "topic": example.partition.topic,
            "partition": example.partition.partition,
            "offset": example.offset,
            "timestamp ms": example.timestamp_ms,
            "key": example.key,
            "bytes": example.bytes,
        }
        for example in tail.examples
    ]


def _settled(flow: Flow, tail: UnreplicatedRecords, done: Settled) -> list[dict[str, Scalar]]:
    quarantines = ", ".join(quarantine_topic(flow.source, topic) for topic in tail.topics)
    return [
        {"result": f"recovered to {', '.join(tail.topics)} on {flow.target}", "records": done.recovered},
        {"result": f"quarantined in {quarantines}", "records": done.quarantined},
        {"result": f"set aside in {quarantines}, older than others of its key", "records": done.set_aside},
        {"result": f"set aside in {quarantines}, sent again by its producer", "records": done.sent_again},
        {"result": "recovered behind newer records of its key", "records": done.late},
    ]


def _other(
    place: DrillContext, settings: MirrorSettings, topics: tuple[str, ...] | None, abort: Abort
) -> tuple[int | None, str]:
    """How many records only the target has, which the reverse flow mirrors; or why that is unknown."""
    back = place.flow.reverse
    try:
        unreplicated = find_unreplicated(settings, back, topics, wait=abort.wait)
    except Aborted:
        raise
    except DrlibError as error:
        return None, str(error)
    return unreplicated.records, ""


def _said(records: Mapping[str, int]) -> str:
    """Groups with the most records first."""
    some = sorted(((n, group) for group, n in records.items() if n), reverse=True)
    listed = [f"{group} {n}" for n, group in some[:_SAMPLE]]
    return ", ".join([*listed, *([f"{len(some) - _SAMPLE} more"] if len(some) > _SAMPLE else [])]) or "none"
