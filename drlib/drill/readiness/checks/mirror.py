"""Findings about the mirror itself: workers, open events, lag, retention and heartbeats.

Rules: while the target does not answer, progress is known only from a worker that answered; while the source does not
answer, lag is known only if the end offset of every partition is. A partition without an offset map is an event. Of a flow
that MirrorMaker 2 mirrors the lag has bounds: the least that it can be is judged, and a most that exceeds the objective is a
warning.
"""

from collections.abc import Mapping
from typing import Final

from drlib.drill.readiness.checks.objectives import CORRECT, CheckContext, Judgements, count, passed, unknown
from drlib.drill.readiness.checks.observations import FlowObservation, LastHeartbeat, MirrorStatus, Unanswered
from drlib.drill.readiness.score import Severity
from drlib.formats import first_few, span
from drlib.kafka.protocol.error_codes import UNAUTHORIZED
from drlib.kafka.security.errors import CANNOT_USE
from drlib.mirror.monitor import flow_view
from drlib.mirror.monitor.flow_view import FlowView
from drlib.mirror.offsets.mirror_maker.mirrored_by import EXACT_BY_TAKEOVER, NAME, MirrorMakerFlow
from drlib.mirror.status.causes import group_by_cause, subject, uncovered

MISSED_HEARTBEATS: Final = 10  # heartbeats that may be missing before it is a warning, and at least:
LATE_S: Final = 30

# Events that mean that records do not cross, or cannot be trusted: they close the gate.
BLOCKING: Final = frozenset(
    {
        "LaneFailed", "LaneUnauthorized", "WrongCluster", "OfflinePartition", "Parked", "TargetRefused", "SourceCorrupt",
        "SourceStalled", "SourceTruncated", "SourceUnproven", "SourceLossParked", "JournalLost", "MirrorTopicRecreated",
        "MirrorContradiction", "MirrorTopicRefused", "TopicLoop", "RecordsUnexplained", "CopiesUnknown",
        "ReverseFlowNotReady", "RecordsReturned",
    }
)  # fmt: skip
_SEE_MM2: Final = "See MirrorMaker 2's log, and offset-syncs.topic.location and emit.offset-syncs.enabled in its file."
UNREAD: Final = "MirrorUnread"  # the doctor could not read a mirror topic, so its offset map is unknown
# Events that another check covers, or that need no action.
COVERED: Final = frozenset(
    {
        "NoWorker", "LaneUnowned", "WorkerSilent", "RetentionAhead", "GroupAhead", "GroupRewound", "TopicConfigDrift",
        "SourceUnauthorized", "TargetUnauthorized", "TakenOver", "LaneLost", "GroupLive", "GroupNotTranslated",
        "MirrorMakerSilent",
    }
)  # fmt: skip


def workers(status: MirrorStatus, flow: str, context: CheckContext) -> Judgements:
    """Does a worker own every lane?"""
    view = status.view
    if status.target_error and not view.workers:
        return _cluster_silent("target", "the membership of the flow's group", status.target_error)
    start = f"Start one; it resumes at the exact record: {context.drlib('mirror')}"
    if view.mirror_maker is not None:
        return _mirror_maker(view, flow, context)
    if view.state == flow_view.NO_WORKER:
        return [(flow, Severity.CRITICAL, "the flow's group has no member: nothing is mirrored", start)]
    if view.state == flow_view.WAITING:
        return [
            (flow, Severity.CRITICAL, f"its worker waits for a cluster: {event.detail}", event.remedy)
            for event in view.open_events
            if event.name == flow_view.WAITS
        ]
    rows: Judgements = []
    unowned = ", ".join(str(lane.lane) for lane in view.lanes if lane.state == "not owned")
    if unowned:
        why = f"of {count(len(view.lanes), 'lane')}, {unowned} has no owner"
        rows.append((f"lane {unowned}", Severity.CRITICAL, why, start))
    silent = ", ".join(event.entity for event in view.open_events if event.name == "WorkerSilent")
    if silent:
        fix = "Check that process; its lanes go to another worker when its group session times out."
        rows.append((silent, Severity.UNKNOWN, "it owns a lane and does not answer at its address", fix))
    if rows:
        return rows
    if view.state == flow_view.MIRRORING:
        return passed(f"{count(view.members or 0, 'worker')}, {count(len(view.lanes), 'lane')}, all owned")
    if view.state == flow_view.UNKNOWN:
        return [(flow, Severity.UNKNOWN, "it is unknown whether a worker runs", start)]
    return [(flow, Severity.WARN, f"its lanes are {view.state}", "Wait until it runs, then run drlib doctor again.")]


