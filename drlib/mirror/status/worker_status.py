"""The status of a worker: typed, written atomically as JSON, read by `drlib status`, drills and the board.

Rules: the file has mode 0600; a reader sees the whole old or the whole new status; an event is listed while it is open, and
afterwards as resolved; the number of events is bounded. Lag is counted in source offsets beyond the acknowledged position;
it is an upper bound in records where the source log has gaps. Building and writing the status is paced to take at most
`SHARE` of a core, however many partitions there are. The pace is set by processor time, so that a process that was stopped,
or waited for a disk, does not pause for long after.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.errors import UsageError
from drlib.files import read_stored, write_whole
from drlib.mirror.status.event_log import Event, EventLog
from drlib.mirror.status.forecast import Outlook

__all__ = [
    "Event",
    "EventLog",
    "FlowStatus",
    "LaneStatus",
    "MemoryStatus",
    "PartitionStatus",
    "Spread",
    "WorkerStatus",
    "decode",
    "encode",
    "pause_s",
    "read",
    "write",
]

SHARE = 0.005  # of one core: for measuring, and again for reporting
LONGEST_S = 30.0  # between two measurements or reports, whatever they cost


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds: the last value, and the least, mean and greatest of about the last minute."""

    last: float
    least: float
    mean: float
    greatest: float


@dataclass(frozen=True)
class PartitionStatus:
    """A mirrored partition; offsets are of the source, -1 is unknown, `target_end` is of the target."""

    topic: str
    partition: int
    target_topic: str
    lane: int
    position: int  # next source offset to fetch
    mirrored: int  # everything below is acknowledged on the target
    high_watermark: int
    target_end: int
    parked: str = ""
    guarded: bool = False  # the target may have forgotten the claim: a foreign append would be detected, not prevented
    last_stable: int = -1  # records from here on may belong to open transactions
    log_start: int = -1
    records: int = 0  # mirrored by this worker since it started
    bytes: int = 0
    outlook: Outlook = field(default_factory=Outlook)
    latency: Spread | None = None  # from a record's timestamp to its acknowledgement on the target
    age: Spread | None = None  # from a record's timestamp to its arrival in the worker
    as_of_ms: int = 0  # when the source last reported its log end
    to_compare: int = 0  # offsets that another replicator copied, still to be compared with the mirror
    missing: tuple[int, int] | None = None  # records that MirrorMaker 2 has not copied, least and most, where counted

    @property
    def lag(self) -> int:
        """Offsets still to be mirrored, without those that expired; the most `missing` records where these were counted."""
        if self.missing is not None:
            return self.missing[1]
        return max(0, self.high_watermark - max(self.mirrored, self.log_start))

    @property
    def lag_at_least(self) -> int:
        """The same, of what MirrorMaker 2 cannot have copied."""
        if self.missing is not None:
            return self.missing[0]
        return max(0, self.high_watermark - max(self.position, self.log_start))

    @property
    def known(self) -> bool:
        """True where the source has reported its log end."""
        return self.high_watermark >= 0


@dataclass(frozen=True)
class LaneStatus:
    """A lane of this worker; producer ID and epoch are -1 without a claim. `kept_bytes`: of records read ahead, in memory."""

    lane: int
    state: str
    producer_id: int
    epoch: int
    kept_bytes: int = 0


@dataclass(frozen=True)
class FlowStatus:
    """A flow in this worker; `records` and `bytes` were mirrored since the worker started."""

    flow: str
    lanes: tuple[LaneStatus, ...]
    partitions: tuple[PartitionStatus, ...]
    records: int
    bytes: int
    records_per_s: float | None = None
    bytes_per_s: float | None = None
    lane_count: int = 0  # of the flow, over all workers; 0 before it started


@dataclass(frozen=True)
class MemoryStatus:
    """Bytes of fetched records that a worker keeps, over all its flows: never much more than `limit`.

    `by_lane`: by the name of the lane that keeps them; `leaked`: held by claims that had sent all they had read, always 0.
    """

    limit: int = 0
    reserved: int = 0
    by_lane: tuple[tuple[str, int], ...] = ()
    leaked: int = 0
    budget: int = 0  # of the whole process, as --memory has it; 0: unknown


@dataclass(frozen=True)
class WorkerStatus:
    """Everything a worker reports at `at_ms`.

    `events`: one for each cause, at most a hundred open ones, with `events_omitted` further ones (`causes`); `brief`: by flow
    and name, how many events ended within a second.
    """

    pid: int
    at_ms: int
    state: str
    flows: tuple[FlowStatus, ...]
    events: tuple[Event, ...] = ()
    worker: str = ""
    address: str = ""  # where it answers /status and /metrics, if anywhere
    memory: MemoryStatus = field(default_factory=MemoryStatus)
    events_omitted: int = 0
    brief: tuple[tuple[str, str, int], ...] = ()

    @property
    def lag(self) -> int:
        return sum(p.lag for f in self.flows for p in f.partitions)


_ADAPTER = TypeAdapter(WorkerStatus)


def encode(status: WorkerStatus) -> bytes:
    """As JSON."""
    return _ADAPTER.dump_json(status)


def decode(data: bytes) -> WorkerStatus:
    """Raises `Undecodable` for anything else."""
    return decoding.json_as(_ADAPTER, data)


def pause_s(interval_s: float, cost_s: float) -> float:
    """How long to pause after work that took `cost_s` of processor time, so that it takes at most `SHARE` of a core.

    At most `LONGEST_S`, or the interval where that is longer, so that the worker is not considered dead.
    """
    return max(interval_s, min(LONGEST_S, cost_s / SHARE))


def write(path: Path, status: WorkerStatus) -> None:
    """Replace the status file atomically."""
    write_whole(path, encode(status), durable=False)


def read(path: Path) -> WorkerStatus:
    """Read the last status written. Raises `UsageError` where there is no file, or it holds something else."""
    try:
        return decode(read_stored(path))
    except FileNotFoundError:
        raise UsageError(
            f"no worker status at {path}", "no worker has written one", "Start one: drlib mirror FILE --status PATH"
        ) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UsageError(f"{path} cannot be read", why, "Give the file of `drlib mirror --status`.") from error
    except Undecodable as error:
        raise UsageError(
            f"{path} is no worker status", str(error), "Give the file of `drlib mirror --status`."
        ) from None
