"""Action `failover.triage`: whether to fail over: which clusters answer, what is missing, what it costs.

Rules: it changes nothing and guesses nothing; everything is asked at the same time, and what was not determined by its deadline
is reported by name and does not end the run. Where failing over is not
the right action it refuses, and its error names the right one.
Not for: the judgement itself (`drlib.drill.actions.failover.triage_rules`).
"""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from drlib import clock, formats
from drlib.drill.actions.applications.pointer import PointerArgument, describe
from drlib.drill.actions.failover import fault_moment
from drlib.drill.actions.failover.automatic_approval import Approve, approve_steps, check_automatic
from drlib.drill.actions.failover.fault_moment import MirrorFetches
from drlib.drill.actions.failover.observe_flow import ObservedFlow, observe_flow, seconds_behind
from drlib.drill.actions.failover.triage_rules import Expected, advise, side_of
from drlib.drill.readiness.observe.topics import known_mirrors
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Seconds, Text, Texts
from drlib.drill.step.flow_arguments import ProbeDeadline, ReadOnlyTargetAction, Shared, question_row
from drlib.drill.step.known_silence import FORGOTTEN_S, KnownSilence, ask_in_run, controller_of, most_are_silent
from drlib.drill.testbed.failover_testbed import FailoverTestbed
from drlib.drill.witness.evidence import Finding, View
from drlib.drill.witness.login import NO_LOGIN, login_of
from drlib.drill.witness.look import HOLD_S, look_until_settled, without_answer
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S
from drlib.kafka.admin.reachability import ClusterService, examine
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.offsets.mirror_maker.mirrored_by import NAME
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Mark

BROKERS_S: Final = 3.0  # for a sign of life of each broker of a cluster that answers
_WATCH_S: Final = 1.0  # in which logs that are written to grow


