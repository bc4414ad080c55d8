"""The log of what goes wrong and is over again: each fault is told once, by the name that a person can look up.

Rules:
- A name comes from the literal table `event_kinds.KINDS`; what a person can do about it stands there, or came with the event.
- One fault is one alert, however often it flaps: an event that comes back within `hold_s` of having gone was never
  resolved, it only happened another time (`times`). It resolves as of when it went.
- What several lanes notice at once is one event of their flow (`per_flow`), open as long as any of them reports it.
- A report lives no longer than its reporter: who ends, or loses its turn, leaves (`leave`), and what nobody else reports
  is over. Otherwise an event would stay open that nobody is left to resolve.
- A fact that nobody can undo (data lost, a topic made again) stays open for `lasts_s` after it last happened.
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
        """The same log in the hands of `by`, who reports under this name."""
        return replace(self, by=by)

    def register_lane(self, lane: str, flow: str) -> None:
        """What `lane`, or `lane` and a generation (`lane.0`), reports of kinds of the whole flow is told of `flow`."""
        self._flows[lane] = flow

    def open(self, name: str, entity: str, detail: str, *, remedy: str = "", by: str = "") -> bool:
        """Report that it is so; True when that is a new alert. `by` tells reporters of one event apart."""
        kind = kind_of(name)
        entity, by = self._place(kind, entity, by or self.by)
        now = self._ms()
        self._settle(now)
        held = self._open.get((name, entity))
        if held is None:
            event = Event(name, entity, detail, now, remedy=remedy or kind.remedy, flow=self.flow)
            self._open[name, entity] = _Open(event, {by}, now)
            return True
        again = held.quiet_ms is not None or (kind.lasts_s is not None and detail != held.event.detail)
        held.event = replace(
            held.event, detail=detail, remedy=remedy or held.event.remedy, times=held.event.times + again
        )
        held.by.add(by)
        held.quiet_ms = None
        held.last_ms = now
        return False

    def resolve(self, name: str, entity: str, *, by: str = "") -> bool:
        """Report that it is over; True when it was open and nobody else still reports it."""
        entity, by = self._place(kind_of(name), entity, by or self.by)
        held = self._open.get((name, entity))
        if held is None or held.quiet_ms is not None:
            return False
        held.by.discard(by)
        if held.by:
            return False
        held.quiet_ms = self._ms()
        return True

    def retract(self, by: str) -> None:
        """`by` reports nothing any more: it ended, or somebody else looks now. Facts of its stay."""
        self._withdraw(lambda reporter: reporter == by)

    def retract_others(self, by: str) -> None:
        """Nobody but `by` reports anything now: all the others ended. Facts stay."""
        self._withdraw(lambda reporter: reporter != by)

    def _withdraw(self, gone: Callable[[str], bool]) -> None:
        for (name, _), held in self._open.items():
            if kind_of(name).lasts_s is not None or held.quiet_ms is not None:
                continue
            held.by = {reporter for reporter in held.by if not gone(reporter)}
            if not held.by:
                held.quiet_ms = self._ms()

    def is_open(self, name: str, entity: str) -> bool:
        """Is it open and reported now?"""
        held = self._open.get((name, entity))
        return held is not None and held.quiet_ms is None

    def snapshot(self) -> tuple[Event, ...]:
        """Open events in the order they opened, then resolved ones."""
        self._settle(self._ms())
        return (*(held.event for held in self._open.values()), *self._resolved)

    def _place(self, kind: Kind, entity: str, by: str) -> tuple[str, str]:
        """The entity an event is told of, and its reporter: a lane by its own name, whatever generation it is in."""
        for lane in (entity, entity.rpartition(".")[0]) if kind.per_flow else ():
            if lane in self._flows:
                return self._flows[lane], lane
        return entity, by

    def _settle(self, now: int) -> None:
        for key, held in list(self._open.items()):
            kind = kind_of(key[0])
            over: int | None = None
            if held.quiet_ms is not None and now - held.quiet_ms >= kind.hold_s * 1000:
                over = held.quiet_ms
            elif kind.lasts_s is not None and now - held.last_ms >= kind.lasts_s * 1000:
                over = now
            if over is not None:
                del self._open[key]
                self._resolved.append(replace(held.event, resolved_ms=over))
                del self._resolved[:-100]

    def _ms(self) -> int:
        return int(self.now() * 1000)
