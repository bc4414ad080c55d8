"""What a worker says of itself: typed, written atomically as JSON, read by `drlib status`, drills and the board.

Rules: the file is 0600; a reader sees the whole old or the whole new state; an event stays in the list until it is
resolved, and is then kept once more as resolved. Lag is what the source holds beyond the acknowledged position, in
offsets; it is an upper bound in records where the source log has gaps.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from drlib.errors import UsageError


@dataclass(frozen=True)
class PartitionStatus:
    topic: str
    partition: int
    target_topic: str
    lane: int
    position: int  # next source offset to fetch
    mirrored: int  # source read through and acknowledged on the target, exclusive
    high_watermark: int
    target_end: int
    parked: str = ""
    guarded: bool = False  # the target may have forgotten our claim: a foreign append would be detected, not prevented

    @property
    def lag(self) -> int:
        return max(0, self.high_watermark - self.mirrored)


@dataclass(frozen=True)
class Event:
    name: str
    entity: str
    detail: str
    opened_ms: int
    resolved_ms: int | None = None


@dataclass(frozen=True)
class LaneStatus:
    lane: int
    state: str
    producer_id: int
    epoch: int


@dataclass(frozen=True)
class FlowStatus:
    flow: str
    lanes: tuple[LaneStatus, ...]
    partitions: tuple[PartitionStatus, ...]
    records: int
    bytes: int


@dataclass(frozen=True)
class WorkerStatus:
    pid: int
    at_ms: int
    state: str
    flows: tuple[FlowStatus, ...]
    events: tuple[Event, ...] = ()

    @property
    def lag(self) -> int:
        return sum(p.lag for f in self.flows for p in f.partitions)


_ADAPTER = TypeAdapter(WorkerStatus)


def write(path: Path, status: WorkerStatus) -> None:
    """Replace the status file atomically."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_ADAPTER.dump_json(status))
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(path: Path) -> WorkerStatus:
    """The last state written. Raises `UsageError` when there is none, or something else is there."""
    try:
        return _ADAPTER.validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"no worker status at {path}", "no worker has written one", "Start one: drlib mirror FILE --status PATH"
        ) from None
    except ValidationError as error:
        first = str(error.errors()[0]["msg"])
        raise UsageError(
            f"{path} is no worker status", first[:1].lower() + first[1:], "Give the file of `drlib mirror --status`."
        ) from None


@dataclass
class EventLog:
    """Named events, open until resolved; each (name, entity) is open at most once however often it is seen."""

    _open: dict[tuple[str, str], Event] = field(default_factory=dict)
    _resolved: list[Event] = field(default_factory=list)

    def open(self, name: str, entity: str, detail: str) -> bool:
        """Open an event; True when it was not open already."""
        if (name, entity) in self._open:
            return False
        self._open[name, entity] = Event(name, entity, detail, int(time.time() * 1000))
        return True

    def resolve(self, name: str, entity: str) -> bool:
        """Close an event; True when it was open."""
        event = self._open.pop((name, entity), None)
        if event is None:
            return False
        resolved = Event(event.name, event.entity, event.detail, event.opened_ms, int(time.time() * 1000))
        self._resolved = [*self._resolved[-99:], resolved]
        return True

    def snapshot(self) -> tuple[Event, ...]:
        return (*self._open.values(), *self._resolved)
