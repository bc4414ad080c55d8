"""A lane has stalled when it has work and no offset of it moves beyond all before."""

from __future__ import annotations

import uuid

import pytest

from drlib.mirror.engine.lane.state import LaneState
from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.stall_watch import LaneProgress, LaneWork

P, Q = (SourcePartition(uuid.UUID(int=1), number) for number in (0, 1))


def observe(progress: LaneProgress, *works: LaneWork) -> float:
    for work in works:
        progress.observe(work, 2.0)
    return progress.idle_s


def work(read: int, acknowledged: int, *, waiting: int = 5, state: LaneState = LaneState.RUNNING) -> LaneWork:
    return LaneWork(state, waiting, {P: (read, acknowledged), Q: (7, 7)})


def test_progress_waiting_records_without_movement_count_time() -> None:
    assert observe(LaneProgress(), work(3, 1), work(3, 1), work(3, 1)) == 4.0


@pytest.mark.parametrize("moved", [work(4, 1), work(3, 2)])
def test_progress_offset_beyond_all_before_ends_the_stall(moved: LaneWork) -> None:
    assert observe(LaneProgress(), work(3, 1), work(3, 1), moved) == 0.0


def test_progress_same_records_read_again_are_none() -> None:
    """A claim that is repeated for ever reads what the one before it read."""
    assert observe(LaneProgress(), work(9, 1), work(1, 1), work(5, 1), work(9, 1)) == 6.0


@pytest.mark.parametrize("state", [LaneState.CLAIMING, LaneState.RECOVERING, LaneState.BACKING_OFF, LaneState.DRAINING])
def test_progress_claim_that_is_not_complete_counts_time_without_records(state: LaneState) -> None:
    assert observe(LaneProgress(), work(3, 3, waiting=0), *[work(3, 3, waiting=0, state=state)] * 3) == 6.0


@pytest.mark.parametrize("state", [LaneState.RUNNING, LaneState.LOST, LaneState.STOPPED])
def test_progress_without_work_counts_nothing(state: LaneState) -> None:
    assert observe(LaneProgress(), work(3, 3), *[work(3, 3, waiting=0, state=state)] * 3) == 0.0


def test_progress_partition_that_left_the_lane_is_forgotten() -> None:
    progress = LaneProgress()
    observe(progress, work(3, 1), LaneWork(LaneState.RUNNING, 5, {Q: (7, 7)}))
    assert progress.furthest == {Q: (7, 7)}
