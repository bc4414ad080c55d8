"""What the steps of a drill on the lab have in common.

Rules: a step that is resumed after a kill is done again from its beginning, and all it does is safe to repeat: what runs
is not started again, a moment that was written down is kept. So a probe tells untouched from begun, and never calls a
step done whose measurements could be lost.
Not for: clusters that are no lab.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, DrillAction
from drlib.drill.step.argument_types import Text
from drlib.drill.step.cluster_identity import identified
from drlib.drill.testbed import sampler
from drlib.drill.testbed.traffic_counts import Counted
from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.lab import Lab
from drlib.lab.workload.applications import LabApplications
from drlib.runs.abort import Abort
from drlib.runs.waiting import wait_on_lab

PATIENCE_S: Final = 90.0
RUNS = "runs"
THERE = "there"


class LabStep(DrillAction):
    """A step of an active/active or an ordering drill; by default it changes nothing, and is repeated from its beginning."""

    topic: Text
    """The topic of the drill's applications."""

    def check(self) -> None:
        super().check()
        self.lab  # noqa: B018 -- raises where there is none

    @property
    def lab(self) -> Lab:
        """Raises `UsageError` where the drill is not on a lab."""
        return self.context.needs_lab(f"step {self.step}")

    @property
    @abstractmethod
    def testbed(self) -> Counted: ...

    def sample(self) -> None:
        """Take samples from here on, also where a process before this one did: every step that acts begins with it."""
        sampler.start(self.context.run_dir, self.testbed.counts())

    def observe(self) -> Sequence[Fact]:
        """The lab's clusters, by the IDs they were made with: no cluster is asked, as some may be dead by then."""
        return tuple(identified(alias, cluster.cluster_id) for alias, cluster in self.lab.clusters.items())

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return ()

    def probe(self, changes: Changes) -> Reach:
        """It began: whatever it did is done again, which is safe, and measured again."""
        return Reach.PARTLY

    def undo(self, changes: Changes) -> None:
        """Nothing by default, as nothing is changed."""

    def cluster_id(self) -> str:
        return self.lab.clusters[self.context.flow.target].cluster_id

    def wait(self, abort: Abort, what: str, holds: Callable[[], bool], logs: Path | None = None) -> None:
        """Wait for `holds`; `logs`, by default the lab's own, explain a time-out. Raises `Unreachable`, `Aborted`."""
        wait_on_lab(abort, what, holds, PATIENCE_S, logs or self.lab.root)

    def moment_ms(self, what: str) -> int:
        """When `what` happened first, in ms since the epoch: now, unless a process before this one recorded it."""
        return moments.once(self.context.run_dir, f"{self.step}-{what}")


class AppearingStep(LabStep):
    """A step that starts processes and makes topics, which its plan says by `appear`."""

    def probe(self, changes: Changes) -> Reach:
        """Is any of it there by now? What is there is started or made again without harm, so it is never all done."""
        there = {fact.entity for fact in self.observe() if fact.value is not None}
        return Reach.PARTLY if any(change.entity in there for change in changes) else Reach.UNTOUCHED

    def undo(self, changes: Changes) -> None:
        """Stop the processes, then delete the topics. Safe to repeat."""
        gone = [change.entity.split(" ") for change in changes if change.before is None]
        self.testbed.applications.stop(*(words[1] for words in gone if words[0] == "process"))
        by_cluster: dict[str, list[str]] = {}
        for words in gone:
            if words[0] == "topic":
                by_cluster.setdefault(words[3], []).append(words[1])
        for alias, doomed in by_cluster.items():
            with Cluster(self.lab.clusters[alias].settings()) as cluster:
                for topic in doomed:
                    cluster.delete_topic(topic)


def processes(applications: LabApplications, wanted: Iterable[str]) -> tuple[Fact, ...]:
    return tuple(Fact(f"process {name}", RUNS if applications.runs(name) else None) for name in wanted)


def topics(lab: Lab, wanted: Iterable[tuple[str, str]]) -> tuple[Fact, ...]:
    """Of each (cluster, topic), whether it is there. Raises `Unreachable`."""
    by_cluster: dict[str, list[str]] = {}
    for cluster, topic in wanted:
        by_cluster.setdefault(cluster, []).append(topic)
    facts = []
    for alias, expected in by_cluster.items():
        with Cluster(lab.clusters[alias].settings()) as handle:
            existing = handle.topics(expected)
        facts += [Fact(_topic(alias, name), THERE if name in existing else None) for name in sorted(set(expected))]
    return tuple(facts)


def refuse_present(observed: Sequence[Fact], wanted: Iterable[tuple[str, str]]) -> None:
    """Raises `UsageError` when one of the (cluster, topic) is there: records of another run would be judged with ours."""
    now = {fact.entity: fact.value for fact in observed}
    for cluster, topic in wanted:
        if now.get(_topic(cluster, topic)) is not None:
            raise UsageError(
                f"topic {topic} on {cluster} already exists",
                "the drill could not distinguish its records from those it writes",
                "Name another topic, or start a fresh lab (`drlib lab down`).",
            )


def appear(observed: Sequence[Fact]) -> Changes:
    """Processes and topics that are not there and will be."""
    after = {"process": RUNS, "topic": THERE}
    return tuple(
        Change(fact.entity, None, after[fact.entity.partition(" ")[0]])
        for fact in observed
        if fact.value is None and fact.entity.partition(" ")[0] in after
    )


def _topic(cluster: str, topic: str) -> str:
    return f"topic {topic} on {cluster}"
