"""Actions of an active/active drill on a lab: readers read every cluster, one more joins, one fails and returns.

Rules: numbers come from the applications' histories, from the clusters' logs and from the link's byte counts, never
from the mirror. A step that shows the opposite of what it is for raises `Deviated`; its results are kept first.
Not for: moving applications; the drill shows that none has to move.
"""

import contextlib
from collections.abc import Sequence

from drlib.drill.plan.plan import Fact
from drlib.drill.scenarios.active import proof as active_proof
from drlib.drill.scenarios.active.testbed import ActiveStep, ActiveTestbed
from drlib.drill.step.action import Answer, Changes, DrillProbe, Evidence
from drlib.drill.step.argument_types import Number, Text, Texts
from drlib.drill.step.step_output import ScorecardPart
from drlib.drill.testbed import lab_step, sampler
from drlib.errors import Deviated, Unreachable
from drlib.lab.workload.mirrors import LabMirrors, flows_among, flows_with
from drlib.runs.abort import Abort
from drlib.runs.scorecard import Mark


class Start(lab_step.AppearingStep, ActiveStep):
    """Start a producer and a group of readers on each cluster, and flows from each to every other."""

    name = "active.start"

    clusters: Texts
    """Aliases of the clusters."""
    records_per_second: Number = 200.0
    """Records per second of each producer."""

    @property
    def mirrors(self) -> LabMirrors:
        return self.testbed.mirrors("all", flows_among(self.clusters))

    @property
    def _topics(self) -> list[tuple[str, str]]:
        return [*((cluster, self.topic) for cluster in self.clusters), *self.mirrors.topics()]

    def observe(self) -> Sequence[Fact]:
        self.testbed.lab.require(self.clusters)
        players = [name(cluster) for cluster in self.clusters for name in (self.testbed.producer, self.testbed.readers)]
        return (
            *super().observe(),
            *lab_step.processes(self.testbed.applications, [*players, self.mirrors.name]),
            *lab_step.topics(self.lab, self._topics),
        )

    def changes(self, observed: Sequence[Fact]) -> Changes:
        lab_step.refuse_present(observed, [(cluster, self.topic) for cluster in self.clusters])
        return lab_step.appear(observed)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        for cluster in self.clusters:
            self.testbed.make_topic(cluster)
            abort.check()
        for cluster in self.clusters:
            self.testbed.start_producer(cluster, self.records_per_second)
            self.testbed.start_readers(cluster)
        self.mirrors.start(abort)
        self.wait(abort, "readers read every topic", lambda: self.every_topic_read(self.clusters))
        self.show(self.records_read(self.clusters))
        return {"clusters": len(self.clusters), "flows": len(self.mirrors.flows)}


class Join(lab_step.AppearingStep, ActiveStep):
    """Add a cluster: its applications, and a worker of its own for the flows to and from the others."""

    name = "active.join"

    cluster: Text
    """Alias of the cluster that joins."""
    others: Texts
    """Aliases of the others."""
    records_per_second: Number = 200.0
    """Records per second of its producer."""

    @property
    def mirrors(self) -> LabMirrors:
        return self.testbed.mirrors(self.cluster, flows_with(self.cluster, self.others))

    @property
    def _old(self) -> list[str]:
        return [name(other) for other in self.others for name in (self.testbed.producer, self.testbed.readers)]

    def observe(self) -> Sequence[Fact]:
        self.testbed.lab.require([self.cluster, *self.others])
        players = [self.testbed.producer(self.cluster), self.testbed.readers(self.cluster), self.mirrors.name]
        return (
            *super().observe(),
            *lab_step.processes(self.testbed.applications, players),
            *lab_step.topics(self.lab, [(self.cluster, self.topic), *self.mirrors.topics()]),
        )

    def changes(self, observed: Sequence[Fact]) -> Changes:
        lab_step.refuse_present(observed, [(self.cluster, self.topic)])
        return lab_step.appear(observed)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        began_ms = self.moment_ms("began")
        before = self._pids()
        self.testbed.make_topic(self.cluster)
        self.testbed.start_producer(self.cluster, self.records_per_second)
        self.testbed.start_readers(self.cluster)
        self.mirrors.start(abort)
        every_cluster = (*self.others, self.cluster)
        self.wait(abort, f"every reader reads {self.cluster}", lambda: self.every_topic_read(every_cluster))
        self.show(self.records_read(every_cluster))
        self.score(ScorecardPart(marks=(Mark(name=f"{self.cluster} joins", at_ms=began_ms),)))
        if self._pids() != before:
            raise Deviated("an application was restarted", "it has another process now", "See the lab's logs.")
        news = [
            row.at_ms
            for other in self.others
            for row in self.testbed.history_of(other).consumed
            if row.topic == self.testbed.copy_of(self.cluster)
        ]
        return {"applications_touched": 0, "first_record_read_after_seconds": (min(news) - began_ms) / 1000}

    def _pids(self) -> dict[str, int]:
        return {record.name: record.pid for record in self.lab.registry.records() if record.name in self._old}


class Prove(ActiveStep):
    """Let everything arrive, stop the applications, and judge their histories beside a scan of every log."""

    name = "active.prove"

    clusters: Texts
    """Aliases of the clusters."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        testbed, applications = self.testbed, self.testbed.applications
        applications.stop(*(testbed.producer(cluster) for cluster in self.clusters))
        flows = flows_among(self.clusters)
        self.wait(abort, "every copy is whole", lambda: testbed.crossed(flows))
        due = active_proof.due(testbed, self.clusters)
        with contextlib.suppress(Unreachable):  # what is still missing then is the proof's to say
            self.wait(
                abort,
                "every reader has read every record",
                lambda: all(applications.processed(testbed.readers(alias)) >= due for alias in self.clusters),
            )
        applications.stop(*(testbed.readers(cluster) for cluster in self.clusters))
        proof = active_proof.prove(testbed, self.clusters)
        self.show(proof.rows)
        samples = sampler.stop(self.context.run_dir)
        self.score(ScorecardPart(records=proof.records, checks=proof.checks, groups=proof.groups, samples=samples))
        if proof.failed:
            raise Deviated("the proof failed", "; ".join(proof.failed), "See the histories in the run's folder.")
        return proof.evidence


class LabServes(DrillProbe):
    """Every one of the lab's clusters answers."""

    name = "lab.serves"

    clusters: Texts
    """Aliases of the clusters."""

    def check(self) -> None:
        self.testbed  # noqa: B018 -- raises where there is no lab

    @property
    def testbed(self) -> ActiveTestbed:
        return ActiveTestbed(self.context.needs_lab(self.name), self.context.run_dir, "")

    def __call__(self, abort: Abort) -> Answer:
        self.testbed.lab.require(self.clusters)
        silent = [alias for alias in self.clusters if not self.testbed.serves(alias)]
        evidence = f"{', '.join(silent)} did not answer" if silent else f"{', '.join(self.clusters)} answered"
        return Answer(not silent, evidence)
