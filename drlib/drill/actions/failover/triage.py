"""Step `failover.triage`: should one fail over at all; who answers, what is missing, what it costs.

Rules: it changes nothing and guesses nothing; what the source does is looked at and told by name, and so is what nobody
could say. Where failing over is not the answer it refuses, and says what is.
Arguments: expect (gone, serving), force_reason, application.
Not for: the judgement itself, which is `rules.triage`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from drlib.client.pointer_topic import EVERYONE
from drlib.drill.actions.applications.pointer import PointerPlace, said
from drlib.drill.actions.failover import flow_state as mirror_word
from drlib.drill.actions.failover.triage_rules import Expected, Side, advise
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence, StepCall
from drlib.drill.step.arguments import choice, word
from drlib.drill.step.move_step import MovingStep, TargetStep, answer
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.reachability import who_answers
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Mark


class Triage(TargetStep):
    """Should one fail over at all: who answers, what is missing, what it costs. Changes nothing, and may refuse."""

    def __init__(self, step: MovingStep) -> None:
        super().__init__(step)
        self.expected = expected(step.call)
        self.force_reason = word(step.call, "force_reason", "")
        self.pointer = PointerPlace(step.place, step.call.step, word(step.call, "application", EVERYONE))

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `UsageError` where failing over is not the answer."""
        run_dir, flow = self.step.place.run_dir, self.step.flow
        asked = [self.step.source, self.step.target]
        told = who_answers(asked)
        source, target = (self._side(cluster, told[cluster.alias]) for cluster in asked)
        abort.check()
        found = mirror_word.look(self.step.place, flow, source.silence)
        missing, seconds = found.not_mirrored, mirror_word.seconds_behind(self.step.place, flow, found)
        both = self._both_written(told, abort) if source.answers and target.answers else ()
        if not source.serves and found.silent_since_ms is not None:
            last_ms = min(found.view.as_of_ms or found.silent_since_ms, found.silent_since_ms)
            moments.mark(run_dir, "fault", last_ms)  # another partition may have been heard of a little later
            moments.mark(run_dir, "detect", found.silent_since_ms)
        advice = advise(source, target, self.expected, both, self.force_reason)
        now = self.pointer.read()
        rows: list[dict[str, Scalar]] = [
            answer(f"{source.alias}, the source", str(source)),
            answer(f"{target.alias}, the target", str(target)),
            answer(f"{source.alias} silent since", _clock(found.silent_since_ms)),
            answer("the pointer names", said(now.pointer)),
            answer("the mirror", found.view.state),
            answer("records known and not mirrored", missing),
            answer("seconds they span", seconds),
            answer("seconds until the mirror has caught up", found.view.eta_s if source.answers else None),
            answer("topics written to on both sides", ", ".join(both) or "none seen"),
            answer("fail over", "yes" if advice.go else "no"),
            answer("because", advice.why),
        ]
        self.step.show(rows)
        if not advice.go:
            raise UsageError("failing over is not the answer", advice.why, advice.remedy)
        at_ms = moments.mark(run_dir, "decide")
        self.step.keep(Mark(name="decided", at_ms=at_ms, detail="fail over"))
        return {
            "source": str(source),
            "target": str(target),
            "records_not_mirrored": missing,
            "seconds_not_mirrored": seconds,
            "both_written": ", ".join(both),
            "why": advice.why,
        }

    def _side(self, cluster: ClusterSettings, found: ClusterMetadata | Unreachable) -> Side:
        if isinstance(found, Unreachable):
            return Side(cluster.alias, silence=found.why.rstrip("."))
        flow = self.step.flow
        chosen = self.step.place.mirror_settings().flow(flow.source, flow.target)
        ours = [
            topic
            for name, topic in found.topics.items()
            if (cluster.alias == flow.source and chosen.mirrors_topic(name))
            or (cluster.alias == flow.target and chosen.policy.source_of(name) == flow.source)
        ]
        leaderless = sum(partition.leader < 0 for topic in ours for partition in topic.partitions.values())
        return Side(cluster.alias, len(found.brokers), found.controller_id, leaderless)

    def _both_written(
        self, told: Mapping[str, ClusterMetadata | Unreachable], abort: Abort, watch_s: float = 1.0
    ) -> tuple[str, ...]:
        """Topics of the flow whose logs grow on the source and, as local ones of the same name, on the target as well."""
        flow = self.step.flow
        chosen = self.step.place.mirror_settings().flow(flow.source, flow.target)
        here, there = told[flow.source], told[flow.target]
        assert isinstance(here, ClusterMetadata)
        assert isinstance(there, ClusterMetadata)
        names = [n for n in here.topics if chosen.mirrors_topic(n) and chosen.policy.remote_topic(flow.source, n) != n]
        common = [name for name in names if name in there.topics and not there.topics[name].error_code]
        if not common:
            return ()
        with Cluster(self.step.source) as source, Cluster(self.step.target) as target:
            sides = [
                (side, [TopicPartition(n, p) for n in common for p in meta.topics[n].partitions])
                for side, meta in ((source, here), (target, there))
            ]
            first = [side.log_ends(partitions) for side, partitions in sides]
            abort.wait(watch_s)
            later = [side.log_ends(partitions) for side, partitions in sides]
        grown = [
            {p.topic for p, end in after.items() if end > before[p]} for before, after in zip(first, later, strict=True)
        ]
        return tuple(sorted(grown[0] & grown[1]))


def _clock(at_ms: int | None) -> str | None:
    return None if at_ms is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at_ms / 1000))


def expected(call: StepCall) -> Expected:
    """What the person who runs it expects of the source; gone, where nothing is said."""
    return choice(call, "expect", Expected, Expected.GONE)
