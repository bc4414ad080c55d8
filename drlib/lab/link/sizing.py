"""The throughput of a link, with one fetch request at a time and with many in flight, and what a mirror over it needs.

A client that waits for each response of D bytes leaves the link idle meanwhile: TP = B*D / (B*RTT + D). With W bytes in flight
it is min(B, W / RTT). The first needs many clients to fill a long link, the second needs memory for W.
Rules: sizes are bytes, times seconds, rates bytes per second of keys and values as they are in batches (compressed if they
are). The engine's constants are its own (a test compares them); the cost per core was measured (docs/performance.md) with the
more expensive workload. Retention by size is left out, as it has no fixed duration (see `drlib.mirror.status.forecast`).
Not for: packet loss on a long line, or a disk that is slower than the link: measure those.
"""

import math
from dataclasses import dataclass
from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20

LEAST_FETCH: Final = 16 * MIB  # `backlog_reader.LEAST_WINDOW`: in flight before the link was measured
RESERVED: Final = 128 * MIB  # `fetch.memory.RESERVED`
LEAST_DATA: Final = 32 * MIB  # `fetch.memory.LEAST_WORKER` beyond that
STEP_SHARE: Final = 0.98  # `backlog_reader.STEP_SHARE`: of the bytes read, the rest is overlap of requests
WINDOW_SHARE: Final = (
    2  # half of a worker's data may be in flight from the source, the other half is queued and produced
)
DEFAULT_MEMORY: Final = 256 * MIB
CORE_S_PER_BYTE: Final = 4.5e-9  # batches of one record, the most expensive measured; 16 KB batches cost half of it
CORE_SHARE: Final = 0.7  # of a core that one worker should be planned to use
LANES_PER_WORKER: Final = 2  # so that a worker can be added or lost without a new journal

REQUESTS: Final = (16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 50 * MIB)
"""Bytes in a fetch response: from small batches to `fetch.max.bytes`. `max.partition.fetch.bytes` is 1 MiB unless set."""


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """`bandwidth` in bytes per second, each way; `rtt_s` there and back. Raises `ValueError` for impossible ones."""

    bandwidth: float
    rtt_s: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bandwidth) and self.bandwidth > 0 and math.isfinite(self.rtt_s) and self.rtt_s >= 0):
            raise ValueError(f"no link has {self.bandwidth:g} B/s and a round trip of {self.rtt_s:g} s")

    @property
    def in_transit(self) -> float:
        """The bandwidth-delay product in bytes."""
        return self.bandwidth * self.rtt_s


@dataclass(frozen=True, slots=True)
class Outage:
    """After `seconds` without a mirror. `catch_up_s` is None where it never catches up; `lost` in bytes, at least."""

    seconds: float
    backlog: float
    catch_up_s: float | None
    lost: float
    left_s: float | None  # of the oldest record when the mirror is back; None without retention by time


@dataclass(frozen=True, slots=True)
class Size:
    """What a flow needs. `memory` in bytes of each worker; `reach` of all workers, bytes per second."""

    link: LinkSpec
    rate: float
    partitions: int
    workers: int
    lanes: int
    memory: int
    reach: float
    bound: str  # what limits `reach`
    enough: bool  # does `reach` exceed the rate?


def sequential(link: LinkSpec, request: float, clients: int = 1) -> float:
    """The joint throughput of `clients` that each wait for every response of `request` bytes."""
    rate = link.bandwidth * request / (link.in_transit + request)
    return min(link.bandwidth, clients * rate)


def clients_needed(link: LinkSpec, request: float, rate: float) -> int | None:
    """The least number of such clients that reach `rate`; None where the link itself does not."""
    if rate > link.bandwidth:
        return None
    return max(1, math.ceil(rate / sequential(link, request) - 1e-9))


def window(link: LinkSpec, memory: int) -> float:
    """Bytes that one worker of `memory` bytes keeps in flight: two bandwidth-delay products and a start, memory permitting."""
    most = max(LEAST_FETCH, (memory - RESERVED) // WINDOW_SHARE)
    return min(most, LEAST_FETCH + 2 * link.in_transit)


def ours(link: LinkSpec, workers: int = 1, memory: int = DEFAULT_MEMORY) -> tuple[float, str]:
    """The joint throughput of `workers` with `memory` bytes each, and its bound: the link, memory or cores."""
    bounds = {
        "the link": link.bandwidth * STEP_SHARE,
        "memory": workers * window(link, memory) / link.rtt_s if link.rtt_s else math.inf,
        "cores": workers / CORE_S_PER_BYTE,
    }
    bound = min(bounds, key=lambda name: bounds[name])
    return bounds[bound], bound


def size(link: LinkSpec, rate: float, partitions: int) -> Size:
    """Workers, lanes and memory with which a flow of `rate` fills the link while it catches up.

    Raises `ValueError` for a rate below 0 or no partition.
    """
    if rate < 0 or partitions < 1:
        raise ValueError(f"no flow has {rate:g} B/s on {partitions} partitions")
    workers = min(partitions, max(1, math.ceil(link.bandwidth * CORE_S_PER_BYTE / CORE_SHARE)))
    wanted = WINDOW_SHARE * (LEAST_FETCH + 2 * link.in_transit / workers)
    steps = math.ceil(max(LEAST_DATA, wanted) / (32 * MIB))  # round to multiples of 32 MiB
    memory = max(DEFAULT_MEMORY, RESERVED + steps * 32 * MIB)
    reach, bound = ours(link, workers, memory)
    return Size(
        link=link,
        rate=rate,
        partitions=partitions,
        workers=workers,
        lanes=min(partitions, LANES_PER_WORKER * workers),
        memory=memory,
        reach=reach,
        bound=bound,
        enough=reach > rate,
    )


def after_outage(seconds: float, rate: float, reach: float, retention_s: float | None = None) -> Outage:
    """Backlog, catch-up time and loss after an outage of `seconds`, for a mirror that reaches `reach` while `rate` is written.

    Records expire on the source `retention_s` after they were written. A mirror that is faster than the producers reads ever
    younger records while it catches up, so the outage itself decides what is lost. A slower one falls back until every
    record expires before it is read.
    """
    expired = 0.0 if retention_s is None else max(0.0, seconds - retention_s)
    backlog = rate * (seconds - expired)
    catch_up = 0.0 if backlog == 0 else backlog / (reach - rate) if reach > rate else None
    left = None if retention_s is None else max(0.0, retention_s - seconds)
    return Outage(seconds, backlog, catch_up, rate * expired, left)


def falls_off_after(rate: float, reach: float, lag_s: float, retention_s: float) -> float | None:
    """Seconds until a mirror slower than its producers, `lag_s` behind now, loses records; None where it never does."""
    if lag_s >= retention_s:
        return 0.0
    if reach >= rate:
        return None
    return (retention_s - lag_s) / (1 - reach / rate)


def usual_request(partitions: int) -> float:
    """The largest fetch response with Kafka's defaults: `max.partition.fetch.bytes` each, `fetch.max.bytes` in all."""
    return min(50 * MIB, partitions * MIB)
