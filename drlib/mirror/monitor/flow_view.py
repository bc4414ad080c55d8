"""A flow as a person wants to see it: the clusters' own account, and the worker's detail where a worker was heard.

Rules: the clusters' account is always there; a worker that answers knows its own partitions better and newer. Nobody
running is a state with a name, never an empty table. Pure: who asks whom is `survey` and `drlib.cli.mirror.status`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from drlib.mirror.monitor.survey import GroupStatus, Survey
from drlib.mirror.status.event_kinds import kind_of
from drlib.mirror.status.worker_status import Event, FlowStatus, PartitionStatus, WorkerStatus

STALE_MS = 15_000  # a worker's word older than this is not its present state
MIRRORING, NO_WORKER, INCOMPLETE, STARTING, UNKNOWN = "mirroring", "no worker", "incomplete", "starting", "unknown"


@dataclass(frozen=True)
class LaneView:
    """`state` is the worker's own word; "owned" or "not owned" where only the group tells."""

    lane: int
    owner: str
    state: str
    producer_id: int
    epoch: int
    claimed_ms: int
    partitions: int
    lag: int | None


@dataclass(frozen=True)
class FlowView:
    """Everything there is to say of one flow at `at_ms`. None is unknown."""

    flow: str
    state: str
    at_ms: int
    members: int | None
    workers: tuple[str, ...]  # those that were heard
    lanes: tuple[LaneView, ...]
    partitions: tuple[PartitionStatus, ...]
    events: tuple[Event, ...]
    groups: tuple[GroupStatus, ...] | None
    records_per_s: float | None
    bytes_per_s: float | None

    @property
    def open_events(self) -> tuple[Event, ...]:
        return tuple(event for event in self.events if event.resolved_ms is None)

    @property
    def lag(self) -> int | None:
        """In records; None when some source log's end is not known."""
        return sum(p.lag for p in self.partitions) if all(p.known for p in self.partitions) else None

    @property
    def as_of_ms(self) -> int:
        """How old the oldest word of the source on where its logs end is; 0 when there is none."""
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
        """Until the last partition has caught up; None when unknown or not in sight."""
        etas = [p.outlook.eta_s for p in self.partitions if p.lag]
        known = [eta for eta in etas if eta is not None]
        return None if self.lag is None or len(known) < len(etas) else max(known, default=0.0)

    @property
    def left_s(self) -> float | None:
        """Until the first unmirrored record may expire; None when nothing that is behind expires."""
        return min((p.outlook.left_s for p in self.partitions if p.lag and p.outlook.left_s is not None), default=None)


def overview(survey: Survey, workers: Sequence[WorkerStatus], at_ms: int, silent: Sequence[str] = ()) -> FlowView:
    """One flow from its survey and the workers that were heard; `silent` are those that own a lane and were not."""
    heard: list[tuple[WorkerStatus, FlowStatus]] = [
        (worker, flow)
        for worker in workers
        for flow in worker.flows
        if flow.flow == survey.flow and at_ms - worker.at_ms < STALE_MS and worker.state not in ("stopped", "failed")
    ]
    told = {(p.topic, p.partition): p for _, flow in heard for p in flow.partitions}
    asked = {(p.topic, p.partition): p for p in survey.partitions}
    partitions = asked | {key: _fresher(p, asked.get(key)) for key, p in told.items()}
    ordered = tuple(partitions[key] for key in sorted(partitions))
    lanes = _lanes(survey, heard, ordered)
    state = _state(survey, heard, lanes, silent)
    events = _events(survey, heard, lanes, state, told, silent)
    rates = [(flow.records_per_s, flow.bytes_per_s) for _, flow in heard]
    records, size = _sum([r for r, _ in rates]), _sum([b for _, b in rates])
    if not heard:
        measured = [p.outlook.out_per_s for p in survey.partitions]
        records = _sum(measured)
    return FlowView(
        survey.flow,
        state,
        at_ms,
        None if survey.target_error else len(survey.members),
        tuple(worker.worker or str(worker.pid) for worker, _ in heard),
        lanes,
        ordered,
        events,
        survey.groups,
        records,
        size,
    )


