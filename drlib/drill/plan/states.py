"""The state of one flow between drills, and the commands that are allowed: a literal table, and the diagram made from it.

Rules: `TABLE` is the whole machine; any other transition is refused with the commands that are allowed instead. A command
begins an activity (test, fail over, reprotect, fail back) and the activity's outcome ends it. An abort or a failure leaves
an activity incomplete, with its changes in place: it is resumed, or rolled back to where it began. An activity whose
process died keeps its state, so it is resumed or rolled back too. `supersede` gives an unfinished activity up, with its
changes in place: the flow is where the activity began, and another one may begin (`drlib.drill.plan.supersede` says which
one may). A failed-over or reprotected flow may fail over again: its source has served since, by the opposite flow or by
hand, which an emergency cannot ask. What people declare (`DECLARED`) holds whatever the state was.
Not for: who may do it (the lease) and which steps it takes (the plan).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class DrillState(StrEnum):
    READY = "ready"  # the source serves and is mirrored to the target
    TESTING = "testing"
    TEST_INCOMPLETE = "test-incomplete"
    TESTED = "tested"  # a practice ran to its end; the source still serves
    RUNNING = "running"
    INCOMPLETE = "incomplete"  # some of failing over is done
    FAILED_OVER = "failed-over"  # the target serves, nothing protects it
    REPROTECTING = "reprotecting"
    REPROTECT_INCOMPLETE = "reprotect-incomplete"
    REPROTECTED = "reprotected"  # the target serves and is mirrored to the former source
    FAILING_BACK = "failing-back"
    FAILBACK_INCOMPLETE = "failback-incomplete"


class DrillEvent(StrEnum):
    # commands
    TEST = "test"
    CLEAN_UP = "clean-up"
    FAIL_OVER = "fail-over"
    REPROTECT = "reprotect"
    FAIL_BACK = "fail-back"
    RESUME = "resume"
    ABORT = "abort"
    SUPERSEDE = "supersede"
    # declarations of people, who moved applications without drlib
    SOURCE_SERVES = "source-serves"
    TARGET_SERVES = "target-serves"
    # outcomes
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ROLLED_BACK = "rolled-back"


COMMANDS: Final = frozenset(
    {
        DrillEvent.TEST,
        DrillEvent.CLEAN_UP,
        DrillEvent.FAIL_OVER,
        DrillEvent.REPROTECT,
        DrillEvent.FAIL_BACK,
        DrillEvent.RESUME,
        DrillEvent.ABORT,
        DrillEvent.SUPERSEDE,
    }
)
"""What can be asked for; the other events are declarations and outcomes."""

_S, _E = DrillState, DrillEvent

TABLE: Final[Mapping[DrillState, Mapping[DrillEvent, DrillState]]] = {
    _S.READY: {
        _E.TEST: _S.TESTING,
        _E.FAIL_OVER: _S.RUNNING,
    },
    _S.TESTING: {
        _E.SUCCEEDED: _S.TESTED,
        _E.FAILED: _S.TEST_INCOMPLETE,
        _E.ABORT: _S.TEST_INCOMPLETE,
        _E.ROLLED_BACK: _S.READY,
        _E.RESUME: _S.TESTING,
        _E.SUPERSEDE: _S.READY,
    },
    _S.TEST_INCOMPLETE: {
        _E.RESUME: _S.TESTING,
        _E.ROLLED_BACK: _S.READY,
        _E.SUPERSEDE: _S.READY,
    },
    _S.TESTED: {
        _E.TEST: _S.TESTING,
        _E.CLEAN_UP: _S.READY,
        _E.FAIL_OVER: _S.RUNNING,
    },
    _S.RUNNING: {
        _E.SUCCEEDED: _S.FAILED_OVER,
        _E.FAILED: _S.INCOMPLETE,
        _E.ABORT: _S.INCOMPLETE,
        _E.ROLLED_BACK: _S.READY,
        _E.RESUME: _S.RUNNING,
        _E.SUPERSEDE: _S.READY,
    },
    _S.INCOMPLETE: {
        _E.RESUME: _S.RUNNING,
        _E.ROLLED_BACK: _S.READY,
        _E.SUPERSEDE: _S.READY,
    },
    _S.FAILED_OVER: {
        _E.REPROTECT: _S.REPROTECTING,
        _E.FAIL_OVER: _S.RUNNING,
    },
    _S.REPROTECTING: {
        _E.SUCCEEDED: _S.REPROTECTED,
        _E.FAILED: _S.REPROTECT_INCOMPLETE,
        _E.ABORT: _S.REPROTECT_INCOMPLETE,
        _E.ROLLED_BACK: _S.FAILED_OVER,
        _E.RESUME: _S.REPROTECTING,
        _E.SUPERSEDE: _S.FAILED_OVER,
    },
    _S.REPROTECT_INCOMPLETE: {
        _E.RESUME: _S.REPROTECTING,
        _E.ROLLED_BACK: _S.FAILED_OVER,
        _E.SUPERSEDE: _S.FAILED_OVER,
    },
    _S.REPROTECTED: {
        _E.FAIL_BACK: _S.FAILING_BACK,
        _E.FAIL_OVER: _S.RUNNING,
    },
    _S.FAILING_BACK: {
        _E.SUCCEEDED: _S.READY,
        _E.FAILED: _S.FAILBACK_INCOMPLETE,
        _E.ABORT: _S.FAILBACK_INCOMPLETE,
        _E.ROLLED_BACK: _S.REPROTECTED,
        _E.RESUME: _S.FAILING_BACK,
        _E.SUPERSEDE: _S.REPROTECTED,
    },
    _S.FAILBACK_INCOMPLETE: {
        _E.RESUME: _S.FAILING_BACK,
        _E.ROLLED_BACK: _S.REPROTECTED,
        _E.SUPERSEDE: _S.REPROTECTED,
    },
}

DECLARED: Final[Mapping[DrillEvent, DrillState]] = {
    _E.SOURCE_SERVES: _S.READY,
    _E.TARGET_SERVES: _S.FAILED_OVER,
}
"""The state after a declaration, from every state."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A transition the table does not have. `allowed` are the commands that are allowed now, in the table's order."""

    state: DrillState
    event: DrillEvent
    allowed: tuple[DrillEvent, ...]

    @property
    def what(self) -> str:
        return f"'{self.event}' is not possible"

    @property
    def why(self) -> str:
        return f"the flow is {self.state}"

    @property
    def remedy(self) -> str:
        return f"Allowed now: {', '.join(self.allowed)}."


def move(state: DrillState, event: DrillEvent) -> DrillState | Refused:
    """Where `event` leads from `state`, or why it leads nowhere."""
    return DECLARED.get(event) or TABLE[state].get(event) or Refused(state, event, allowed(state))


def allowed(state: DrillState) -> tuple[DrillEvent, ...]:
    """The commands that are possible in `state`; there always is one."""
    return tuple(event for event in TABLE[state] if event in COMMANDS)


def active(state: DrillState) -> bool:
    """Does an activity run, or did its process die in the middle of it?"""
    return DrillEvent.SUCCEEDED in TABLE[state]


def unfinished(state: DrillState) -> bool:
    """Is there a run that can be resumed: it runs, was left, or its process died?"""
    return DrillEvent.RESUME in TABLE[state]


def target_serves(state: DrillState) -> bool:
    """Are the applications on the target since a failover, and no activity is moving them back?"""
    return state in (DrillState.FAILED_OVER, DrillState.REPROTECTING, DrillState.REPROTECTED)
