"""Keep the events of a flow: each fault is one event that opens and resolves, under a name that an operator can look up.

Rules:
- Names come from the literal table `event_kinds.KINDS`; the remedy is the table's, or came with the detail that is shown.
- One fault is one alert, however often it flaps: an event that is reported again within `hold_s` of its end was never resolved,
  it happened once more (`times`). It resolves as of its last end.
- A fault that several lanes report is one event of their flow (`per_flow`), open as long as any of them reports it.
- A report ends with its reporter: a reporter that ends, or loses its ownership, retracts its reports (`retract`), and an event
  without any report is over. Otherwise it would stay open for ever.
- An event that cannot be undone (data lost, a topic re-created) stays open for `lasts_s` after it last happened.
- An event is settled once it has been open, or has come and gone, for `SETTLE_S`. One that ends before (a new topic's leader, a
  broker's restart) is only counted in `brief`: no alert, no line of a log but at debug level.
- What synchronizes topics and groups reports from threads, while the event loop reads: each call holds the log's lock.
Not for: deciding that something is wrong, nor for I/O: times come from `now`.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from drlib.mirror.status.event_kinds import Kind, kind_of

SETTLE_S: Final = 1.0
KEPT: Final = 1000  # resolved events


_NAME: Final = re.compile(r"[\w.-]+")  # as Kafka names topics
_PARTITION: Final = re.compile(r"-\d+$")
_NUMBER: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Event:
    """`resolved_ms` is None while it is open; `times` says how often it came back before it was resolved.

    Events with the same cause are reported as one (`drlib.mirror.status.causes`): `count` entities, the first of which are
    `entities`; `entity` and `detail` are of the first one. `cause`: the reason that they share. `settled`: False while it may
    be one of those that end within a second, and of those that did.
    """

    name: str
    entity: str
    detail: str
    opened_ms: int
    resolved_ms: int | None = None
    remedy: str = ""
    times: int = 1
    flow: str = ""
    count: int = 1
    entities: tuple[str, ...] = ()
    cause: str = ""
    settled: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The entities it is about, the first ones where there are many."""
        return self.entities or (self.entity,)

    def concerns(self, entity: str) -> bool:
        """Is it about `entity`? False also where that is one of many and not listed."""
        return entity in self.names


@dataclass
class _Open:
    event: Event  # its `settled` is set when it is due
    by: set[str]
    last_ms: int
    quiet_ms: int | None = None


@dataclass
class EventLog:
    """Events of one flow in one worker: all that are open, and the last `KEPT` that were resolved."""

    flow: str = ""
    now: Callable[[], float] = time.time
    _open: dict[tuple[str, str], _Open] = field(default_factory=dict)
    _resolved: list[Event] = field(default_factory=list)
    _flows: dict[str, str] = field(default_factory=dict)
    brief: Counter[str] = field(default_factory=Counter)  # by name: events that ended before they were settled

    by: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False)  # also of its reporters

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
        remedy = remedy or kind.remedy
        with self._lock:
            now = self._ms()
            self._resolve_if_due((name, entity), now)  # this one alone: thousands may be open
            entry = self._open.get((name, entity))
            if entry is None:
                cause = reason_of(entity, detail)
                event = Event(name, entity, detail, now, None, remedy, flow=self.flow, cause=cause, settled=False)
                self._open[name, entity] = _Open(event, {by}, now)
                return True
            repeated = entry.quiet_ms is not None or (kind.lasts_s is not None and detail != entry.event.detail)
            entry.event = replace(entry.event, detail=detail, remedy=remedy, times=entry.event.times + repeated)
            entry.by.add(by)
            entry.quiet_ms = None
            entry.last_ms = now
            self._settle(entry, now)
            return False

    def resolve(self, name: str, entity: str, *, by: str = "") -> bool:
        """Report the end of an event; True when it was open and has no other reporter."""
        entity, by = self._place(kind_of(name), entity, by or self.by)
        with self._lock:
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
        with self._lock:
            for (name, _), entry in self._open.items():
                if kind_of(name).lasts_s is not None or entry.quiet_ms is not None:
                    continue
                entry.by = {reporter for reporter in entry.by if not ended(reporter)}
                if not entry.by:
                    entry.quiet_ms = self._ms()

    def is_open(self, name: str, entity: str) -> bool:
        """True while the event is open and reported."""
        with self._lock:
            entry = self._open.get((name, entity))
            return entry is not None and entry.quiet_ms is None

    def snapshot(self) -> tuple[Event, ...]:
        """Open events in the order they opened, then resolved ones."""
        now = self._ms()
        with self._lock:
            for key in tuple(self._open):
                self._resolve_if_due(key, now)
            for entry in self._open.values():
                self._settle(entry, now)
            return (*(entry.event for entry in self._open.values()), *self._resolved)

    @staticmethod
    def _settle(entry: _Open, now: int) -> None:
        until = now if entry.quiet_ms is None else entry.quiet_ms
        if not entry.event.settled and until - entry.event.opened_ms >= SETTLE_S * 1000:
            entry.event = replace(entry.event, settled=True)

    def _place(self, kind: Kind, entity: str, by: str) -> tuple[str, str]:
        """The entity of an event and its reporter; for `per_flow` kinds the flow, and the lane without its generation."""
        for lane in (entity, entity.rpartition(".")[0]) if kind.per_flow else ():
            if lane in self._flows:
                return self._flows[lane], lane
        return entity, by

    def _resolve_if_due(self, key: tuple[str, str], now: int) -> None:
        entry = self._open.get(key)
        if entry is None:
            return
        kind = kind_of(key[0])
        if entry.quiet_ms is not None and now - entry.quiet_ms >= kind.hold_s * 1000:
            resolved_ms = entry.quiet_ms
        elif kind.lasts_s is not None and now - entry.last_ms >= kind.lasts_s * 1000:
            resolved_ms = now
        else:
            return
        self._settle(entry, now)
        if not entry.event.settled:
            self.brief[key[0]] += 1
        del self._open[key]
        self._resolved.append(replace(entry.event, resolved_ms=resolved_ms))
        del self._resolved[:-KEPT]

    def _ms(self) -> int:
        return int(self.now() * 1000)


def reason_of(entity: str, detail: str) -> str:
    """`detail` without the names of the entity and of its topic, without other partitions, and without numbers."""
    if not _NAME.fullmatch(entity):  # a group may have any name
        detail = detail.replace(entity, "*") if entity else detail
    names = (entity, _PARTITION.sub("", entity))
    mirrors = tuple(f".{name}" for name in names if name)  # as `LEFT.orders-3`

    def without_names(match: re.Match[str]) -> str:
        word = match[0].rstrip(".")
        if word in names or word.endswith(mirrors) or _PARTITION.search(word):
            return "*" + match[0][len(word) :]
        return _NUMBER.sub("#", match[0])

    return _NAME.sub(without_names, detail)
