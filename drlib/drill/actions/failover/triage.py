"""Action `failover.triage`: whether to fail over: which clusters answer, what is missing, what it costs.

Rules: it changes nothing and guesses nothing; what could not be checked is reported by name. Where failing over is not
the right action it refuses, and its error names the right one.
Not for: the judgement itself (`drlib.drill.actions.failover.triage_rules`).
"""

from collections.abc import Mapping

from drlib import clock, formats
from drlib.drill.actions.applications.pointer import PointerArgument, describe
from drlib.drill.actions.failover import fault_moment
from drlib.drill.actions.failover.fault_moment import MirrorSilence
from drlib.drill.actions.failover.flow_state import FlowState, observe_flow, seconds_behind
from drlib.drill.actions.failover.triage_rules import Expected, Side, advise
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Text
from drlib.drill.step.flow_arguments import ReadOnlyTargetAction, question_row
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import who_answers
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Mark


class Triage(PointerArgument, ReadOnlyTargetAction):
    """Decide whether to fail over: which clusters answer, what is missing, what it costs. Fails where it is not right."""

    name = "failover.triage"

    expect: Expected = Expected.GONE
    """The state in which the operator expects the source."""
    force_reason: Text = ""
    """Why to fail over although the source answers."""
    fault_at: Text = ""
    """When the source failed, if you know it: ISO 8601 in UTC. By default the mirror's last successful fetch."""

    def check(self) -> None:
        super().check()
        fault_moment.parse(self.fault_at)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `UsageError` where failing over is not the answer."""
        run_dir, flow = self.context.run_dir, self.flow
        given_ms, probe_ms = fault_moment.parse(self.fault_at), clock.now_ms()
        clusters = [self.source_cluster, self.target_cluster]
        answers = who_answers(clusters)
        source, target = (self._side(cluster, answers[cluster.alias]) for cluster in clusters)
        abort.check()
        state = observe_flow(self.context, flow, source.silence)
        both = self._both_written(answers, abort) if source.answers and target.answers else ()
        if not source.serves or given_ms is not None:
            self._mark_fault(state, given_ms, probe_ms, source.serves)
        missing, seconds = state.not_mirrored, seconds_behind(self.context, flow, state)
        since_ms = state.silent_since_ms
        silent_since = None if since_ms is None else f"{formats.second(since_ms)} UTC"
        advice = advise(source, target, self.expect, both, self.force_reason)
        pointer = self.pointer.read().pointer
        rows: list[dict[str, Scalar]] = [
            question_row(f"{source.alias}, the source", str(source)),
            question_row(f"{target.alias}, the target", str(target)),
            question_row(f"{source.alias} silent since", silent_since),
            question_row("the pointer names", describe(pointer)),
            question_row("the mirror", state.view.state),
            question_row("records known and not mirrored", missing),
            question_row("seconds they span, at most", seconds),
            question_row("seconds until the mirror has caught up", state.view.eta_s if source.answers else None),
            question_row("topics written to on both sides", ", ".join(both) or "none seen"),
            question_row("fail over", "yes" if advice.go else "no"),
            question_row("because", advice.why),
        ]
        self.show(rows)
        if not advice.go:
            raise UsageError("failing over is not the answer", advice.why, advice.remedy)
        at_ms = moments.mark(run_dir, "decide")
        self.mark(Mark(name="decided", at_ms=at_ms, detail="fail over"))
        return {
            "source": str(source),
            "target": str(target),
            "records_not_mirrored": missing,
            "seconds_not_mirrored": seconds,
            "both_written": ", ".join(both),
            "why": advice.why,
        }

    def _mark_fault(self, state: FlowState, given_ms: int | None, probe_ms: int, serves: bool) -> None:
        """Keep when the source failed, and when that was noticed."""
        silence = None
        if state.silent_since_ms is not None and not serves:
            skew = fault_moment.workers_skew(state.addresses)
            if skew is not None:
                moments.keep_mirror_ahead(self.context.run_dir, skew.low, skew.high)
            silence = MirrorSilence(state.view.as_of_ms, state.silent_since_ms, skew)
        fault, detect = fault_moment.fault_and_detection(given_ms, silence, probe_ms)
        moments.mark(self.context.run_dir, "fault", moment=fault)
        moments.mark(self.context.run_dir, "detect", moment=detect)

    def _side(self, cluster: ClusterSettings, answer: ClusterMetadata | Unreachable) -> Side:
        if isinstance(answer, Unreachable):
            return Side(cluster.alias, silence=answer.why.rstrip("."))
        flow = self.flow
        chosen = self.context.mirror_settings().flow(flow.source, flow.target)
        mirrored = [
            topic
            for name, topic in answer.topics.items()
            if (cluster.alias == flow.source and chosen.mirrors_topic(name))
            or (cluster.alias == flow.target and chosen.policy.source_of(name) == flow.source)
        ]
        leaderless = sum(partition.leader < 0 for topic in mirrored for partition in topic.partitions.values())
        return Side(cluster.alias, len(answer.brokers), answer.controller_id, leaderless)

    def _both_written(
        self, answers: Mapping[str, ClusterMetadata | Unreachable], abort: Abort, watch_s: float = 1.0
    ) -> tuple[str, ...]:
        """Topics of the flow whose logs grow on the source and, as local ones of the same name, on the target as well."""
        flow = self.flow
        chosen = self.context.mirror_settings().flow(flow.source, flow.target)
        on_source, on_target = answers[flow.source], answers[flow.target]
        assert isinstance(on_source, ClusterMetadata)
        assert isinstance(on_target, ClusterMetadata)
        names = [
            n for n in on_source.topics if chosen.mirrors_topic(n) and chosen.policy.remote_topic(flow.source, n) != n
        ]
        common = [name for name in names if name in on_target.topics and not on_target.topics[name].error_code]
        if not common:
            return ()
        with Cluster(self.source_cluster) as source, Cluster(self.target_cluster) as target:
            sides = [
                (side, [TopicPartition(n, p) for n in common for p in meta.topics[n].partitions])
                for side, meta in ((source, on_source), (target, on_target))
            ]
            first = [side.log_ends(partitions) for side, partitions in sides]
            abort.wait(watch_s)
            later = [side.log_ends(partitions) for side, partitions in sides]
        grown = [
            {p.topic for p, end in after.items() if end > before[p]} for before, after in zip(first, later, strict=True)
        ]
        return tuple(sorted(grown[0] & grown[1]))