def _mirror_maker(view: FlowView, flow: str, context: CheckContext) -> Judgements:
    """Does the MirrorMaker 2 run that mirrors the flow?"""
    assert view.mirror_maker is not None
    runs, words = view.mirror_maker.runs(view.at_ms), f"{NAME}: {view.mirror_maker.words(view.at_ms)}"
    if runs:
        return passed(f"{words}; {EXACT_BY_TAKEOVER}")
    fix = f"Start MirrorMaker 2 again; or take the flow over, which continues after its last copy: {context.drlib('mirror')}"
    if runs is None:
        return [(flow, Severity.UNKNOWN, f"{words}: nothing says whether it runs", fix)]
    return [(flow, Severity.CRITICAL, f"{words}: nothing is mirrored", fix)]


def events(status: MirrorStatus, observed: FlowObservation) -> Judgements:
    """Is an event open that no other check covers?"""
    view = status.view
    if status.target_error and not view.workers:
        return _cluster_silent("target", "the state of its journal and workers", status.target_error)
    unreachable = {"SourceUnreachable": bool(observed.source.error), "TargetUnreachable": bool(observed.target.error)}
    unmapped = uncovered(status.unmapped, view.open_events)
    rows: Judgements = []
    for event in (*view.open_events, *group_by_cause(unmapped)):
        if event.name in COVERED or unreachable.get(event.name):
            continue
        severity = Severity.CRITICAL if event.name in BLOCKING else Severity.WARN
        severity = Severity.UNKNOWN if event.name == UNREAD else severity
        rows.append((subject(event), severity, f"{event.name}: {event.detail}", event.remedy))
    if view.members is None or len(view.workers) < view.members:
        why = "a worker did not answer, so its events are unknown; only those in the journal were read"
        fix = "Start workers with --metrics HOST:PORT, or name a worker with --at HOST:PORT."
        rows.append((observed.flow, Severity.UNKNOWN, why, fix))
    return rows or passed("no event is open")


def lag_unknown(status: MirrorStatus) -> Judgements | None:
    """Why the lag of the mirror is not known; None when it is."""
    view = status.view
    if status.target_error and not view.workers:
        return _cluster_silent("target", "the mirror's progress", status.target_error)
    if status.source_error and not (view.partitions and all(partition.known for partition in view.partitions)):
        return _cluster_silent("source", "the lag", status.source_error)
    return None


def lag(status: MirrorStatus, flow: str, context: CheckContext) -> Judgements:
    """Would a failover now lose more than the objectives allow?"""
    if (reason := lag_unknown(status)) is not None:
        return reason
    view, objectives = status.view, context.objectives
    if view.lag is None and view.mirror_maker is not None:
        return [(flow, Severity.UNKNOWN, _not_known(view.mirror_maker), _SEE_MM2)]
    if view.lag is None:
        fix = CORRECT if CANNOT_USE in view.source_error else "Restore the source."
        return [(flow, Severity.UNKNOWN, "the end offsets of the source are unknown", fix)]
    if view.lag == 0:
        return passed("no record is behind")
    age = "of unknown age" if view.lag_s is None else f"the oldest {span(view.lag_s)} old"
    objective = f"at most {count(objectives.rpo_records, 'record')} and {span(objectives.rpo_seconds)} may be lost"
    evidence = f"{count(view.lag, 'record')} not on the target, {age}, most in {_furthest(view)}; {objective}"
    fix = (
        f"Wait for it to catch up; if it does not, widen the link or add workers: {context.drlib('status', '--watch')}"
        if view.state in (flow_view.MIRRORING, flow_view.STARTING)
        else f"Start a worker: {context.drlib('mirror')}"
    )
    exceeds = view.lag > objectives.rpo_records or (view.lag_s is not None and view.lag_s > objectives.rpo_seconds)
    if view.mirror_maker is not None:
        return _bounded_lag(view, flow, evidence, context, exceeds)
    if exceeds:
        return [(flow, Severity.CRITICAL, evidence, fix)]
    return passed(evidence) if view.lag_s is not None else [(flow, Severity.UNKNOWN, evidence, fix)]


def _bounded_lag(view: FlowView, flow: str, evidence: str, context: CheckContext, exceeds: bool) -> Judgements:
    """`exceeds`: the most that the lag can be is more than the objective."""
    least = view.lag_at_least or 0
    evidence = (
        f"at most {evidence}; at least {count(least, 'record')}: MirrorMaker 2's offset syncs leave the rest open"
    )
    fix = f"See whether it keeps up: {context.drlib('status', '--watch')}"
    if least > context.objectives.rpo_records or (least and exceeds and view.lag_s is not None):
        return [(flow, Severity.CRITICAL, evidence, fix)]
    return [(flow, Severity.WARN, evidence, fix)] if exceeds else passed(evidence)


