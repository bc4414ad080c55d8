"""Keep the events of a flow: each fault is one event that opens and resolves, under a name that an operator can look up.

Rules:
- Names come from the literal table `event_kinds.KINDS`; the remedy is the table's, or came with the event.
- One fault is one alert, however often it flaps: an event that is reported again within `hold_s` of its end was never resolved,
  it happened once more (`times`). It resolves as of its last end.
- A fault that several lanes report is one event of their flow (`per_flow`), open as long as any of them reports it.
- A report ends with its reporter: a reporter that ends, or loses its ownership, retracts its reports (`retract`), and an event
  without any report is over. Otherwise it would stay open for ever.
- An event that cannot be undone (data lost, a topic re-created) stays open for `lasts_s` after it last happened.
Not for: deciding that something is wrong, nor for I/O: times come from `now`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from drlib.mirror.status.event_kinds import Kind, kind_of


@dataclass(frozen=True, slots=True)
class Event:
    """`resolved_ms` is None while it is open; `times` says how often it came back before it was resolved."""

    name: str
    entity: str
    detail: str
    opened_ms: int
    resolved_ms: int | None = None
    remedy: str = ""
    times: int = 1
    flow: str = ""


@dataclass
class _Open:
    event: Event
    by: set[str]
    last_ms: int
    quiet_ms: int | None = None


@dataclass
class EventLog:
    """Events of one flow in one worker: all that are open, and the last hundred that were resolved."""

    flow: str = ""
    now: Callable[[], float] = time.time
    _open: dict[tuple[str, str], _Open] = field(default_factory=dict)
    _resolved: list[Event] = field(default_factory=list)
    _flows: dict[str, str] = field(default_factory=dict)

    by: str = ""

    def reporter(self, by: str) -> EventLog:
        """The same log, for reports under the name `by`."""
        return replace(self, by=by)

    def register_lane(self, lane: str, flow: str) -> None:
        """Reports of `per_flow` kinds about `lane`, or `lane` with a generation (`lane.0`), become events of `flow`."""
        self._flows[lane] = flow

    def open(self, name: str, entity: str, detail: str, *, remedy: str = "", by: str = "") -> bool:
        """Report an event; True when it is a new alert. `by` distinguishes reporters of one event."""
        kind = kind_of(name)
        entity, by = self._place(kind, entity, by or self.by)
        now = self._ms()
        self._resolve_due(now)
        entry = self._open.get((name, entity))
        if entry is None:
            event = Event(name, entity, detail, now, remedy=remedy or kind.remedy, flow=self.flow)
            self._open[name, entity] = _Open(event, {by}, now)
            return True
        repeated = entry.quiet_ms is not None or (kind.lasts_s is not None and detail != entry.event.detail)
        entry.event = replace(
            entry.event, detail=detail, remedy=remedy or entry.event.remedy, times=entry.event.times + repeated
        )
        entry.by.add(by)
        entry.quiet_ms = None
        entry.last_ms = now
        return False

    def resolve(self, name: str, entity: str, *, by: str = "") -> bool:
        """Report the end of an event; True when it was open and has no other reporter."""
        entity, by = self._place(kind_of(name), entity, by or self.by)
        entry = self._open.get((name, entity))
        if entry is None or entry.quiet_ms is not None:
            return False
        entry.by.discard(by)
        if entry.by:
            return False
        entry.quiet_ms = self._ms()
        return True

    def retract(self, by: str) -> None:
        """End all reports of `by`, which ended or lost its ownership. Events with `lasts_s` stay."""
        self._end_reports(lambda reporter: reporter == by)

    def retract_others(self, by: str) -> None:
        """End all reports but those of `by`. Events with `lasts_s` stay."""
        self._end_reports(lambda reporter: reporter != by)

    def _end_reports(self, ended: Callable[[str], bool]) -> None:
        for (name, _), entry in self._open.items():
            if kind_of(name).lasts_s is not None or entry.quiet_ms is not None:
                continue
            entry.by = {reporter for reporter in entry.by if not ended(reporter)}
            if not entry.by:
                entry.quiet_ms = self._ms()

    def is_open(self, name: str, entity: str) -> bool:
        """True while the event is open and reported."""
        entry = self._open.get((name, entity))
        return entry is not None and entry.quiet_ms is None

    def snapshot(self) -> tuple[Event, ...]:
        """Open events in the order they opened, then resolved ones."""
        self._resolve_due(self._ms())
        return (*(entry.event for entry in self._open.values()), *self._resolved)

    def _place(self, kind: Kind, entity: str, by: str) -> tuple[str, str]:
        """The entity of an event and its reporter; for `per_flow` kinds the flow, and the lane without its generation."""
        for lane in (entity, entity.rpartition(".")[0]) if kind.per_flow else ():
            if lane in self._flows:
                return self._flows[lane], lane
        return entity, by

    def _resolve_due(self, now: int) -> None:
        for key, entry in list(self._open.items()):
            kind = kind_of(key[0])
            resolved_ms: int | None = None
            if entry.quiet_ms is not None and now - entry.quiet_ms >= kind.hold_s * 1000:
                resolved_ms = entry.quiet_ms
            elif kind.lasts_s is not None and now - entry.last_ms >= kind.lasts_s * 1000:
                resolved_ms = now
            if resolved_ms is not None:
                del self._open[key]
                self._resolved.append(replace(entry.event, resolved_ms=resolved_ms))
                del self._resolved[:-100]

    def _ms(self) -> int:
        return int(self.now() * 1000)
