"""Watch that every lane of this worker makes progress: one with work and without progress is `LaneStalled`, whatever the cause.

Rules: work is a readable source record that is not on the target, in a partition that is neither parked nor held back, or a
claim that is not complete. Progress is an offset, read from the source or acknowledged by the target, beyond all before it:
reading the same records again is none. Time counts in steps, so that a process that was suspended has not stalled.
Not for: causes; those have events of their own, and this one is for the rest.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from drlib.mirror.engine.lane.lane import Lane
from drlib.mirror.engine.lane.state import LaneState
from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.monitor.lag_monitor import LagMonitor
from drlib.mirror.status.worker_status import EventLog, pause_s

STALLED_S: Final = 20.0  # reported within 30 s, also where thousands of partitions make checks rarer
CHECK_S: Final = 1.0
RAREST_S: Final = 5.0
_NO_CLAIM: Final = frozenset({LaneState.LOST, LaneState.STOPPED})  # not ours, or not any more: no work


@dataclass(frozen=True, slots=True)
class LaneWork:
    """A lane at one moment. `waiting`: records that could be mirrored; `offsets`: read and acknowledged, by partition,
    also of parked ones, which may be read again from an earlier offset."""

    state: LaneState
    waiting: int
    offsets: Mapping[SourcePartition, tuple[int, int]]

    @property
    def any(self) -> bool:
        """True where the lane has something to do."""
        return self.state not in _NO_CLAIM and (self.state is not LaneState.RUNNING or self.waiting > 0)


@dataclass(slots=True)
class LaneProgress:
    """The furthest offsets of each partition of a lane, and for how long it has had work without moving beyond them."""

    furthest: dict[SourcePartition, tuple[int, int]] = field(default_factory=dict)
    idle_s: float = 0.0

    def observe(self, work: LaneWork, elapsed_s: float) -> None:
        """Take in the lane as it is `elapsed_s` after the observation before."""
        before = {partition: self.furthest.get(partition, (-1, -1)) for partition in work.offsets}
        self.furthest = {
            p: (max(read, before[p][0]), max(acked, before[p][1])) for p, (read, acked) in work.offsets.items()
        }
        moved = self.furthest != before
        self.idle_s = self.idle_s + elapsed_s if work.any and not moved else 0.0


def lane_work(lane: Lane, monitor: LagMonitor) -> LaneWork:
    """The lane now, as its worker knows it."""
    active = [stream for stream in lane.streams if not (stream.parked or stream.held)]
    offsets = {stream.key: (stream.position, stream.mirrored) for stream in lane.streams}
    return LaneWork(lane.state, sum(map(monitor.waiting, active)), offsets)


async def watch_progress(
    lanes: Callable[[], Iterable[Lane]], monitor: LagMonitor, kept: Callable[[], str], events: EventLog
) -> None:
    """Report the stalled ones of `lanes` until cancelled; `kept` says in words what the worker keeps in memory."""
    watched: dict[Lane, LaneProgress] = {}
    step = CHECK_S
    at = time.monotonic()
    while True:
        await asyncio.sleep(step)
        now = time.monotonic()
        elapsed, at = min(now - at, 2 * step), now
        started = time.thread_time()
        current = list(lanes())
        watched = {lane: watched.get(lane) or LaneProgress() for lane in current}
        for lane in current:
            work = lane_work(lane, monitor)
            watched[lane].observe(work, elapsed)
            idle_s = watched[lane].idle_s
            if idle_s >= STALLED_S:
                waits = f"{work.waiting} records wait" if work.waiting else "its claim is not complete"
                what = f"{lane.name} is {work.state} without progress for {idle_s:.0f} s: {waits}; {kept()}"
                events.open("LaneStalled", lane.name, what)
            else:
                events.resolve("LaneStalled", lane.name)
        step = min(RAREST_S, pause_s(CHECK_S, time.thread_time() - started))
