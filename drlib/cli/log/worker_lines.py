"""Choose what of a worker's status is a line of its log: changes of its state, and each event as it opens, grows and resolves.

Rules: an event is one line for each cause, not for each entity: written once it is settled, again when ten times as many
entities are concerned, and when it is resolved. An event that ended within a second is a line at debug level only. When the
worker ends, what is open is written, settled or not.
Not for: the form of lines and where they are written (`lines`, `setup`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib import clock, formats
from drlib.cli.log.lines import LogLine
from drlib.cli.log.setup import write_line
from drlib.config.notices import Notice
from drlib.mirror.status.causes import cause_of, subject
from drlib.mirror.status.event_kinds import PARTITION, TOPIC, Level, kind_of
from drlib.mirror.status.worker_status import Event, WorkerStatus

GROWN: Final = 10
_PARTITION: Final = re.compile(r"(.+)-(\d+)")
_LANE: Final = re.compile(r"drlib\..*\.(\d+)|.*->.* lane (\d+)")

_Cause = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Written:
    event: Event
    count: int  # as last written
    most: int


class StatePrinter:
    """Called with every status, writes what is new. `worker` names the worker where there are several."""

    def __init__(self, worker: str = "", write: Callable[[LogLine], None] = write_line) -> None:
        self._worker = worker
        self._write = write
        self._open: dict[_Cause, _Written] = {}
        self._brief: set[tuple[str, str, int]] = set()
        self._last = ""
        self._omitted = 0  # as last written

    def __call__(self, state: WorkerStatus) -> None:
        ending = state.state in ("stopped", "failed")
        if state.state not in ("starting", "failed", self._last):  # a failure is reported by the command's error
            self._last = state.state
            self._write(self._state_line(state))
        for line in self._events(state, ending):
            self._write(line)

    def _state_line(self, state: WorkerStatus) -> LogLine:
        flows = ", ".join(f"{f.flow} ({len(f.partitions)} partitions)" for f in state.flows)
        served = state.address and state.state == "running"
        where = f"; /status and /metrics at http://{state.address}" if served else ""
        return LogLine(
            state.at_ms, Level.INFO, "Worker", state.state, worker=self._worker, detail=f"{flows or 'no flow'}{where}"
        )

    def _events(self, state: WorkerStatus, ending: bool) -> Iterator[LogLine]:
        opened = {cause_of(e): e for e in state.events if e.resolved_ms is None and (e.settled or ending)}
        for cause, event in opened.items():
            before = self._open.get(cause)
            if before is None or event.count >= GROWN * before.count:
                self._open[cause] = _Written(event, event.count, event.count)
                yield self._event_line(state, event, "open" if before is None else "more", event.count)
            elif event.count > before.most:
                self._open[cause] = _Written(event, before.count, event.count)
        resolved = [event for event in state.events if event.resolved_ms is not None]
        for cause in [c for c in self._open if c not in opened]:
            ended = next((e for e in reversed(resolved) if cause_of(e) == cause), None)
            if ended is None and state.events_omitted:
                continue  # it may be one of those
            before = self._open.pop(cause)
            yield self._event_line(state, ended or before.event, "resolved", before.most)
        for event in resolved:
            key = (event.name, event.entity, event.opened_ms)
            if not event.settled and key not in self._brief:
                yield self._event_line(state, event, "brief", event.count)
        self._brief = {(e.name, e.entity, e.opened_ms) for e in resolved if not e.settled}
        if state.events_omitted and (not self._omitted or state.events_omitted >= GROWN * self._omitted):
            self._omitted = state.events_omitted
            what = f"{state.events_omitted} more events are open and not listed"
            yield LogLine(state.at_ms, Level.WARNING, "EventsOmitted", worker=self._worker, detail=what)
        self._omitted = min(self._omitted, state.events_omitted)

    def _event_line(self, state: WorkerStatus, event: Event, status: str, count: int) -> LogLine:
        """`count`: of all entities that were concerned."""
        kind, detail = kind_of(event.name), event.detail
        is_open = status in ("open", "more")
        if status in ("resolved", "brief"):
            lasted_s = max(0, (event.resolved_ms or state.at_ms) - event.opened_ms) / 1000
            detail = f"after {formats.duration(lasted_s)}: {detail}"
        level = kind.level if is_open else Level.DEBUG if status == "brief" else Level.INFO
        topic, partition = _topic(event)
        return LogLine(
            state.at_ms,
            level,
            event.name,
            status,
            worker=self._worker,
            flow=event.flow,
            lane=_lane(state, event, topic, partition),
            topic=topic,
            partition=partition,
            entity=subject(event),
            count=count,
            since_ms=event.opened_ms,
            detail=detail,
            remedy=event.remedy if is_open else "",
        )


def write_message(name: str, detail: str, *, level: Level = Level.INFO, status: str = "") -> None:
    """A line of the command itself, about no event."""
    write_line(LogLine(clock.now_ms(), level, name, status, detail=detail))


def write_notices(file: Path, notices: Sequence[Notice]) -> None:
    """A line for the keys of `file` that have no effect for the same reason."""
    for text in dict.fromkeys(notice.text for notice in notices):
        those = [notice for notice in notices if notice.text == text]
        at, keys = (
            ", ".join(str(each) for each in column) for column in zip(*((n.line, n.key) for n in those), strict=True)
        )
        write_message("ConfigNotice", f"{file}:{at}: {keys}: {text}", level=Level.WARNING)


def _topic(event: Event) -> tuple[str, int | None]:
    """Topic and partition that an event is about, where it is about one of them."""
    about = kind_of(event.name).about
    if event.count > 1 or about not in (PARTITION, TOPIC):
        return "", None
    found = _PARTITION.fullmatch(event.entity) if about == PARTITION else None
    return (found[1], int(found[2])) if found else (event.entity, None)


def _lane(state: WorkerStatus, event: Event, topic: str, partition: int | None) -> int | None:
    if found := _LANE.fullmatch(event.entity):
        return int(found[1] or found[2])
    if partition is None:
        return None
    for flow in state.flows:
        if flow.flow == event.flow:
            for each in flow.partitions:
                if each.partition == partition and topic in (each.topic, each.target_topic):
                    return each.lane
    return None
