"""Probes of the steady-state hypothesis that any drill may use.

Rules: a probe only observes, with a handle of its own. What does not hold at first may come to hold within `within_seconds`,
where it takes that argument. What could not be checked is `holds=None`, which is no success. The evidence has numbers.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from drlib import formats
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import MINIMUM
from drlib.drill.step.action import Answer, DrillProbe
from drlib.drill.step.argument_types import Count, Seconds, Text
from drlib.drill.step.cluster_identity import cluster_id
from drlib.errors import Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.reachability import examine
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups.admin import listed
from drlib.mirror.monitor.survey import Surveyor
from drlib.model import TopicPartition
from drlib.runs.abort import Abort

_LOOK_S: Final = 0.2
_ASK_S: Final = 10.0
_NAMED: Final = 5  # partitions, or brokers


class ClusterProbe(DrillProbe):
    """A probe of one cluster."""

    cluster: Text
    """Alias of the cluster."""

    def check(self) -> None:
        self.context.cluster(self.cluster)

    @property
    def settings(self) -> ClusterSettings:
        return self.context.cluster(self.cluster)


class ClusterAnswers(ClusterProbe):
    """The cluster answers."""

    name = "cluster.answers"

    def __call__(self, abort: Abort) -> Answer:
        began = time.monotonic()
        try:
            answered = cluster_id(self.settings)
        except Unreachable as error:
            return Answer(False, str(error))
        return Answer(True, f"{self.cluster} is cluster {answered} and answered in {time.monotonic() - began:.2f} s")


class ClusterServes(DrillProbe):
    """The cluster answers, with a leader that answers for every partition of every topic."""

    name = "cluster.serves"

    cluster: Text = ""
    """Alias of the cluster; by default the flow's target."""

    def check(self) -> None:
        self.context.cluster(self._alias)

    @property
    def _alias(self) -> str:
        return self.cluster or self.context.flow.target

    def __call__(self, abort: Abort) -> Answer:
        found = examine([self.context.cluster(self._alias)], {})[self._alias]
        if isinstance(found, Unreachable):
            return Answer(False, f"{self._alias} does not answer: {found.why}")
        leaderless = sorted(map(str, found.not_led(found.metadata.topics)))
        brokers, topics = len(found.metadata.brokers), len(found.metadata.topics)
        evidence = (
            f"{self._alias}: {brokers} broker{'' if brokers == 1 else 's'}, {topics} topic{'' if topics == 1 else 's'}"
        )
        if found.silent:
            evidence += f", no answer of {formats.first_few(sorted(found.silent.values()), _NAMED)}"
        if leaderless:
            evidence += f", without a leader that answers: {formats.first_few(leaderless, _NAMED)}"
        return Answer(not leaderless, evidence)


class TopicExists(ClusterProbe):
    """The topic exists, with the required number of partitions."""

    name = "topic.exists"

    topic: Text
    """Its name."""
    partitions: Count = 0
    """How many partitions it has to have; 0: any number."""

    def __call__(self, abort: Abort) -> Answer:
        with Cluster(self.settings) as cluster:
            topic = cluster.topics([self.topic]).get(self.topic)
        if topic is None:
            return Answer(False, f"there is no topic {self.topic} on {self.cluster}")
        wrong = bool(self.partitions) and topic.partitions != self.partitions
        asked = f", {self.partitions} are required" if wrong else ""
        return Answer(not wrong, f"{self.topic} on {self.cluster} has {topic.partitions} partitions{asked}")


class GroupActive(ClusterProbe):
    """The group has members, or its committed positions move; groups of every protocol count."""

    name = "group.active"

    group: Text
    """Its name."""
    within_seconds: Seconds = 10.0
    """How long to wait for it."""

    def __call__(self, abort: Abort) -> Answer:
        first = self._positions()
        return _within(self.within_seconds, abort, lambda: self._compare(first))

    def _positions(self) -> dict[TopicPartition, int]:
        with Cluster(self.settings) as cluster:
            return {p: position.offset for p, position in cluster.group_offsets(self.group).items()}

    def _compare(self, first: Mapping[TopicPartition, int]) -> Answer:
        group, alias = self.group, self.cluster
        with Cluster(self.settings) as cluster:
            members = cluster.group_members(group)
        if members:
            return Answer(True, f"{group} has {len(members)} members on {alias}")
        now = self._positions()
        moved = [p for p, offset in now.items() if offset > first.get(p, offset)]
        if moved:
            return Answer(True, f"{group} moved on in {len(moved)} of {len(now)} partitions on {alias}")
        # share groups, and those of Kafka Streams and Connect
        other = listed(self.settings, _ASK_S).groups.get(group)
        if other is not None and other.state.upper() not in ("EMPTY", "DEAD"):
            return Answer(True, f"{group} has members on {alias}")
        unmoved = f"its {len(now)} positions do not move" if now else "it has no positions"
        return Answer(False, f"{group} has no members on {alias}, and {unmoved}")


class MirrorLag(DrillProbe):
    """The mirror of the drill's flow is at most this many records behind."""

    name = "mirror.lag"

    at_most: Count
    """Records that may be missing on the target."""
    within_seconds: Seconds = 10.0
    """How long to wait for it."""

    def __call__(self, abort: Abort) -> Answer:
        return _within(self.within_seconds, abort, self._measure)

    def _measure(self) -> Answer:
        settings = self.context.mirror_settings()
        flow = settings.flow(self.context.flow.source, self.context.flow.target)
        survey = asyncio.run(Surveyor(settings, flow).survey())
        silence = survey.source_error or survey.target_error
        if silence:
            return Answer(None, silence)
        if not survey.partitions:
            return Answer(None, f"nothing is mirrored by {flow.flow} yet")
        unknown = [f"{p.topic}-{p.partition}" for p in survey.partitions if not p.known]
        if unknown:
            return Answer(None, f"the end offset of {unknown[0]} is not known")
        lag = sum(p.lag for p in survey.partitions)
        evidence = (
            f"{lag} records of {len(survey.partitions)} partitions are not mirrored, at most {self.at_most} are allowed"
        )
        return Answer(lag <= self.at_most, evidence)


class ReadinessScore(DrillProbe):
    """The flow is ready: nothing critical, and at least this score."""

    name = "readiness.score"

    at_least: Count = MINIMUM
    """The least score, of 100."""

    def __call__(self, abort: Abort) -> Answer:
        context = self.context
        (readiness,) = doctor(context.mirror_settings(), flow=context.flow, runs=context.run_dir.parent)
        critical = ", ".join(dict.fromkeys(finding.check for finding in readiness.critical))
        evidence = f"{readiness.flow} scores {readiness.score} of 100, {self.at_least} required"
        return Answer(readiness.ready(self.at_least), evidence + (f", critical: {critical}" if critical else ""))


def _within(seconds: float, abort: Abort, measure: Callable[[], Answer]) -> Answer:
    """The first answer that holds, or the last one when time is up."""
    end = time.monotonic() + seconds
    while True:
        answer = measure()
        if answer.holds or time.monotonic() >= end:
            return answer
        abort.wait(_LOOK_S)
