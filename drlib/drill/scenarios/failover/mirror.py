"""Steps on the workers of a lab's mirror: start one, kill one in mid-traffic, let one end.

Rules: each worker has a number, from 1 on, and is started and killed once. A kill keeps its moment before it kills.
Arguments: `lab.mirror` number, lanes, caught_up · `lab.kill_mirror` number · `lab.stop_mirror` number.
"""

from __future__ import annotations

import signal

from drlib.drill.plan.progress import Reach
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.arguments import flag, number
from drlib.drill.testbed import sampler
from drlib.drill.testbed.failover_step import StagedStep, StateChangeAction
from drlib.drill.testbed.traffic_counts import FlightCounts
from drlib.runs.abort import Abort
from drlib.runs.scorecard import Mark


class _Worker(StateChangeAction):
    """A step on one worker of the mirror."""

    def __init__(self, step: StagedStep) -> None:
        super().__init__(step)
        self.number = int(number(step.call, "number", 1))
        self.name = self.stage.worker(self.number).name

    @property
    def known(self) -> bool:
        """Was this worker ever started, and not undone?"""
        return any(record.name == self.name for record in self.stage.lab.registry.records())


class StartMirror(_Worker):
    """Start a worker, wait until it owns its lanes and, unless told otherwise, until it keeps up with the traffic."""

    after = "started"

    def __init__(self, step: StagedStep) -> None:
        super().__init__(step)
        self.lanes = int(number(step.call, "lanes", 2))
        self.catches_up = flag(step.call, "caught_up", True)

    @property
    def entity(self) -> str:
        return f"worker {self.name} of {self.step.flow}"

    def holds(self) -> bool:
        return self.known

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        stage = self.step.stage(lanes=self.lanes)
        sampler.start(stage.run_dir, FlightCounts(stage))
        stage.worker(self.number).start()
        stage.wait("the mirror runs", stage.mirror_runs, 60, abort)
        at_ms = moments.now_ms()
        if self.number > 1:
            self.step.keep(Mark(name="mirror back", at_ms=at_ms, detail="it read back what stood and went on"))
        if self.catches_up:
            pace = stage.traffic.records_per_second
            stage.wait("the mirror caught up", lambda: stage.mirror().lag < pace, 60, abort)
        self.step.progress(stage)
        return {"worker": self.name, "mirror_lag_records": stage.mirror().lag}

    def probe(self, changes: Changes) -> Reach:
        return Reach.PARTLY if self.known and changes else Reach.UNTOUCHED  # alive is not yet caught up: act waits

    def undo(self, changes: Changes) -> None:
        """Let it send what it has, and stop it."""
        if changes:
            self.stage.worker(self.number).stop()


class _Ending(_Worker):
    """A step after which a worker does not run any more."""

    def undo(self, changes: Changes) -> None:
        """Start it again, where the drill goes back to a mirror that runs."""
        if changes and not self.stage.mirror_runs():
            self.stage.worker(self.number).start()
            self.stage.wait("the mirror runs", self.stage.mirror_runs, 60)


class KillMirror(_Ending):
    """SIGKILL a worker in mid-traffic and see the applications go on."""

    after = "killed"

    @property
    def entity(self) -> str:
        return f"life of worker {self.name}"

    @property
    def _moment(self) -> str:
        return f"{self.name}-killed"

    def holds(self) -> bool:
        kept = moments.at(self.step.place.run_dir, self._moment)
        return kept is not None and not self.stage.lab.registry.alive(self.name)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        at_ms = moments.once(self.step.place.run_dir, self._moment)
        self.step.keep(Mark(name="mirror killed", at_ms=at_ms, detail="SIGKILL"))
        self.stage.lab.registry.kill(self.name)
        seen, pace = self.stage.applications.done("flights"), self.stage.traffic.records_per_second
        self.stage.wait("traffic goes on", lambda: self.stage.applications.done("flights") > seen + pace, 30, abort)
        self.step.progress(self.stage)
        return {"killed": self.name, "at_ms": at_ms}


class StopMirror(_Ending):
    """SIGTERM: the worker sends and journals what it has fetched, and exits."""

    after = "stopped"

    @property
    def entity(self) -> str:
        return f"end of worker {self.name}"

    def holds(self) -> bool:
        return self.known and not self.stage.lab.registry.alive(self.name)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.stage.lab.registry.signal(self.name, signal.SIGTERM)
        alive = self.stage.lab.registry.alive
        self.stage.wait("the mirror drained", lambda: not alive(self.name), 30, abort)
        left = self.stage.mirror().lag
        self.step.progress(self.stage)
        return {"stopped": self.name, "records_not_mirrored": left}
