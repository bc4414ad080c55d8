"""Steps on the workers of a lab's mirror: start one, kill one during traffic, stop one.

Rules: each worker has a number, from 1 on, and is started and killed once. A kill records its moment before the signal.
"""

import signal

from drlib import clock
from drlib.config.replication_policy import Names
from drlib.drill.plan.plan import Drill
from drlib.drill.plan.progress import Reach
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Flag, Positive
from drlib.drill.testbed import sampler
from drlib.drill.testbed.failover_step import StateChangeAction
from drlib.drill.testbed.failover_testbed import FailoverTestbed
from drlib.drill.testbed.traffic_counts import FlightCounts
from drlib.errors import UsageError
from drlib.lab.workload.mirrors import not_crossed
from drlib.lab.workload.topics import SOURCE_TOPICS, log_ends
from drlib.runs.abort import Abort
from drlib.runs.scorecard import Mark


class WorkerAction(StateChangeAction):
    """A step on one worker of the mirror."""

    number: Positive = 1
    """Which worker, from 1 on."""

    @property
    def worker(self) -> str:
        return self.testbed.worker(self.number).name

    @property
    def started(self) -> bool:
        """Whether this worker was started, and not undone."""
        return any(record.name == self.worker for record in self.lab.registry.records())


class StartMirror(WorkerAction):
    """Start a worker, and wait until it owns its lanes and keeps up with the traffic."""

    name = "lab.mirror"
    after = "started"

    lanes: Positive = 2
    """How many lanes the mirror has."""
    caught_up: Flag = True
    """Whether to wait until it has mirrored what the source had when it began to run."""
    names: Names | None = None
    """How mirror topics are named; by default as the lab's file says. With `identical` it copies every topic in both directions
    under one name, and the drill's topics are created on both clusters before it starts."""

    def check(self) -> None:
        """Raises `UsageError` where the lab names topics otherwise, and cannot be changed any more (`name_topics`)."""
        super().check()
        if self.names is not None and self.testbed.shared != (self.names is Names.IDENTICAL):
            raise UsageError(
                f"{self.name}: names: {self.names}",
                "this lab names mirror topics otherwise: its users have rights for prefixed names alone"
                if self.lab.operator
                else "this lab names mirror topics otherwise, and a mirror has run on it",
                "Leave lab_dir out, so that the run has a lab of its own, or take this one down: drlib lab down.",
            )

    @property
    def entity(self) -> str:
        return f"worker {self.worker} of {self.flow}"

    def reached(self) -> bool:
        return self.started

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        testbed = FailoverTestbed(self.lab, self.context.run_dir, lanes=self.lanes, flow=self.flow)
        sampler.start(testbed.run_dir, FlightCounts(testbed))
        if testbed.shared:
            testbed.share(SOURCE_TOPICS)
        testbed.worker(self.number).launch()
        testbed.wait("the mirror runs", testbed.mirror_runs, 60, abort)
        if testbed.shared:
            testbed.wait("both directions copy the topics", lambda: testbed.copies(SOURCE_TOPICS), 60, abort)
        at_ms = clock.now_ms()
        if self.number > 1:
            self.mark(
                Mark(name="mirror back", at_ms=at_ms, detail="it read its journal and the target's log, and continued")
            )
        if self.caught_up:
            ends = log_ends(self.lab.clusters[self.flow.source], [topic.name for topic in SOURCE_TOPICS])
            testbed.wait_for_count(
                "the mirror caught up", lambda: -not_crossed(testbed.mirror(), self.flow, ends), 0, 60, abort
            )
        self.show_progress()
        return {"worker": self.worker, "mirror_lag_records": testbed.mirror().lag}

    def probe(self, changes: Changes) -> Reach:
        # a live worker may not have caught up: act waits
        return Reach.PARTLY if self.started and changes else Reach.UNTOUCHED

    def undo(self, changes: Changes) -> None:
        """Stop it after it has produced what it fetched."""
        if changes:
            self.testbed.worker(self.number).stop()


class EndingAction(WorkerAction):
    """A step that ends a worker. It is planned before the worker is there."""

    before = "started by an earlier step"

    def undo(self, changes: Changes) -> None:
        """Start it again, where a rollback needs a running mirror."""
        if changes and not self.testbed.mirror_runs():
            self.testbed.worker(self.number).launch()
            self.testbed.wait("the mirror runs", self.testbed.mirror_runs, 60)


class KillMirror(EndingAction):
    """SIGKILL a worker during traffic, and wait until the applications continue."""

    name = "lab.kill_mirror"
    after = "killed"

    @property
    def entity(self) -> str:
        return f"process of worker {self.worker} (SIGKILL)"

    @property
    def _moment(self) -> str:
        return f"{self.worker}-killed"

    def reached(self) -> bool:
        kept = moments.at(self.context.run_dir, self._moment)
        return kept is not None and not self.lab.registry.alive(self.worker)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        at_ms = moments.once(self.context.run_dir, self._moment)
        self.mark(Mark(name="mirror killed", at_ms=at_ms, detail="SIGKILL"))
        self.lab.registry.kill(self.worker)
        done_before, pace = self.testbed.applications.done("flights"), self.testbed.traffic.records_per_second
        self.testbed.wait(
            "traffic continues", lambda: self.testbed.applications.done("flights") > done_before + pace, 30, abort
        )
        self.show_progress()
        return {"killed": self.worker, "at_ms": at_ms}


class StopMirror(EndingAction):
    """SIGTERM a worker: it sends and journals what it has fetched, and exits."""

    name = "lab.stop_mirror"
    after = "stopped"

    @property
    def entity(self) -> str:
        return f"process of worker {self.worker} (SIGTERM)"

    def reached(self) -> bool:
        return self.started and not self.lab.registry.alive(self.worker)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.lab.registry.signal(self.worker, signal.SIGTERM)
        alive = self.lab.registry.alive
        self.testbed.wait("the mirror drained", lambda: not alive(self.worker), 30, abort)
        left = self.testbed.mirror().lag
        self.show_progress()
        return {"stopped": self.worker, "records_not_mirrored": left}


def names_of(drill: Drill) -> Names | None:
    """How the drill's own mirror is to name topics; None where none of its steps says it."""
    kind = StartMirror.name
    found = (StartMirror.parse(step.action, step.name).names for step in drill.steps if step.action.name == kind)
    return next((names for names in found if names is not None), None)
