"""Which records of a flow's drills, with which pointer, keep the flow from being mirrored."""

from __future__ import annotations

import pytest

from drlib import decoding
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import DrillState
from drlib.mirror.preflight.failed_over import FlowRecord, waits
from drlib.model import Flow

FLOW = Flow("paris", "lyon")
RETURNING = {
    DrillState.REPROTECTING,
    DrillState.REPROTECT_INCOMPLETE,
    DrillState.REPROTECTED,
    DrillState.FAILBACK_INCOMPLETE,
}
MOVING = {DrillState.RUNNING, DrillState.INCOMPLETE}


@pytest.mark.parametrize("state", DrillState)
@pytest.mark.parametrize("mode", [None, *Mode])
@pytest.mark.parametrize("active", [None, "paris", "lyon"])
def test_flow_waits_while_applications_are_on_its_target_since_a_failover(
    state: DrillState, mode: Mode | None, active: str | None
) -> None:
    written = LeaseRecord(state=state, mode=mode, run="one").encode()
    record = decoding.json_as(FlowRecord, written)
    if state is DrillState.FAILING_BACK:
        expected = True  # until it has seen the applications at home
    elif active == "paris":
        expected = False
    elif state in MOVING:
        expected = mode is Mode.EMERGENCY and active == "lyon"
    elif state is DrillState.FAILED_OVER:
        expected = mode is not Mode.PLANNED  # a planned move has drained the flow
    else:
        expected = state in RETURNING
    assert waits(record, FLOW, active) is expected


def test_flow_without_a_record_is_mirrored() -> None:
    assert waits(None, FLOW, "lyon") is False
