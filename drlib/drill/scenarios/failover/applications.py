"""Steps on a lab's applications: start them with their topics and pointer, wait until they keep up, stop them.

Rules: an application is a process on the lab's record, known by name. Topics that hold records are left where they are by
every undo, and so is a pointer that was there before.
Arguments: `lab.applications` records_per_second, backlog, delays_per_second · `lab.steady` · `lab.stop` applications, read_out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drlib.client.pointer_file import read as read_pointer_file
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence, ReadOnlyAction
from drlib.drill.step.arguments import flag, number, texts
from drlib.drill.step.cluster_identity import cluster_id
from drlib.drill.step.step_output import ScorecardPart
from drlib.drill.testbed import sampler
from drlib.drill.testbed.failover_step import StagedStep, StateChangeAction
from drlib.drill.testbed.failover_testbed import (
    APPLICATIONS,
    ENDS_BY_ITSELF,
    GROUPS,
    PRODUCERS,
    FailoverTestbed,
    Traffic,
)
from drlib.drill.testbed.traffic_counts import FlightCounts
from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar

PARTITIONS: Final = 6


class StartApplications(StateChangeAction):
    """Topics, the pointer at the flow's source, producers and consumers. Raises `UsageError` for another drill's."""

    after = "running"

    def __init__(self, step: StagedStep) -> None:
        self.step = step
        usual = Traffic()
        self.stage = step.stage(
            Traffic(
                float(number(step.call, "records_per_second", usual.records_per_second)),
                int(number(step.call, "backlog", usual.backlog)),
                float(number(step.call, "delays_per_second", usual.delays_per_second)),
            )
        )

    @property
    def entity(self) -> str:
        return f"applications at {self.step.flow.source}"

    @property
    def _pointer(self) -> str:
        return f"active cluster, as {self.stage.pointer_path.name} says"

    def holds(self) -> bool:
        return all(self.stage.started(name) for name in APPLICATIONS)

    def observe(self) -> Sequence[Fact]:
        self.stage.refuse_other_drill()
        return (*super().observe(), Fact(self._pointer, _active(self.stage)))

    def changes(self, observed: Sequence[Fact]) -> Changes:
        now = {fact.entity: fact.value for fact in observed}
        wanted = {self.entity: self.after, self._pointer: now[self._pointer] or self.step.flow.source}
        if wanted[self._pointer] != self.step.flow.source:
            raise UsageError(
                f"the applications cannot start at {self.step.flow.source}",
                f"{self.stage.pointer_path.name} names {wanted[self._pointer]}",
                "Take the lab down and up again: drlib lab down.",
            )
        return tuple(Change(entity, now[entity], after) for entity, after in wanted.items() if now[entity] != after)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        self.stage.start_applications()
        sampler.start(self.stage.run_dir, FlightCounts(self.stage))
        rows: list[dict[str, Scalar]] = [
            {"process": one.name, "pid": one.pid, "alive": one.alive} for one in self.stage.lab.status()
        ]
        self.step.show(rows)
        return {"started": len(APPLICATIONS)}

    def probe(self, changes: Changes) -> Reach:
        if self.holds() and self.stage.pointer_path.exists():
            return Reach.DONE
        any_of = any(self.stage.started(name) for name in APPLICATIONS) or self.stage.pointer_path.exists()
        return Reach.PARTLY if any_of and changes else Reach.UNTOUCHED

    def undo(self, changes: Changes) -> None:
        """Stop them. The topics stay, as they hold records; so does a pointer that was there before."""
        entities = {change.entity for change in changes}
        if self.entity in entities:
            self.stage.applications.stop(*APPLICATIONS)
        if self._pointer in entities:
            self.stage.pointer_path.unlink(missing_ok=True)


class WaitSteady(ReadOnlyAction):
    """Wait until everybody makes progress and the mirror keeps up: changes nothing."""

    def __init__(self, step: StagedStep) -> None:
        self.step = step
        self.stage = step.stage()

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        stage, traffic = self.stage, self.stage.traffic
        sampler.start(stage.run_dir, FlightCounts(stage))
        enough = traffic.backlog + 2 * traffic.records_per_second
        for what, holds, deadline_s in (
            ("the backlog is out", lambda: stage.applications.done("flights") >= enough, 60),
            ("the mirror keeps up", lambda: stage.mirror().lag < traffic.records_per_second, 60),
            ("arrivals keeps up", lambda: stage.applications.done("arrivals") >= traffic.backlog, 60),
            ("delays makes progress", lambda: stage.applications.done("delays") > 0, 30),
        ):
            stage.wait(what, holds, deadline_s, abort)
        self.step.progress(stage)
        return {"mirror_lag_records": stage.mirror().lag}

    def cluster_id(self) -> str:
        return cluster_id(self.step.source)


class StopApplications(StateChangeAction):
    """SIGTERM, so that histories end whole; with `read_out` producers first, and consumers once they have read it all."""

    after = "stopped"

    def __init__(self, step: StagedStep) -> None:
        super().__init__(step)
        self.names = texts(step.call, "applications", APPLICATIONS)
        self.reads_out = flag(step.call, "read_out", True)
        for name in self.names:
            if name not in APPLICATIONS:
                known = ", ".join(APPLICATIONS)
                raise UsageError(f"{step.call.name}: {name}", "the lab has no such application", f"It has {known}.")

    @property
    def entity(self) -> str:
        return f"end of {', '.join(self.names)}"

    @property
    def _moment(self) -> str:
        return f"{self.step.call.step}-stopped"

    def holds(self) -> bool:
        kept = moments.at(self.step.place.run_dir, self._moment)
        return kept is not None and not any(self.stage.applications.runs(name) for name in self.names)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        moments.once(self.step.place.run_dir, self._moment)
        self.stage.applications.stop(*(name for name in self.names if name in PRODUCERS and name != ENDS_BY_ITSELF))
        if self.reads_out:
            self._read_out(abort)
        self.stage.applications.stop(*(name for name in self.names if name in GROUPS or name == ENDS_BY_ITSELF))
        self.step.progress(self.stage)
        samples = sampler.stop(self.step.place.run_dir)
        self.step.score(ScorecardPart(samples=samples))
        return {"stopped": ", ".join(self.names), "records": self.stage.applications.done("flights")}

    def _read_out(self, abort: Abort) -> None:
        """Wait until every group that is to be stopped stands at the end of the local topic of the active cluster."""
        alias = _active(self.stage) or self.step.flow.source
        local = [TopicPartition("flights", partition) for partition in range(PARTITIONS)]
        with Cluster(self.step.place.cluster(alias)) as cluster:
            ends = cluster.log_ends(local)

            def through(group: str) -> bool:
                positions = cluster.group_offsets(group)
                return all(p in positions and positions[p].offset >= ends[p] for p in local if ends[p])

            for group in (name for name in self.names if name in GROUPS and self.stage.applications.runs(name)):
                what = f"{group} has read everything"
                self.stage.wait(what, lambda group=group: through(group), 60, abort)  # type: ignore[misc]

    def probe(self, changes: Changes) -> Reach:
        if self.holds():
            return Reach.PARTLY if changes else Reach.DONE  # act also keeps the samples
        return Reach.UNTOUCHED


def _active(stage: FailoverTestbed) -> str | None:
    """The cluster the pointer names, None when there is no pointer."""
    try:
        return read_pointer_file(stage.pointer_path).active
    except FileNotFoundError:
        return None