class Triage(PointerArgument, ProbeDeadline, ReadOnlyTargetAction):
    """Decide whether to fail over: which clusters answer, what is missing, what it costs. Fails where it is not right."""

    name = "failover.triage"
    shared_topics = Shared.SOME

    expect: Expected = Expected.GONE
    """The state in which the operator expects the source."""
    force_reason: Text = ""
    """Why to fail over although the source answers, or the target serves in part."""
    fault_at: Text = ""
    """When the source failed, if you know it: ISO 8601 in UTC. By default the mirror's last successful fetch."""
    witnesses: Texts = ()
    """Addresses (HOST:PORT or https://HOST:PORT) of `drlib witness` at other places, which say what they see of both."""
    confirm_s: Seconds = HOLD_S
    """For how long no place that is asked may reach the source before it counts as gone."""
    approve: Approve = Approve.PERSON
    """`automatic`: a source that is gone for this host or the mirror and for a witness approves the steps that wait."""

    def check(self) -> None:
        super().check()
        fault_moment.parse(self.fault_at)
        if self.approve is Approve.AUTOMATIC:
            token = self.context.properties is not None and bool(self.context.mirror_settings().witness.token)
            check_automatic(self.approve, self.witnesses, self.confirm_s, token=token)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `UsageError` where failing over is not the answer."""
        run_dir, flow, end = self.context.run_dir, self.flow, time.monotonic() + self.probe_s
        given_ms, probe_ms = fault_moment.parse(self.fault_at), clock.now_ms()
        asked = [self.source_cluster, self.target_cluster]
        began = time.monotonic()
        silence = ask_in_run(self.context, asked, min(ANSWER_S, self.probe_s))
        waited_s = time.monotonic() - began
        abort.check()
        answering = [each for each in asked if not isinstance(silence[each.alias], Unreachable)]
        topics = {alias: self._topics(alias, answer) for alias, answer in silence.items()}
        why_silent = answer.why if isinstance(answer := silence[flow.source], Unreachable) else ""
        with ThreadPoolExecutor(
            2, "triage"
        ) as pool:  # all at the same time: the wait for one is not added to another's
            left_s = max(1.0, min(BROKERS_S, end - time.monotonic()))
            observed = pool.submit(observe_flow, self.context, flow, why_silent, left_s)
            found: Mapping[str, ClusterService | Unreachable] = {
                **{alias: answer for alias, answer in silence.items() if isinstance(answer, Unreachable)},
                **examine(answering, topics, left_s),
            }
            state = observed.result()
        topics[flow.target] = self._judged(topics, state.survey)
        abort.check()
        if isinstance(of_source := found[flow.source], ClusterService):
            KnownSilence(run_dir).note({controller_of(flow.source): most_are_silent(of_source, clock.now_ms())})
        source, target = (side_of(each.alias, found[each.alias], topics[each.alias]) for each in asked)
        if not source.serves or given_ms is not None:
            self._mark_fault(state, given_ms, probe_ms, source.serves)
        seen = None
        if not source.answers:
            gone_s = max(waited_s, silent_s(moments.silent_since(run_dir), clock.now_ms()))
            here = without_answer(
                self.source_cluster, target_answers=target.answers, waited_s=gone_s, refused=source.refused
            )
            seen = self._seen(state, here, abort)
        missing, seconds = state.not_mirrored, seconds_behind(self.context, flow, state)
        open_questions = [*_unasked(found, topics), *self._unknown(state)]
        both: tuple[str, ...] = ()
        if source.serves and target.serves:
            try:
                both = self._both_written(found, abort, max(1.0, end - time.monotonic()))
            except DrlibError as error:
                open_questions.append(f"topics written to on both sides ({error.why})")
        elif source.answers:
            open_questions.append(f"topics written to on both sides ({source.alias} serves in part)")
        since_ms = state.silent_since_ms
        silent_since = None if since_ms is None else f"{formats.second(since_ms)} UTC"
        advice = advise(source, target, self.expect, both, self.force_reason, seen)
        pointer = self.pointer.read().pointer
        rows: list[dict[str, Scalar]] = [
            question_row(f"{source.alias}, the source", str(source)),
            question_row(f"{target.alias}, the target", str(target)),
            question_row(f"{source.alias} silent since", silent_since),
            question_row(f"{source.alias} as seen from", None if seen is None else f"{seen.condition}: {seen}"),
            question_row("the pointer names", describe(pointer)),
            question_row("the mirror", state.view.state),
            *_mirror_maker_rows(state),
            question_row("records known and not mirrored", missing),
            question_row("as the source said at", _moment(state.view.as_of_ms)),
            question_row("seconds they span, at most", seconds),
            question_row("seconds until the mirror has caught up", state.view.eta_s if source.answers else None),
            question_row("topics written to on both sides", ", ".join(both) or "none seen"),
            question_row("not determined", "; ".join(open_questions) or "nothing"),
            question_row("fail over", "yes" if advice.go else "no"),
            question_row("because", advice.why),
        ]
        self.show(rows)
        if not advice.go:
            raise UsageError("failing over is not the answer", advice.why, advice.remedy)
        approved = approve_steps(run_dir, seen) if self.approve is Approve.AUTOMATIC else "not automatically"
        at_ms = moments.mark(run_dir, "decide")
        self.mark(Mark(name="decided", at_ms=at_ms, detail="fail over"))
        return {
            "source": str(source),
            "target": str(target),
            "records_not_mirrored": missing,
            "seconds_not_mirrored": seconds,
            "both_written": ", ".join(both),
            "not_determined": "; ".join(open_questions),
            "why": advice.why,
            "seen_from": "" if seen is None else str(seen),
            "approved": approved,
        }

    def _seen(self, state: ObservedFlow, here: View, abort: Abort) -> Finding:
        """What this host, the mirror's workers and the witnesses see of a source that does not answer."""
        place, lab = self.context, self.context.lab
        testbed = None if lab is None else FailoverTestbed(lab, place.run_dir, flow=self.flow)
        return look_until_settled(
            self.source_cluster,
            self.target_cluster,
            state.addresses,
            self.witnesses,
            hold_s=self.confirm_s,
            login=login_of(place.mirror_settings()) if self.witnesses and place.properties is not None else NO_LOGIN,
            first=here,
            statuses=lambda: [] if testbed is None else [testbed.mirror()],
            pause=abort.wait,
        )

    def _mark_fault(self, state: ObservedFlow, given_ms: int | None, probe_ms: int, serves: bool) -> None:
        """Keep when the source failed, and when that was noticed."""
        fetches = None
        if not serves and (state.silent_since_ms is not None or state.last_fetch_ms):
            skew = fault_moment.workers_skew(state.addresses)
            if skew is not None:
                moments.keep_mirror_ahead(self.context.run_dir, skew.low, skew.high)
            fetches = MirrorFetches(state.last_fetch_ms, state.silent_since_ms, skew)
        first_ms = moments.silent_since(self.context.run_dir)
        if first_ms is not None and not serves:
            probe_ms = min(probe_ms, first_ms)
        fault, detect = fault_moment.fault_and_detection(given_ms, fetches, probe_ms)
        moments.mark(self.context.run_dir, "fault", moment=fault)
        moments.mark(self.context.run_dir, "detect", moment=detect)

    def _topics(self, alias: str, answer: ClusterMetadata | Unreachable) -> list[str]:
        """The flow's topics on one cluster: those that are mirrored, or their mirrors."""
        if isinstance(answer, Unreachable):
            return []
        flow = self.flow
        chosen = self.context.mirror_settings().flow(flow.source, flow.target)
        return [
            name
            for name in answer.topics
            if (alias == flow.source and chosen.mirrors_topic(name))
            or (alias == flow.target and chosen.is_mirror(name))
        ]

    def _judged(self, topics: Mapping[str, list[str]], survey: Survey) -> list[str]:
        """The topics by which the target is judged, once it is known what the source and the journal have."""
        flow = self.flow
        chosen = self.context.mirror_settings().flow(flow.source, flow.target)
        known = known_mirrors(chosen, topics[flow.source], survey)
        return [name for name in topics[flow.target] if chosen.is_mirror(name, known)]

    def _unknown(self, state: ObservedFlow) -> list[str]:
        """What the mirror's state leaves open, by name."""
        rows = []
        without = state.survey.without_leader
        ends = sum(not p.known and TopicPartition(p.topic, p.partition) not in without for p in state.view.partitions)
        if state.survey.target_partly:
            rows.append(f"{self.flow.target}: {state.survey.target_partly}")
        if state.survey.target_error:
            rows.append(f"the mirror's progress ({state.survey.target_error})")
        elif ends or not state.view.partitions:
            which = f"log ends of {ends} partitions on {self.flow.source}" if ends else "which partitions are mirrored"
            rows.append(f"{which}, and with them what a failover loses")
        if state.view.mirror_maker is not None:
            rows += [f"{NAME}: {text}" for text in state.view.mirror_maker.unread]
        elif not state.view.workers:
            rows.append("what the mirror holds in memory (no worker answers at its address)")
        if state.silent_since_ms is None and (state.survey.source_error or state.survey.source_partly):
            rows.append(f"since when {self.flow.source} is silent (no worker says)")
        return rows

    def _both_written(
        self, answers: Mapping[str, ClusterService | Unreachable], abort: Abort, timeout_s: float
    ) -> tuple[str, ...]:
        """Topics of the flow whose logs grow on the source and, as local ones of the same name, on the target as well.

        Raises `Unreachable`.
        """
        flow = self.flow
        chosen = self.context.mirror_settings().flow(flow.source, flow.target)
        source_service, target_service = answers[flow.source], answers[flow.target]
        assert isinstance(source_service, ClusterService)
        assert isinstance(target_service, ClusterService)
        on_source, on_target = source_service.metadata, target_service.metadata
        names = [
            n
            for n in on_source.topics
            if chosen.mirrors_topic(n)
            and not chosen.policy.is_heartbeats(n)  # a replicator writes them, on both sides
            and chosen.policy.remote_topic(flow.source, n) != n
        ]
        common = [name for name in names if name in on_target.topics and not on_target.topics[name].error_code]
        if not common:
            return ()
        with (
            Cluster(self.source_cluster, timeout_s=timeout_s) as source,
            Cluster(self.target_cluster, timeout_s=timeout_s) as target,
        ):
            sides = [
                (side, [TopicPartition(n, p) for n in common for p in meta.topics[n].partitions])
                for side, meta in ((source, on_source), (target, on_target))
            ]
            first = [side.log_ends(partitions) for side, partitions in sides]
            abort.wait(_WATCH_S)
            later = [side.log_ends(partitions) for side, partitions in sides]
        grown = [
            {p.topic for p, end in after.items() if end > before[p]} for before, after in zip(first, later, strict=True)
        ]
        return tuple(sorted(grown[0] & grown[1]))


