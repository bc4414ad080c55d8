"""Steps of an active/active drill on a lab: everybody reads everything, one more joins, one dies, it comes back.

`active.start` topic, clusters, records_per_second: applications and the mirror on each cluster · `active.link` topic,
source, at, groups, records: what crosses the link with one group and with `groups` · `active.join` topic, cluster, others,
records_per_second: a further cluster, with no application touched · `active.kill` topic, cluster, others, watch_seconds:
SIGKILL, and how long others were not served · `active.revive` topic, cluster: it comes back ·
`active.prove` topic, clusters. Probe `lab.serves` clusters.
Rules: numbers come from what applications wrote down, from the clusters' logs and from the link's own byte counts, never
from the mirror. A step that shows the opposite of what it is for raises `Deviated`; what it found is kept first.
Not for: moving anybody: that nobody moves is the point.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from drlib.drill.plan.plan import Call, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.scenarios.active import proof as active_proof
from drlib.drill.scenarios.active.measurements import Kill, Link, Revive
from drlib.drill.scenarios.active.stage import ActiveStage
from drlib.drill.scenarios.active.step import ActiveStep
from drlib.drill.step.action import ActionMaker, Answer, Changes, Evidence, Probe, ProbeMaker, StepCall
from drlib.drill.step.arguments import number, required, required_texts
from drlib.drill.step.context import DrillContext
from drlib.drill.step.step_output import ScorecardPart
from drlib.drill.testbed import lab_step, sampler
from drlib.errors import Deviated, Unreachable
from drlib.lab.workload.mirrors import LabMirrors, flows_among, flows_with
from drlib.runs.abort import Abort
from drlib.runs.scorecard import Mark


def makers(workplace: DrillContext) -> dict[str, ActionMaker]:
    """The actions, each of which raises KeyError for an argument that is missing."""
    made = {
        "active.start": _start,
        "active.link": _link,
        "active.join": _join,
        "active.kill": _kill,
        "active.revive": _revive,
        "active.prove": _prove,
    }
    return {name: functools.partial(maker, workplace) for name, maker in made.items()}


def probes(workplace: DrillContext) -> dict[str, ProbeMaker]:
    return {"lab.serves": functools.partial(_serves, workplace)}


@dataclass(frozen=True)
class Start(ActiveStep):
    """A producer and a group of readers on each cluster, and flows from each to every other."""

    clusters: tuple[str, ...]
    records_per_second: float

    @property
    def mirrors(self) -> LabMirrors:
        return self.stage.mirrors("all", flows_among(self.clusters))

    @property
    def _topics(self) -> list[tuple[str, str]]:
        return [*((cluster, self.topic) for cluster in self.clusters), *self.mirrors.topics()]

    def observe(self) -> Sequence[Fact]:
        self.stage.lab.require(self.clusters)
        players = [name(cluster) for cluster in self.clusters for name in (self.stage.producer, self.stage.readers)]
        return (
            *super().observe(),
            *lab_step.processes(self.stage.applications, [*players, self.mirrors.name]),
            *lab_step.topics(self.lab, self._topics),
        )

    def changes(self, observed: Sequence[Fact]) -> Changes:
        lab_step.refuse_present(observed, [(cluster, self.topic) for cluster in self.clusters])
        return lab_step.appear(observed)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        for cluster in self.clusters:
            self.stage.make_topic(cluster)
            abort.check()
        for cluster in self.clusters:
            self.stage.start_producer(cluster, self.records_per_second)
            self.stage.start_readers(cluster)
        self.mirrors.start(abort)
        self.wait(abort, "readers read every topic", lambda: self._everybody_reads(self.clusters))
        self.show(self._seen(self.clusters))
        return {"clusters": len(self.clusters), "flows": len(self.mirrors.flows)}

    def probe(self, changes: Changes) -> Reach:
        return lab_step.appeared(self.observe(), changes)

    def undo(self, changes: Changes) -> None:
        lab_step.disappear(self.stage.applications, changes)


@dataclass(frozen=True)
class Join(ActiveStep):
    """One more cluster: its applications, and a worker of its own for the flows to and from the others."""

    cluster: str
    others: tuple[str, ...]
    records_per_second: float

    @property
    def mirrors(self) -> LabMirrors:
        return self.stage.mirrors(self.cluster, flows_with(self.cluster, self.others))

    @property
    def _old(self) -> list[str]:
        return [name(other) for other in self.others for name in (self.stage.producer, self.stage.readers)]

    def observe(self) -> Sequence[Fact]:
        self.stage.lab.require([self.cluster, *self.others])
        players = [self.stage.producer(self.cluster), self.stage.readers(self.cluster), self.mirrors.name]
        return (
            *super().observe(),
            *lab_step.processes(self.stage.applications, players),
            *lab_step.topics(self.lab, [(self.cluster, self.topic), *self.mirrors.topics()]),
        )

    def changes(self, observed: Sequence[Fact]) -> Changes:
        lab_step.refuse_present(observed, [(self.cluster, self.topic)])
        return lab_step.appear(observed)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        began_ms = self.moment_ms("began")
        before = self._pids()
        self.stage.make_topic(self.cluster)
        self.stage.start_producer(self.cluster, self.records_per_second)
        self.stage.start_readers(self.cluster)
        self.mirrors.start(abort)
        everybody = (*self.others, self.cluster)
        self.wait(abort, f"everybody reads {self.cluster}", lambda: self._everybody_reads(everybody))
        self.show(self._seen(everybody))
        self.score(ScorecardPart(marks=(Mark(name=f"{self.cluster} joins", at_ms=began_ms),)))
        if self._pids() != before:
            raise Deviated("an application was restarted", "it has another process now", "Look at the lab's logs.")
        news = [
            row.at_ms
            for other in self.others
            for row in self.stage.history_of(other).consumed
            if row.topic == self.stage.copy_of(self.cluster)
        ]
        return {"applications_touched": 0, "first_record_read_after_seconds": (min(news) - began_ms) / 1000}

    def probe(self, changes: Changes) -> Reach:
        return lab_step.appeared(self.observe(), changes)

    def undo(self, changes: Changes) -> None:
        lab_step.disappear(self.stage.applications, changes)

    def _pids(self) -> dict[str, int]:
        return {record.name: record.pid for record in self.lab.registry.records() if record.name in self._old}


@dataclass(frozen=True)
class Prove(ActiveStep):
    """Let everything arrive, stop the applications, and judge what they wrote down beside a scan of every log."""

    clusters: tuple[str, ...]

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        stage, applications = self.stage, self.stage.applications
        applications.stop(*(stage.producer(cluster) for cluster in self.clusters))
        flows = flows_among(self.clusters)
        self.wait(abort, "every copy is whole", lambda: stage.crossed(flows))
        due = active_proof.due(stage, self.clusters)
        with contextlib.suppress(Unreachable):  # what is still missing then is the proof's to say
            self.wait(
                abort,
                "everybody has read everything",
                lambda: all(applications.processed(stage.readers(one)) >= due for one in self.clusters),
            )
        applications.stop(*(stage.readers(cluster) for cluster in self.clusters))
        found = active_proof.prove(stage, self.clusters)
        self.show(found.rows)
        samples = sampler.stop(self.workplace.run_dir)
        self.score(ScorecardPart(records=found.records, checks=found.checks, groups=found.groups, samples=samples))
        if found.failed:
            raise Deviated("the proof failed", "; ".join(found.failed), "Look at the histories in the run's folder.")
        return found.evidence


@dataclass(frozen=True)
class Serves:
    """Does every cluster answer?"""

    stage: ActiveStage
    clusters: tuple[str, ...]

    def __call__(self, abort: Abort) -> Answer:
        self.stage.lab.require(self.clusters)
        silent = [alias for alias in self.clusters if not self.stage.serves(alias)]
        told = f"{', '.join(silent)} did not answer" if silent else f"{', '.join(self.clusters)} answered"
        return Answer(not silent, told)


def _start(workplace: DrillContext, call: StepCall) -> Start:
    rate = number(call, "records_per_second", 200.0)
    return Start(workplace, call.step, required(call, "topic"), required_texts(call, "clusters"), rate)


def _join(workplace: DrillContext, call: StepCall) -> Join:
    rate = number(call, "records_per_second", 200.0)
    topic, cluster = required(call, "topic"), required(call, "cluster")
    return Join(workplace, call.step, topic, cluster, required_texts(call, "others"), rate)


def _link(workplace: DrillContext, call: StepCall) -> Link:
    groups, records = (int(number(call, name, usual)) for name, usual in (("groups", 5), ("records", 1500)))
    source, at = required(call, "source"), required(call, "at")
    return Link(workplace, call.step, required(call, "topic"), source, at, groups, records)


def _kill(workplace: DrillContext, call: StepCall) -> Kill:
    watch_s = number(call, "watch_seconds", 8.0)
    topic, cluster = required(call, "topic"), required(call, "cluster")
    return Kill(workplace, call.step, topic, cluster, required_texts(call, "others"), watch_s)


def _revive(workplace: DrillContext, call: StepCall) -> Revive:
    return Revive(workplace, call.step, required(call, "topic"), required(call, "cluster"))


def _prove(workplace: DrillContext, call: StepCall) -> Prove:
    return Prove(workplace, call.step, required(call, "topic"), required_texts(call, "clusters"))


def _serves(workplace: DrillContext, call: Call) -> Probe:
    stage = ActiveStage(workplace.needs_lab(call.name), workplace.run_dir, "")
    return Serves(stage, required_texts(call, "clusters"))
