"""Steps on a lab's clusters: kill one, and start it again on its data.

Rules: a kill keeps its moment before it kills, since RTO is counted from there. Which cluster it is is the lab's record, so
a dead one is known as well.
Arguments: `lab.kill` cluster, noticed · `lab.restart` cluster.
"""

from __future__ import annotations

from drlib.drill.plan.progress import Reach
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.arguments import flag
from drlib.drill.testbed.failover_step import StagedStep, StateChangeAction
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Mark


class KillCluster(StateChangeAction):
    """SIGKILL every broker of a cluster and, unless told otherwise, wait until the mirror notices: RTO begins here."""

    before = "serving"
    after = "killed"

    def __init__(self, step: StagedStep) -> None:
        super().__init__(step)
        self.cluster = step.cluster
        self.noticed = flag(step.call, "noticed", True)

    @property
    def entity(self) -> str:
        return f"brokers of {self.cluster.alias}"

    def holds(self) -> bool:
        return not any(broker.alive for broker in self.cluster.brokers)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        run, alias = self.step.place.run_dir, self.cluster.alias
        fault_ms = moments.mark(run, "fault")
        self.cluster.kill()
        marks = [Mark(name=f"{alias} killed", at_ms=fault_ms, detail="SIGKILL")]
        self.step.keep(*marks)
        evidence: dict[str, Scalar] = {"killed": alias, "fault_ms": fault_ms}
        if self.noticed:
            self.stage.wait("the mirror reports its source", lambda: bool(self.stage.alert()), 60, abort)
            seen_ms, alert = moments.mark(run, "detect"), self.stage.alert()
            self.step.keep(*marks, Mark(name="noticed", at_ms=seen_ms, detail=alert))
            evidence |= {"noticed_ms": seen_ms, "told": alert}
        self.step.progress(self.stage)
        return evidence

    def probe(self, changes: Changes) -> Reach:
        alive = [broker.alive for broker in self.cluster.brokers]
        if all(alive):
            return Reach.UNTOUCHED
        return Reach.PARTLY  # dead is not yet noticed: act waits for that

    def undo(self, changes: Changes) -> None:
        """Start it again on its data."""
        if changes and not self.cluster.alive:
            self.cluster.restart()

    def cluster_id(self) -> str:
        return self.cluster.brokers[0].spec.cluster_id


class RestartCluster(StateChangeAction):
    """Start a killed cluster again on its data and wait until it serves; one that serves is left alone."""

    after = "serve again"

    def __init__(self, step: StagedStep) -> None:
        super().__init__(step)
        self.cluster = step.cluster

    @property
    def entity(self) -> str:
        return f"brokers of {self.cluster.alias} after the fault"

    def holds(self) -> bool:
        return moments.at(self.step.place.run_dir, self._moment) is not None and self.cluster.alive

    @property
    def _moment(self) -> str:
        return f"{self.step.call.step}-restarted"

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        if not self.cluster.alive:
            self.cluster.restart()
        at_ms = moments.once(self.step.place.run_dir, self._moment)
        self.step.keep(Mark(name=f"{self.cluster.alias} restarted", at_ms=at_ms))
        return {"serves": self.cluster.alias, "at_ms": at_ms}

    def cluster_id(self) -> str:
        return self.cluster.brokers[0].spec.cluster_id
