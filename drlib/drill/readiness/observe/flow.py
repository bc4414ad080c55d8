"""What the view of a flow says to each check: workers, events, backlog and retention. Pure.

Rules: where the target did not answer, how far the mirror is is known only from a worker that was heard; where the source
did not, nothing is behind only if somebody knows where its logs end. A partition that has no map is an event of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from drlib.drill.readiness.checks.observations import Backlog, Expiring, Retained, Told, Unseen, Work, Workers
from drlib.mirror.monitor.flow_view import FlowView
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status.event_kinds import kind_of
from drlib.mirror.status.event_log import Event
from drlib.model import TopicPartition


def workers(survey: Survey, view: FlowView) -> Workers | Unseen:
    """Who runs the flow."""
    if survey.target_error and not view.workers:
        return _silent("target", "who is in the flow's group")
    unowned = tuple(lane.lane for lane in view.lanes if lane.state == "not owned")
    silent = tuple(event.entity for event in view.open_events if event.name == "WorkerSilent")
    return Workers(Work(view.state), view.members, len(view.lanes), unowned, silent)


def told(survey: Survey, view: FlowView) -> Told | Unseen:
    """Open events; also why a partition has no map, which the journal tells when no worker does."""
    if survey.target_error and not view.workers:
        return _silent("target", "what the journal and its workers tell")
    heard = view.members is not None and len(view.workers) >= view.members
    known = {(event.name, event.entity) for event in view.open_events}
    refused = []
    for key, error in survey.maps.refused.items():
        names = survey.maps.names.get(key.topic_id)
        name = type(error).__name__
        event = Event(
            name if kind_of(name).meaning else "MirrorContradiction",
            f"{names.source_topic if names else key.topic_id}-{key.partition}",
            f"{error.what}: {error.why}",
            0,
            remedy=error.remedy,
            flow=survey.flow,
        )
        if (event.name, event.entity) not in known:
            refused.append(event)
    return Told((*view.open_events, *refused), heard)


def _gap(survey: Survey, view: FlowView) -> Unseen | None:
    """Why nobody can say how far behind the mirror is; None when somebody can."""
    if survey.target_error and not view.workers:
        return _silent("target", "how far the mirror is")
    if survey.source_error and not (view.partitions and all(p.known for p in view.partitions)):
        return _silent("source", "where its logs end")
    return None


def _silent(side: str, what: str) -> Unseen:
    return Unseen(f"the {side} does not answer, so nobody says {what}", f"Bring the {side} back, then look again.")


def backlog(survey: Survey, view: FlowView) -> Backlog | Unseen:
    """What is not on the target yet."""
    gap = _gap(survey, view)
    if gap is not None:
        return gap
    furthest = max(view.partitions, key=lambda p: p.lag, default=None)
    name = f"{furthest.topic}-{furthest.partition}" if furthest is not None else ""
    return Backlog(view.lag, view.lag_s, name, view.as_of_ms or view.at_ms)


def retained(survey: Survey, view: FlowView, shortest_ms: Mapping[str, int] | Unseen) -> Retained | Unseen:
    """`shortest_ms`: retention.ms of each source topic."""
    gap = _gap(survey, view)
    if gap is not None:
        return gap
    if isinstance(shortest_ms, Unseen):
        return shortest_ms
    behind = tuple(
        Expiring(
            TopicPartition(p.topic, p.partition),
            p.outlook.left_s,
            p.outlook.rule,
            p.outlook.warning,
            p.outlook.lag_s is not None,
        )
        for p in view.partitions
        if p.lag
    )
    return Retained(behind, shortest_ms)
