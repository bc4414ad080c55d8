"""Combine a survey of a flow's clusters with the statuses of its workers into one `FlowView`.

Rules: the survey always exists; a worker that answers has newer and more detailed data of its own partitions. While the source
does not say which topics it has, what the journal knows and a running lane does not mirror was deleted there. A flow without a
worker has a state of its own (`NO_WORKER`, or `MIRROR_MAKER` where MirrorMaker 2 mirrors it), never an empty table. Pure.
Not for: asking clusters and workers (`observer`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from drlib.mirror.monitor.survey import GroupStatus, Survey
from drlib.mirror.offsets.mirror_maker.mirrored_by import NAME, MirrorMakerFlow
from drlib.mirror.status.causes import bounded, group_by_cause, uncovered
from drlib.mirror.status.event_kinds import kind_of
from drlib.mirror.status.worker_status import Event, FlowStatus, PartitionStatus, WorkerStatus

STALE_MS = 15_000  # an older worker status does not count as current
MIRRORING, NO_WORKER, INCOMPLETE, STARTING, UNKNOWN = "mirroring", "no worker", "incomplete", "starting", "unknown"
MIRROR_MAKER = NAME
WENT_BACK = "SourceTruncated"
WAITING = "waiting"  # the flow's workers wait for a cluster: `FlowUnreachable` says for which, and since when


WAITS = "FlowUnreachable"
FORBIDDEN = "SourceTopicForbidden"
RUNNING = "running"
_FlowOfWorker = tuple[WorkerStatus, FlowStatus]


@dataclass(frozen=True)
class LaneView:
    """`state` as the worker reports it; "owned" or "not owned" where only the group is known."""

    lane: int
    owner: str
    state: str
    producer_id: int
    epoch: int
    claimed_ms: int
    partitions: int
    lag: int | None
    kept_bytes: int = 0  # records read ahead, in its worker's memory


@dataclass(frozen=True)
class FlowView:
    """The state of one flow at `at_ms`. None is unknown."""

    flow: str
    state: str
    at_ms: int
    members: int | None
    workers: tuple[str, ...]  # those that answered
    lanes: tuple[LaneView, ...]
    partitions: tuple[PartitionStatus, ...]
    events: tuple[Event, ...]
    groups: tuple[GroupStatus, ...] | None
    records_per_s: float | None
    bytes_per_s: float | None
    events_omitted: int = 0  # open events that are not listed
    source_error: str = ""  # why the source does not answer, or which of its brokers do not; empty where all do
    target_error: str = ""
    mirror_maker: MirrorMakerFlow | None = (
        None  # where MirrorMaker 2 mirrors the flow; `lag` is then the most it can be
    )

    @property
    def open_events(self) -> tuple[Event, ...]:
        return tuple(event for event in self.events if event.resolved_ms is None)

    @property
    def lag(self) -> int | None:
        """In records; None when the end of some source log is unknown, or no log is known because a side does not answer."""
        if not self.partitions and (self.source_error or self.target_error):
            return None
        return sum(p.lag for p in self.partitions) if all(p.known for p in self.partitions) else None

    @property
    def lag_at_least(self) -> int | None:
        """In records, where MirrorMaker 2 may have mirrored more than its offset syncs say; else the lag."""
        if self.mirror_maker is None or self.lag is None:
            return self.lag
        return sum(p.lag_at_least for p in self.partitions)

    @property
    def as_of_ms(self) -> int:
        """The oldest time at which the source reported a log end; 0 when it never did."""
        return min((p.as_of_ms for p in self.partitions), default=0)

    @property
    def lag_bytes(self) -> int | None:
        """An estimate."""
        sizes = [p.outlook.lag_bytes for p in self.partitions if p.lag]
        return None if self.lag is None or any(s is None for s in sizes) else sum(s or 0 for s in sizes)

    @property
    def lag_s(self) -> float | None:
        """Age of the oldest unmirrored record of all."""
        ages = [p.outlook.lag_s for p in self.partitions if p.lag]
        known = [age for age in ages if age is not None]
        return None if self.lag is None or len(known) < len(ages) else max(known, default=0.0)

    @property
    def eta_s(self) -> float | None:
        """Seconds until the last partition has caught up; None when unknown, or when the lag does not shrink."""
        etas = [p.outlook.eta_s for p in self.partitions if p.lag]
        known = [eta for eta in etas if eta is not None]
        return None if self.lag is None or len(known) < len(etas) else max(known, default=0.0)

    @property
    def left_s(self) -> float | None:
        """Seconds until the first unmirrored record may expire; None when no unmirrored record expires."""
        return min((p.outlook.left_s for p in self.partitions if p.lag and p.outlook.left_s is not None), default=None)


def overview(
    survey: Survey, workers: Sequence[WorkerStatus], at_ms: int, silent_workers: Sequence[str] = ()
) -> FlowView:
    """The view of one flow. `workers`: those that answered; `silent_workers`: those that own a lane and did not."""
    statuses: list[_FlowOfWorker] = [
        (worker, flow)
        for worker in workers
        for flow in worker.flows
        if flow.flow == survey.flow and at_ms - worker.at_ms < STALE_MS and worker.state not in ("stopped", "failed")
    ]
    reported = {(p.topic, p.partition): p for _, flow in statuses for p in flow.partitions}
    surveyed = {(p.topic, p.partition): p for p in survey.partitions}
    dropped = _deleted(survey, statuses, reported)
    surveyed = {key: p for key, p in surveyed.items() if key not in dropped}
    partitions = surveyed | {key: _newest(p, surveyed.get(key)) for key, p in reported.items()}
    # Of a source that went back its worker had mirrored more than there is now: the journal says how far it is the same log.
    back = {event.entity for event in survey.events if event.name == WENT_BACK}
    partitions |= {
        key: replace(surveyed[key], parked=p.parked)
        for key, p in reported.items()
        if back and key in surveyed and f"{p.topic}-{p.partition}" in back
    }
    ordered = tuple(partitions[key] for key in sorted(partitions))
    lanes = () if survey.mirror_maker is not None else _lanes(survey, statuses, ordered)
    state = _state(survey, statuses, lanes, silent_workers)
    events, omitted = _events(survey, statuses, lanes, state, reported, silent_workers)
    rates = [(flow.records_per_s, flow.bytes_per_s) for _, flow in statuses]
    records, size = _sum([r for r, _ in rates]), _sum([b for _, b in rates])
    if not statuses:
        measured = [p.outlook.out_per_s for p in survey.partitions]
        records = _sum(measured)
    return FlowView(
        survey.flow,
        state,
        at_ms,
        None if survey.target_error or survey.members is None else len(survey.members),
        tuple(worker.worker or str(worker.pid) for worker, _ in statuses),
        lanes,
        ordered,
        events,
        survey.groups,
        records,
        size,
        omitted,
        survey.source_error or survey.source_partly,
        survey.target_error,
        survey.mirror_maker,
    )


def _deleted(
    survey: Survey, statuses: Sequence[_FlowOfWorker], reported: Collection[tuple[str, int]]
) -> set[tuple[str, int]]:
    """Partitions of the journal that the source did not have any more, by what the worker of their lane mirrors. None while the
    source says which topics it has: what it does not have is not surveyed then.

    Such a mirror is kept on the target for as long as anyone likes; with it neither the lag nor a loss would be known. While
    some topic may not be described, which ones were deleted is not known.
    """
    events = [
        (event.name, event.flow) for worker, _ in statuses for event in worker.events if event.resolved_ms is None
    ]
    if not survey.source_error or (FORBIDDEN, survey.flow) in events:
        return set()
    running = {lane.lane for _, flow in statuses for lane in flow.lanes if lane.state == RUNNING}
    return {
        (p.topic, p.partition)
        for p in survey.partitions
        if not p.known and p.lane in running and (p.topic, p.partition) not in reported
    }


def _newest(reported: PartitionStatus, surveyed: PartitionStatus | None) -> PartitionStatus:
    """A worker's report, with the surveyed log end where that is further, and so newer: two machines' clocks are not compared.

    A source that did not answer has no surveyed end (-1).
    """
    if surveyed is None or surveyed.high_watermark <= reported.high_watermark:
        return reported
    return replace(
        reported, high_watermark=surveyed.high_watermark, as_of_ms=surveyed.as_of_ms, outlook=surveyed.outlook
    )


def _lanes(
    survey: Survey, statuses: Sequence[_FlowOfWorker], partitions: Sequence[PartitionStatus]
) -> tuple[LaneView, ...]:
    lanes = []
    assigned = {tp.partition: member for member in survey.members or () for tp in member.assignment}
    for number in range(survey.lanes):
        mine = [p for p in partitions if p.lane == number]
        lag = sum(p.lag for p in mine) if all(p.known for p in mine) else None
        claim = survey.claims.get(number)
        reported = next(((w, lane) for w, flow in statuses for lane in flow.lanes if lane.lane == number), None)
        owner = claim.worker.split(" ")[0] if claim is not None else ""
        if reported is not None:
            worker, lane = reported
            view = LaneView(
                number,
                worker.worker or str(worker.pid),
                lane.state,
                lane.producer_id,
                lane.epoch,
                claim.claimed_at_ms if claim else 0,
                len(mine),
                lag,
                lane.kept_bytes,
            )
        else:
            state = (
                UNKNOWN
                if survey.target_error or survey.members is None
                else "owned"
                if number in assigned
                else "not owned"
            )
            view = LaneView(
                number,
                owner if state == "owned" else f"was {owner}" if owner else "",
                state,
                claim.claim.producer_id if claim else -1,
                claim.claim.epoch if claim else -1,
                claim.claimed_at_ms if claim else 0,
                len(mine),
                lag,
            )
        lanes.append(view)
    return tuple(lanes)


def _state(
    survey: Survey,
    statuses: Sequence[_FlowOfWorker],
    lanes: Sequence[LaneView],
    silent_workers: Sequence[str],
) -> str:
    states = {lane.state for lane in lanes}
    if (survey.target_error or survey.members is None) and not statuses:
        return UNKNOWN
    if survey.mirror_maker is not None:
        return MIRROR_MAKER
    if not statuses and not survey.members:
        return NO_WORKER
    if statuses and not survey.members and not any(flow.lanes or flow.lane_count for _, flow in statuses):
        return WAITING if any(_waits(worker, survey.flow) for worker, _ in statuses) else STARTING
    if silent_workers and not statuses:
        return UNKNOWN  # the member may be dead; the group notices when its session ends
    if states <= {RUNNING, "owned"}:
        return MIRRORING
    return STARTING if "not owned" not in states and UNKNOWN not in states else INCOMPLETE


def _waits(worker: WorkerStatus, flow: str) -> bool:
    """Does `worker` report that a cluster of the flow, which it has not started, does not answer?"""
    return any((e.name, e.flow, e.resolved_ms, e.settled) == (WAITS, flow, None, True) for e in worker.events)


def _events(
    survey: Survey,
    statuses: Sequence[_FlowOfWorker],
    lanes: Sequence[LaneView],
    state: str,
    reported: Collection[tuple[str, int]],
    silent_workers: Sequence[str],
) -> tuple[tuple[Event, ...], int]:
    """The workers' events, and those of the survey that they do not have, by cause; open ones first. And how many open ones
    are not listed."""
    events = [e for worker, _ in statuses for e in worker.events if e.flow in ("", survey.flow) and e.settled]
    mirrored_now = {f"{topic}-{number}" for topic, number in reported}
    for event in uncovered(survey.events, tuple(events)):
        if event.name in ("Parked", "RetentionAhead") and event.entity in mirrored_now:
            continue  # its worker runs and does not report it
        events.append(event)
    if state == NO_WORKER:
        last = max((c.claimed_at_ms for c in survey.claims.values()), default=0)
        detail = "its worker group has no member" if last else "drlib mirror has never run for this flow"
        if survey.source_error:
            detail += (
                "; a worker that waits for the source, which does not answer, is not a member yet: drlib status finds it by "
                "--at HOST:PORT or --file"
            )
        events.append(_flow_event("NoWorker", survey, detail))
    if survey.mirror_maker is not None and survey.mirror_maker.runs(survey.at_ms) is False:
        events.append(_flow_event("MirrorMakerSilent", survey, survey.mirror_maker.words(survey.at_ms)))
    events += [
        Event("WorkerSilent", worker, "it did not answer", 0, None, kind_of("WorkerSilent").remedy, 1, survey.flow)
        for worker in silent_workers
    ]
    missing = [str(lane.lane) for lane in lanes if lane.state == "not owned"]
    if missing and state == INCOMPLETE:
        events.append(_flow_event("LaneUnowned", survey, f"lane {', '.join(missing)}"))
    listed, omitted = bounded(group_by_cause(events))
    ordered = sorted(listed, key=lambda e: (e.resolved_ms is not None, -(e.resolved_ms or 0), e.opened_ms))
    return tuple(ordered), omitted + sum(worker.events_omitted for worker, _ in statuses)


def _flow_event(name: str, survey: Survey, detail: str) -> Event:
    return Event(name, survey.flow, detail, 0, None, kind_of(name).remedy, 1, survey.flow)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
