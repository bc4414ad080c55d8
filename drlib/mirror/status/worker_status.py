"""What a worker says of itself: typed, written atomically as JSON, read by `drlib status`, drills and the board.

Rules: the file is 0600; a reader sees the whole old or the whole new state; an event stays in the list until it is
resolved, and is then kept once more as resolved. Lag is what the source holds beyond the acknowledged position, in
offsets of the source alone; it is an upper bound in records where the source log has gaps. Building and writing it is
paced so that it never takes more than `SHARE` of a core, however many partitions there are; what it takes is time of the
processor, so that a process that was stopped for a while, or waited for a disk, does not fall silent for long afterwards.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from drlib.errors import UsageError
from drlib.mirror.status.catch_up import Outlook
from drlib.mirror.status.event_log import Event, EventLog

__all__ = [
    "Event",
    "EventLog",
    "FlowStatus",
    "LaneStatus",
    "PartitionStatus",
    "Spread",
    "WorkerStatus",
    "decode",
    "encode",
    "pause_s",
    "read",
    "write",
]

SHARE = 0.005  # of one core: what looking may cost, and what telling may
LONGEST_S = 30.0  # between two looks, whatever they cost


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds: the last value, and the least, mean and greatest of the last minute or so."""

    last: float
    least: float
    mean: float
    greatest: float


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
    last_stable: int = -1  # records from here on belong to transactions that are still open
    log_start: int = -1
    records: int = 0  # mirrored by this worker since it started
    bytes: int = 0
    outlook: Outlook = field(default_factory=Outlook)
    latency: Spread | None = None  # from a record's timestamp to its acknowledgement on the target
    age: Spread | None = None  # from a record's timestamp to its arrival in the worker
    as_of_ms: int = 0  # when the source last said where its log ends

    @property
    def lag(self) -> int:
        """Offsets still to come; those that retention took already never will."""
        return max(0, self.high_watermark - max(self.mirrored, self.log_start))

    @property
    def known(self) -> bool:
        """Has the source said where its log ends?"""
        return self.high_watermark >= 0


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
    records_per_s: float | None = None
    bytes_per_s: float | None = None


@dataclass(frozen=True)
class WorkerStatus:
    pid: int
    at_ms: int
    state: str
    flows: tuple[FlowStatus, ...]
    events: tuple[Event, ...] = ()
    worker: str = ""
    address: str = ""  # where it answers /status and /metrics, if anywhere

    @property
    def lag(self) -> int:
        return sum(p.lag for f in self.flows for p in f.partitions)


_ADAPTER = TypeAdapter(WorkerStatus)


def encode(status: WorkerStatus) -> bytes:
    """As JSON."""
    return _ADAPTER.dump_json(status)


def decode(data: bytes) -> WorkerStatus:
    """Raises pydantic's `ValidationError` for anything else."""
    return _ADAPTER.validate_json(data)


def pause_s(interval_s: float, cost_s: float) -> float:
    """How long to rest after work that took `cost_s` of the processor, so that it takes at most `SHARE` of a core.

    At most `LONGEST_S`, or the interval where that is longer: whoever watches must not take a worker for dead.
    """
    return max(interval_s, min(LONGEST_S, cost_s / SHARE))


def write(path: Path, status: WorkerStatus) -> None:
    """Replace the status file atomically."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(encode(status))
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(path: Path) -> WorkerStatus:
    """The last state written. Raises `UsageError` when there is none, or something else is there."""
    try:
        return decode(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"no worker status at {path}", "no worker has written one", "Start one: drlib mirror FILE --status PATH"
        ) from None
    except ValidationError as error:
        first = str(error.errors()[0]["msg"])
        raise UsageError(
            f"{path} is no worker status", first[:1].lower() + first[1:], "Give the file of `drlib mirror --status`."
        ) from None