def _fresher(word: PartitionStatus, asked: PartitionStatus | None) -> PartitionStatus:
    """A worker's word with the log end that the source told us, where that is newer than what the worker last heard."""
    if asked is None or asked.high_watermark <= word.high_watermark or asked.as_of_ms < word.as_of_ms:
        return word
    return replace(word, high_watermark=asked.high_watermark, as_of_ms=asked.as_of_ms, outlook=asked.outlook)


def _lanes(
    survey: Survey, heard: Sequence[tuple[WorkerStatus, FlowStatus]], partitions: Sequence[PartitionStatus]
) -> tuple[LaneView, ...]:
    found = []
    assigned = {tp.partition: member for member in survey.members for tp in member.assignment}
    for number in range(survey.lanes):
        mine = [p for p in partitions if p.lane == number]
        lag = sum(p.lag for p in mine) if all(p.known for p in mine) else None
        claim = survey.claims.get(number)
        word = next(((w, lane) for w, flow in heard for lane in flow.lanes if lane.lane == number), None)
        owner = claim.worker.split(" ")[0] if claim is not None else ""
        if word is not None:
            worker, lane = word
            view = LaneView(
                number,
                worker.worker or str(worker.pid),
                lane.state,
                lane.producer_id,
                lane.epoch,
                claim.claimed_at_ms if claim else 0,
                len(mine),
                lag,
            )
        else:
            state = UNKNOWN if survey.target_error else "owned" if number in assigned else "not owned"
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
        found.append(view)
    return tuple(found)


def _state(
    survey: Survey,
    heard: Sequence[tuple[WorkerStatus, FlowStatus]],
    lanes: Sequence[LaneView],
    silent: Sequence[str],
) -> str:
    states = {lane.state for lane in lanes}
    if survey.target_error and not heard:
        return UNKNOWN
    if not heard and not survey.members:
        return NO_WORKER
    if silent and not heard:
        return UNKNOWN  # a member that may be dead: the group will know when its session ends
    if states <= {"running", "owned"}:
        return MIRRORING
    return STARTING if "not owned" not in states and UNKNOWN not in states else INCOMPLETE


def _events(
    survey: Survey,
    heard: Sequence[tuple[WorkerStatus, FlowStatus]],
    lanes: Sequence[LaneView],
    state: str,
    told: Collection[tuple[str, int]],
    silent: Sequence[str],
) -> tuple[Event, ...]:
    """The workers' events first; the clusters' account adds what they do not say."""
    found = [e for worker, _ in heard for e in worker.events if e.flow in ("", survey.flow)]
    known = {(e.name, e.entity) for e in found}
    theirs = {f"{topic}-{number}" for topic, number in told}
    for event in survey.events:
        if (event.name, event.entity) in known:
            continue
        if event.name in ("Parked", "RetentionAhead") and event.entity in theirs:
            continue  # its worker runs and would say so
        found.append(event)
    if state == NO_WORKER:
        last = max((c.claimed_at_ms for c in survey.claims.values()), default=0)
        detail = "its group has no member" if last else "it never ran: there is no journal yet"
        found.append(_own("NoWorker", survey, detail))
    found += [
        Event("WorkerSilent", worker, "it did not answer", 0, None, kind_of("WorkerSilent").remedy, 1, survey.flow)
        for worker in silent
    ]
    missing = [str(lane.lane) for lane in lanes if lane.state == "not owned"]
    if missing and state == INCOMPLETE:
        found.append(_own("LaneUnowned", survey, f"lane {', '.join(missing)}"))
    return tuple(sorted(found, key=lambda e: (e.resolved_ms is not None, -(e.resolved_ms or 0), e.opened_ms)))


def _own(name: str, survey: Survey, detail: str) -> Event:
    return Event(name, survey.flow, detail, 0, None, kind_of(name).remedy, 1, survey.flow)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
