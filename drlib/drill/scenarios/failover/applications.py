"""Steps on a lab's applications: start them with their topics and pointer, wait until they keep up, stop them.

Rules: an application is a process registered with the lab, found by its name. An undo keeps topics that hold records, and a
pointer that existed before.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from pydantic import field_validator

from drlib.drill.actions.applications.pointer import PointerPlace
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence, ReadOnlyAction
from drlib.drill.step.argument_types import Count, Flag, Number, Texts, nearest
from drlib.drill.step.step_output import ScorecardPart
from drlib.drill.testbed import sampler
from drlib.drill.testbed.failover_step import FailoverStep, StateChangeAction
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
    """Create topics, point the applications to the flow's source, start producers and consumers."""

    name = "lab.applications"
    after = "running"

    records_per_second: Number = 3000.0
    """Records per second of the producer."""
    backlog: Count = 30_000
    """Records it produces at once, before that."""
    delays_per_second: Number = 2000.0
    """Records per second of the slower group."""
    moved_alone: Texts = ()
    """Applications that waves move by pointers of their own, which name the source as soon as there is a pointer."""

    @property
    def testbed(self) -> FailoverTestbed:
        traffic = Traffic(float(self.records_per_second), self.backlog, float(self.delays_per_second))
        return FailoverTestbed(self.lab, self.context.run_dir, traffic, flow=self.flow)

    @property
    def entity(self) -> str:
        return f"applications at {self.flow.source}"

    def reached(self) -> bool:
        return all(self.testbed.started(name) for name in APPLICATIONS)

    def observe(self) -> Sequence[Fact]:
        self.testbed.refuse_other_drill()
        found = ((place.entity, place.read().pointer) for place in self._own)
        own = (Fact(entity, None if pointer is None else pointer.active) for entity, pointer in found)
        return (*super().observe(), Fact(self.testbed.pointer_entity, self.testbed.active()), *own)

    @property
    def _own(self) -> tuple[PointerPlace, ...]:
        return tuple(PointerPlace(self.context, self.step, name) for name in self.moved_alone)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        now = {fact.entity: fact.value for fact in observed}
        pointer = self.testbed.pointer_entity
        own = {place.entity: now[place.entity] or self.flow.source for place in self._own}
        wanted = {self.entity: self.after, pointer: now[pointer] or self.flow.source, **own}
        if wanted[pointer] != self.flow.source:
            raise UsageError(
                f"the applications cannot start at {self.flow.source}",
                f"{self.testbed.pointer_path.name} names {wanted[pointer]}",
                "Take the lab down and up again: drlib lab down.",
            )
        return tuple(Change(entity, now[entity], after) for entity, after in wanted.items() if now[entity] != after)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        self.testbed.start_applications()
        sampler.start(self.testbed.run_dir, FlightCounts(self.testbed))
        rows: list[dict[str, Scalar]] = [
            {"process": process.name, "pid": process.pid, "alive": process.alive}
            for process in self.testbed.lab.status()
        ]
        self.show(rows)
        return {"started": len(APPLICATIONS)}

    def probe(self, changes: Changes) -> Reach:
        if self.reached() and self.testbed.pointer_path.exists():
            return Reach.DONE
        any_of = any(self.testbed.started(name) for name in APPLICATIONS) or self.testbed.pointer_path.exists()
        return Reach.PARTLY if any_of and changes else Reach.UNTOUCHED

    def undo(self, changes: Changes) -> None:
        """Stop them. The topics stay, as they hold records; so does a pointer that existed before."""
        entities = {change.entity for change in changes}
        if self.entity in entities:
            self.testbed.applications.stop(*APPLICATIONS)
        if self.testbed.pointer_entity in entities:
            self.testbed.pointer_path.unlink(missing_ok=True)
        for place in self._own:
            if place.entity in entities and place.file is not None:
                place.file.unlink(missing_ok=True)


class WaitSteady(ReadOnlyAction, FailoverStep):
    """Wait until every application makes progress and the mirror keeps up."""

    name = "lab.steady"

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        testbed = self.testbed
        traffic = testbed.traffic
        sampler.start(testbed.run_dir, FlightCounts(testbed))
        done = testbed.applications.done
        for what, count, enough in (
            ("the backlog is out", lambda: done("flights"), traffic.backlog + 2 * traffic.records_per_second),
            ("the mirror keeps up", lambda: -testbed.mirror().lag, -traffic.records_per_second),
            ("arrivals keeps up", lambda: done("arrivals"), traffic.backlog),
            ("delays makes progress", lambda: done("delays"), 1),
        ):
            testbed.wait_for_count(what, count, enough, 60, abort)
        self.show_progress()
        return {"mirror_lag_records": testbed.mirror().lag}


class StopApplications(StateChangeAction):
    """SIGTERM the applications, so that histories end whole."""

    name = "lab.stop"
    after = "stopped"

    applications: Texts = APPLICATIONS
    """Which applications."""
    read_out: Flag = True
    """Whether producers are stopped first, and consumers once they have read everything."""

    @field_validator("applications")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in APPLICATIONS:
                known = f"It has {', '.join(APPLICATIONS)}."
                hint = nearest(name, APPLICATIONS, known)
                raise UsageError(f"{cls.name}: {name}", "the lab has no such application", hint)
        return names

    @property
    def entity(self) -> str:
        return f"end of {', '.join(self.applications)}"

    @property
    def _moment(self) -> str:
        return f"{self.step}-stopped"

    def reached(self) -> bool:
        kept = moments.at(self.context.run_dir, self._moment)
        return kept is not None and not any(self.testbed.applications.runs(name) for name in self.applications)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        moments.once(self.context.run_dir, self._moment)
        self.testbed.applications.stop(
            *(name for name in self.applications if name in PRODUCERS and name != ENDS_BY_ITSELF)
        )
        if self.read_out:
            self._read_out(abort)
        self.testbed.applications.stop(
            *(name for name in self.applications if name in GROUPS or name == ENDS_BY_ITSELF)
        )
        self.show_progress()
        samples = sampler.stop(self.context.run_dir)
        self.score(ScorecardPart(samples=samples))
        return {"stopped": ", ".join(self.applications), "records": self.testbed.applications.done("flights")}

    def _read_out(self, abort: Abort) -> None:
        """Wait until every group to be stopped has committed the end of the active cluster's local topic."""
        alias = self.testbed.active() or self.flow.source
        local = [TopicPartition("flights", partition) for partition in range(PARTITIONS)]
        with Cluster(self.context.cluster(alias)) as cluster:
            ends = cluster.log_ends(local)

            def read(group: str) -> int:
                positions = cluster.group_offsets(group)
                return sum(min(positions[p].offset, ends[p]) for p in local if p in positions)

            for group in (
                name for name in self.applications if name in GROUPS and self.testbed.applications.runs(name)
            ):
                condition = f"{group} has read everything"
                self.testbed.wait_for_count(condition, partial(read, group), sum(ends.values()), 60, abort)

    def probe(self, changes: Changes) -> Reach:
        if self.reached():
            return Reach.PARTLY if changes else Reach.DONE  # act also keeps the samples
        return Reach.UNTOUCHED
