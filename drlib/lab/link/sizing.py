"""How much a link carries, one request after the other and with many on their way; what a mirror over it needs.

A client that waits for each answer has D bytes in every round trip, and the link is idle while it waits:
TP = B*D / (B*RTT + D). With W bytes on their way whatever was answered it is min(B, W / RTT). The first needs many processes
and threads to fill a long link, the second needs memory for W.
Rules: sizes are bytes, times seconds, rates bytes per second of keys and values as they are in batches (compressed if they
are). The numbers of our engine are the engine's own (a test compares them); what a core does was measured (docs/performance.md)
and is taken from the dearer workload. Retention by size is not looked at, as it has no time of its own (see `rules.forecast`).
Not for: what TCP makes of a long line that loses packets, or a disk that is slower than the link: measure those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20

LEAST_FETCH: Final = 16 * MIB  # `mirror.backlog.LEAST_WINDOW`: on their way before anything is known of the link
RESERVED: Final = 128 * MIB  # `mirror.memory.RESERVED`
LEAST_DATA: Final = 32 * MIB  # `mirror.memory.LEAST_WORKER` beyond that
THINNER: Final = 0.98  # `mirror.backlog.THINNER`: of what is read, the rest is overlap of questions
WINDOW_SHARE: Final = 2  # one half of a worker's data may be on its way from the source, the other is queued and sent
DEFAULT_MEMORY: Final = 256 * MIB
CORE_S_PER_BYTE: Final = 4.5e-9  # batches of one record, the dearest measured; 16 KB batches take half of it
CORE_SHARE: Final = 0.7  # of a core that one worker should be planned to use
LANES_PER_WORKER: Final = 2  # so that a worker can be added, or one of them lost, without remaking the journal

REQUESTS: Final = (16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 50 * MIB)
"""Bytes in an answer: from small batches to `fetch.max.bytes`. `max.partition.fetch.bytes` is 1 MiB unless set."""


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """`bandwidth` in bytes per second, each way; `rtt_s` there and back. Raises `ValueError` for what no link has."""

    bandwidth: float
    rtt_s: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bandwidth) and self.bandwidth > 0 and math.isfinite(self.rtt_s) and self.rtt_s >= 0):
            raise ValueError(f"no link has {self.bandwidth:g} B/s and a round trip of {self.rtt_s:g} s")

    @property
    def in_transit(self) -> float:
        """What a full link holds, bytes: bandwidth x round trip."""
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
    """What `clients`, each waiting for every answer of `request` bytes, reach together on the link."""
    one = link.bandwidth * request / (link.in_transit + request)
    return min(link.bandwidth, clients * one)


def clients_needed(link: LinkSpec, request: float, rate: float) -> int | None:
    """How many such clients reach `rate`; None where the link itself does not."""
    if rate > link.bandwidth:
        return None
    return max(1, math.ceil(rate / sequential(link, request) - 1e-9))


def window(link: LinkSpec, memory: int) -> float:
    """Bytes that one worker of `memory` bytes keeps on their way: two bandwidth-delay products and a beginning, if it may."""
    most = max(LEAST_FETCH, (memory - RESERVED) // WINDOW_SHARE)
    return min(most, LEAST_FETCH + 2 * link.in_transit)


def ours(link: LinkSpec, workers: int = 1, memory: int = DEFAULT_MEMORY) -> tuple[float, str]:
    """What `workers` with `memory` bytes each reach together, and what bounds it: link, memory or cores."""
    bounds = {
        "the link": link.bandwidth * THINNER,
        "memory": workers * window(link, memory) / link.rtt_s if link.rtt_s else math.inf,
        "cores": workers / CORE_S_PER_BYTE,
    }
    bound = min(bounds, key=lambda name: bounds[name])
    return bounds[bound], bound


def size(link: LinkSpec, rate: float, partitions: int) -> Size:
    """Workers, lanes and memory with which a flow of `rate` fills the link when it has something to catch up.

    Raises `ValueError` for a rate below 0 or no partition.
    """
    if rate < 0 or partitions < 1:
        raise ValueError(f"no flow has {rate:g} B/s on {partitions} partitions")
    workers = min(partitions, max(1, math.ceil(link.bandwidth * CORE_S_PER_BYTE / CORE_SHARE)))
    wanted = WINDOW_SHARE * (LEAST_FETCH + 2 * link.in_transit / workers)
    steps = math.ceil(max(LEAST_DATA, wanted) / (32 * MIB))  # people write 256MiB, not 241
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
    """What an outage of `seconds` leaves to a mirror that reaches `reach` while `rate` goes on being written.

    Records expire on the source `retention_s` after they were written. While a mirror catches up, the age of what it reads
    next falls if it is faster than the producers; so the outage itself decides what is lost. One that is slower falls
    back until everything expires before it is read.
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
    """What an answer holds at most with Kafka's own settings: `max.partition.fetch.bytes` each, `fetch.max.bytes` in all."""
    return min(50 * MIB, partitions * MIB)
