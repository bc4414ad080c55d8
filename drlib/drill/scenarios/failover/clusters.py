"""Steps on a lab's clusters: kill one, start it again on its data, or cut the applications' network to it.

Rules: what ends a cluster for its applications records its moment before it acts, as the RTO is counted from it. A cluster is
identified by the lab's state, so a dead one is known as well.
"""

from typing import ClassVar, Final

from drlib.drill.plan.progress import Reach
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Flag
from drlib.drill.testbed.failover_step import ClusterArgument, StateChangeAction
from drlib.errors import UsageError
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Mark

_RESTART_S: Final = 80.0  # of a broker: 20 s until it has stopped, 60 s until it serves


class KillCluster(ClusterArgument, StateChangeAction):
    """SIGKILL every broker of a cluster, and wait until the mirror notices it: the RTO begins here."""

    name = "lab.kill"
    before = "serving"
    after = "killed"

    noticed: Flag = True
    """Whether to wait until the mirror reports that its source does not answer."""

    @property
    def entity(self) -> str:
        return f"brokers of {self.alias}"

    def reached(self) -> bool:
        return not any(broker.alive for broker in self.lab_cluster.brokers)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        run, alias, testbed = self.context.run_dir, self.alias, self.testbed
        fault_ms = moments.mark(run, "fault")
        self.lab_cluster.kill()
        marks = [Mark(name=f"{alias} killed", at_ms=fault_ms, detail="SIGKILL")]
        self.mark(*marks)
        evidence: dict[str, Scalar] = {"killed": alias, "fault_ms": fault_ms}
        if self.noticed:
            testbed.wait("the mirror reports its source", lambda: bool(testbed.alert()), 60, abort)
            seen_ms, alert = moments.mark(run, "detect"), testbed.alert()
            self.mark(*marks, Mark(name="noticed", at_ms=seen_ms, detail=alert))
            evidence |= {"noticed_ms": seen_ms, "told": alert}
        self.show_progress()
        return evidence

    def probe(self, changes: Changes) -> Reach:
        alive = [broker.alive for broker in self.lab_cluster.brokers]
        if all(alive):
            return Reach.UNTOUCHED
        return Reach.PARTLY  # the mirror may not have noticed yet: act waits for that

    def undo(self, changes: Changes) -> None:
        """Start it again on its data."""
        if changes and not self.lab_cluster.alive:
            self.lab_cluster.restart()


class RestartCluster(ClusterArgument, StateChangeAction):
    """Start a killed cluster again on its data and wait until it serves; one that serves is left alone."""

    name = "lab.restart"
    after = "serve again"

    @property
    def entity(self) -> str:
        return f"brokers of {self.alias} after the fault"

    def reached(self) -> bool:
        return moments.at(self.context.run_dir, self._moment) is not None and self.lab_cluster.alive

    @property
    def _moment(self) -> str:
        return f"{self.step}-restarted"

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        if not self.lab_cluster.alive:
            self.lab_cluster.restart()
        at_ms = moments.once(self.context.run_dir, self._moment)
        self.mark(Mark(name=f"{self.alias} restarted", at_ms=at_ms))
        return {"serves": self.alias, "at_ms": at_ms}


class RollBrokers(ClusterArgument, StateChangeAction):
    """Restart the brokers of a cluster one after the other, as an operator does: the connections of all clients end, and each
    partition gets newer leader epochs. It cannot be undone."""

    name = "lab.roll_brokers"
    after = "restarted"

    leaving: Flag = False
    """Whether clients leave the cluster by it: the RTO begins here."""

    @property
    def entity(self) -> str:
        return f"brokers of {self.alias}, one after the other"

    def reached(self) -> bool:
        return moments.at(self.context.run_dir, self._moment) is not None

    @property
    def outage_s(self) -> float:
        return _RESTART_S if self.alias == self.context.flow.target else 0.0

    @property
    def _moment(self) -> str:
        return f"{self.step}-rolled"

    @property
    def _began(self) -> str:
        return f"{self.step}-begun"

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        began_ms = moments.once(self.context.run_dir, self._began)
        if self.leaving:
            moments.mark(self.context.run_dir, "fault", began_ms)
        for broker in self.lab_cluster.brokers:
            abort.check()
            broker.restart()
        at_ms = moments.once(self.context.run_dir, self._moment)
        self.mark(Mark(name=f"brokers of {self.alias} restarted", at_ms=began_ms, detail="one after the other"))
        return {"restarted": len(self.lab_cluster.brokers), "seconds": (at_ms - began_ms) / 1000}

    def probe(self, changes: Changes) -> Reach:
        if self.reached():
            return Reach.DONE
        begun = moments.at(self.context.run_dir, self._began) is not None
        return Reach.PARTLY if begun else Reach.UNTOUCHED  # act restarts all of them

    def undo(self, changes: Changes) -> None:
        """Start a broker that was stopped and not started again."""
        if changes and not self.lab_cluster.alive:
            self.lab_cluster.start()


class CutApplications(ClusterArgument, StateChangeAction):
    """Cut the network between the lab's applications and a cluster: connections end, new ones are refused. Mirrors, drills and
    checkers still reach it. The RTO begins here; undone by `lab.reconnect_applications`, or by a rollback."""

    name = "lab.cut_applications"
    before: ClassVar[str | None] = "connected"
    after = "cut"

    def check(self) -> None:
        super().check()
        if not self.lab.proxy.apps_links(self.alias):
            raise UsageError(
                f"the applications' network to {self.alias} cannot be cut",
                "the data of this lab are older than that network",
                "Start a new lab: drlib lab down, then drlib lab up.",
            )

    @property
    def entity(self) -> str:
        return f"network between the applications and {self.alias}"

    def reached(self) -> bool:
        return all(link.cut for link in self.lab.proxy.apps_links(self.alias))

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        fault_ms = moments.mark(self.context.run_dir, "fault")
        self.lab.proxy.cut_applications(self.alias)
        self.mark(Mark(name=f"applications cut off from {self.alias}", at_ms=fault_ms, detail="connections reset"))
        return {"cut_off_from": self.alias, "fault_ms": fault_ms}

    def undo(self, changes: Changes) -> None:
        """Connect them again."""
        if changes:
            self.lab.proxy.cut_applications(self.alias, False)


class ReconnectApplications(CutApplications):
    """Give the lab's applications their network to a cluster back."""

    name = "lab.reconnect_applications"
    before = None
    after = "connected again"

    @property
    def entity(self) -> str:
        return f"network between the applications and {self.alias} after the cut"

    @property
    def _moment(self) -> str:
        return f"{self.step}-reconnected"

    def reached(self) -> bool:
        return moments.at(self.context.run_dir, self._moment) is not None and not super().reached()

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        self.lab.proxy.cut_applications(self.alias, False)
        at_ms = moments.once(self.context.run_dir, self._moment)
        self.mark(Mark(name=f"applications reach {self.alias} again", at_ms=at_ms))
        return {"connected_to": self.alias, "at_ms": at_ms}

    def undo(self, changes: Changes) -> None:
        """Cut it again."""
        if changes:
            self.lab.proxy.cut_applications(self.alias)