def silent_s(since_ms: int | None, now_ms: int) -> float:
    """For how long this machine has found the source silent, if it did so before the run and that is not too old. Pure."""
    age_s = 0.0 if since_ms is None else (now_ms - since_ms) / 1000
    return age_s if 0 < age_s < FORGOTTEN_S else 0.0


def _mirror_maker_rows(state: ObservedFlow) -> list[dict[str, Scalar]]:
    """How MirrorMaker 2 stands, where it mirrors the flow."""
    found, now_ms = state.view.mirror_maker, state.view.at_ms
    if found is None:
        return []
    return [
        question_row("MirrorMaker 2", found.words(now_ms)),
        question_row("the source's newest heartbeat that was mirrored", _moment(found.source_seen_ms or 0)),
        question_row("records not mirrored at least", state.view.lag_at_least),
    ]


def _unasked(found: Mapping[str, ClusterService | Unreachable], topics: Mapping[str, Collection[str]]) -> list[str]:
    """Which answering clusters did not say how many copies a write needs."""
    return [
        f"min.insync.replicas of {len(topics[alias])} topics on {alias}"
        for alias, each in found.items()
        if isinstance(each, ClusterService) and topics[alias] and not each.min_isr
    ]


def _moment(at_ms: int) -> str | None:
    return f"{formats.second(at_ms)} UTC" if at_ms else None
