"""The states of a lane and the transitions between them: the table is the rule, `Lane` asserts it.

Rules: every doubt leads through CLAIMING. LOST is left for CLAIMING only when the group still assigns the lane to us a
session later, else for STOPPED.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class LaneState(StrEnum):
    CLAIMING = "claiming"
    RECOVERING = "recovering"
    RUNNING = "running"
    DRAINING = "draining"
    BACKING_OFF = "backing-off"
    LOST = "lost"
    STOPPED = "stopped"


MOVES: Final[Mapping[LaneState, frozenset[LaneState]]] = {
    LaneState.CLAIMING: frozenset({LaneState.RECOVERING, LaneState.BACKING_OFF, LaneState.LOST, LaneState.STOPPED}),
    LaneState.RECOVERING: frozenset({LaneState.RUNNING, LaneState.BACKING_OFF, LaneState.LOST, LaneState.STOPPED}),
    LaneState.RUNNING: frozenset({LaneState.DRAINING, LaneState.BACKING_OFF, LaneState.LOST}),
    LaneState.DRAINING: frozenset({LaneState.STOPPED, LaneState.CLAIMING, LaneState.BACKING_OFF, LaneState.LOST}),
    LaneState.BACKING_OFF: frozenset({LaneState.CLAIMING, LaneState.STOPPED, LaneState.LOST}),
    LaneState.LOST: frozenset({LaneState.STOPPED, LaneState.CLAIMING}),
    LaneState.STOPPED: frozenset(),
}