def _not_known(mirror_maker: MirrorMakerFlow) -> str:
    known = first_few(f"{partition} ({why})" for partition, why in mirror_maker.unknown)
    return f"how far it is mirrored is not known: {known}" if known else "the end offsets of the source are unknown"


def retention(status: MirrorStatus, retention_ms: Mapping[str, int] | Unanswered, context: CheckContext) -> Judgements:
    """Would records expire on the source before they are mirrored?"""
    if (reason := lag_unknown(status)) is not None:
        return reason
    if isinstance(retention_ms, Unanswered):
        return unknown(retention_ms.why, retention_ms.fix)
    warning_s = context.retention_warning_s

    def raise_retention(topic: str) -> str:
        longer = str(max(warning_s * 2000, 2 * retention_ms.get(topic, 0)))
        options = (
            "--entity-type",
            "topics",
            "--entity-name",
            topic,
            "--alter",
            "--add-config",
            f"retention.ms={longer}",
        )
        return context.tool("kafka-configs", context.source, *options)

    rows: Judgements = []
    behind = [partition for partition in status.view.partitions if partition.lag]
    for partition in behind:
        topic, outlook = partition.topic, partition.outlook
        entity = f"{topic}-{partition.partition}"
        fix = f"Until the mirror has caught up: {raise_retention(topic)}"
        if outlook.warning:
            rows.append((entity, Severity.CRITICAL, outlook.warning, fix))
        elif outlook.left_s is not None and outlook.left_s < warning_s:
            why = f"its oldest unmirrored record may expire in {span(outlook.left_s)} by {outlook.rule}"
            rows.append((entity, Severity.WARN, why, fix))
        elif outlook.lag_s is None and retention_ms.get(topic, -1) >= 0:
            why = "the age of its oldest unmirrored record could not be read"
            rows.append((entity, Severity.UNKNOWN, why, "Run drlib doctor again."))
    lagging_topics = {partition.topic for partition in behind}
    for topic, kept in sorted(retention_ms.items()):
        if 0 <= kept < warning_s * 1000 and topic not in lagging_topics:
            why = f"it keeps records for {span(kept / 1000)}: a mirror that is down for longer loses records"
            rows.append((topic, Severity.WARN, why, raise_retention(topic)))
    if rows:
        return rows
    ages = [kept for kept in retention_ms.values() if kept >= 0]
    kept_for = f"records are kept for {span(min(ages) / 1000)} or longer" if ages else "no topic expires by age"
    left_s = status.view.left_s
    return passed(kept_for + (f"; the first unmirrored one may expire in {span(left_s)}" if left_s is not None else ""))


def heartbeat(last: LastHeartbeat, observed: FlowObservation, context: CheckContext) -> Judgements:
    """Did a heartbeat of the flow arrive lately?"""
    status, now_ms = observed.mirror, observed.at_ms
    if last.interval_s <= 0:
        return passed("heartbeats are switched off in the properties file")
    fix = f"Start a worker: {context.drlib('mirror')}"
    if not isinstance(status, Unanswered) and status.view.mirror_maker is not None:
        fix = f"Start MirrorMaker 2 again, or take the flow over: {context.drlib('mirror')}"
    if last.at_ms is None:
        return [("", Severity.WARN, "the newest records of the heartbeats topic hold none of this flow", fix)]
    age = max(0.0, (now_ms - last.at_ms) / 1000)
    if age > max(LATE_S, MISSED_HEARTBEATS * last.interval_s):
        return [("", Severity.WARN, f"the last one is {span(age)} old, one is due every {last.interval_s} s", fix)]
    return passed(f"the last one is {span(age)} old")


def _cluster_silent(side: str, what: str, error: str) -> Judgements:
    if UNAUTHORIZED in error:
        fix = "Grant the right (drlib doctor FILE --rights), then run drlib doctor again."
        return unknown(f"{what} is unknown: {error}", fix)
    if CANNOT_USE in error:
        return unknown(f"{what} is unknown: {error}", CORRECT)
    return unknown(
        f"the {side} does not answer: {what} is unknown", f"Restore the {side}, then run drlib doctor again."
    )


def _furthest(view: FlowView) -> str:
    partition = max(view.partitions, key=lambda p: p.lag)
    return f"{partition.topic}-{partition.partition}"
