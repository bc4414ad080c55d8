"""Which run may begin where another is unfinished: the whole table, urgency, the texts, and the two flows of a pair."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.drill.plan.lease_record import MOST_SUPERSEDED, LeaseRecord, decode
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import TABLE, DrillEvent, DrillState, move, unfinished
from drlib.drill.plan.supersede import (
    URGENCY,
    Beginning,
    Entered,
    Refusal,
    after_opposite,
    enter,
    may_supersede,
    mode_of,
)
from drlib.model import Flow

FLOW = Flow("paris", "lyon")
NOW = 1_000_000_000
UNFINISHED = [state for state in DrillState if unfinished(state)]
COMMANDS = [DrillEvent.TEST, DrillEvent.FAIL_OVER, DrillEvent.REPROTECT, DrillEvent.FAIL_BACK]
EMERGENCY = Beginning(
    run="night", command=DrillEvent.FAIL_OVER, mode=Mode.EMERGENCY, again="drlib run e.yaml m.properties"
)
HALF_DONE: dict[str, Any] = {
    "standing": ("fence", "translate"),
    "host": "ops1",
    "folder": "/runs/old",
    "since_ms": NOW - 3_600_000,
}


def record(state: DrillState, mode: Mode | None = None, **more: object) -> LeaseRecord:
    return LeaseRecord.model_validate({"state": state, "run": "old", "mode": mode, **more})


def naming(new: Beginning, run: str = "old") -> Beginning:
    return Beginning(run=new.run, command=new.command, mode=new.mode, supersede=run, again=new.again)


@pytest.mark.parametrize("state", DrillState)
def test_emergency_failover_begins_in_every_state_with_at_most_one_flag(state: DrillState) -> None:
    plain = enter(FLOW, record(state), EMERGENCY, NOW)
    assert isinstance(plain, Refusal) is unfinished(state)
    flagged = enter(FLOW, record(state), naming(EMERGENCY), NOW, alive=True)
    assert isinstance(flagged, Entered)
    assert flagged.state is DrillState.RUNNING
    assert (flagged.superseded is not None) is unfinished(state)


@pytest.mark.parametrize("state", UNFINISHED)
def test_refusal_names_run_state_age_folder_changes_and_both_commands(state: DrillState) -> None:
    refused = enter(FLOW, record(state, **HALF_DONE), EMERGENCY, NOW)
    assert isinstance(refused, Refusal)
    for said in ("old", state.value, "1 h 00 min", "/runs/old on ops1", "not undone: fence, translate"):
        assert said in refused.why
    assert "drlib run --resume /runs/old" in refused.remedy
    assert "drlib run --rollback /runs/old" in refused.remedy
    assert "drlib run e.yaml m.properties --supersede old." in refused.remedy
    assert "is unfinished for" in refused.why
    assert "--supersede names" not in refused.why
    assert "stop it" not in refused.remedy


def test_refusal_while_the_other_run_goes_says_so_and_to_stop_it_first() -> None:
    refused = enter(FLOW, record(DrillState.RUNNING, **HALF_DONE), EMERGENCY, NOW, alive=True)
    assert isinstance(refused, Refusal)
    assert "is running for 1 h 00 min" in refused.why
    assert "drlib abort /runs/old" in refused.remedy
    assert "stop it and give it up" in refused.remedy


def test_refusal_of_a_run_that_is_not_urgent_enough_does_not_say_that_it_names_another() -> None:
    less = Beginning(run="new", command=DrillEvent.TEST, mode=Mode.PRACTICE, supersede="old")
    refused = enter(FLOW, record(DrillState.INCOMPLETE, Mode.EMERGENCY), less, NOW)
    assert isinstance(refused, Refusal)
    assert "--supersede names" not in refused.why


def test_urgency_rises_from_practice_to_emergency() -> None:
    assert URGENCY[Mode.PRACTICE] < URGENCY[Mode.PLANNED] < URGENCY[Mode.EMERGENCY]


def test_supersede_of_another_run_than_the_unfinished_one_is_refused_with_both_names() -> None:
    refused = enter(FLOW, record(DrillState.INCOMPLETE), naming(EMERGENCY, "older"), NOW)
    assert isinstance(refused, Refusal)
    assert "run old" in refused.why
    assert "--supersede names older" in refused.why
    assert "--supersede old." in refused.remedy


@pytest.mark.parametrize(("new", "old", "alive"), list(itertools.product(Mode, Mode, (True, False))))
def test_urgency_decides_which_run_supersedes(new: Mode, old: Mode, alive: bool) -> None:
    allowed = may_supersede(new, record(DrillState.INCOMPLETE, old), alive=alive)
    if URGENCY[new] != URGENCY[old]:
        assert allowed is (URGENCY[new] > URGENCY[old])
    else:
        assert allowed is (new is Mode.EMERGENCY or not alive)
    begun = Beginning(run="new", command=DrillEvent.FAIL_OVER, mode=new, supersede="old")
    found = enter(FLOW, record(DrillState.INCOMPLETE, old), begun, NOW, alive=alive)
    assert isinstance(found, Entered) is allowed
    if isinstance(found, Refusal):
        assert "--supersede" not in found.remedy
        assert f"A run in mode {new} does not supersede it: it is in mode {old}." in found.remedy


def test_rehearsal_never_supersedes_an_emergency_even_of_an_unrecorded_mode() -> None:
    for state in (DrillState.RUNNING, DrillState.INCOMPLETE, DrillState.FAILING_BACK):
        assert mode_of(record(state)) is Mode.EMERGENCY
        for alive in (True, False):
            assert not may_supersede(Mode.PRACTICE, record(state), alive=alive)
            assert not may_supersede(Mode.PLANNED, record(state), alive=alive)
    assert mode_of(record(DrillState.TEST_INCOMPLETE)) is Mode.PRACTICE


@pytest.mark.parametrize(("state", "command"), list(itertools.product(UNFINISHED, COMMANDS)))
def test_superseding_begins_where_the_unfinished_activity_began(state: DrillState, command: DrillEvent) -> None:
    home = move(state, DrillEvent.SUPERSEDE)
    assert isinstance(home, DrillState)
    assert not unfinished(home)
    assert home is move(state, DrillEvent.ROLLED_BACK)
    new = Beginning(run="new", command=command, mode=Mode.EMERGENCY, supersede="old")
    found = enter(FLOW, record(state), new, NOW)
    to = TABLE[home].get(command)
    if to is None:
        assert isinstance(found, Refusal)
        assert "once old is superseded" in found.what
    else:
        assert found == Entered(to, record(state))


@given(st.lists(st.text("abc", min_size=1, max_size=3), max_size=60))
def test_superseded_runs_are_kept_by_name_up_to_a_limit_and_round_trip(runs: list[str]) -> None:
    now = LeaseRecord()
    for number, run in enumerate(runs):
        now = LeaseRecord(run=run, superseded=now.superseded)
        now = now.model_copy(update={"superseded": now.given_up("next", number)})
    assert len(now.superseded) <= MOST_SUPERSEDED
    names = [past.run for past in now.superseded]
    assert len(set(names)) == len(names)
    assert names[-1:] == runs[-1:]
    if runs:
        found = now.superseded_by(runs[-1])
        assert found is not None
        assert (found.by, found.at_ms) == ("next", len(runs) - 1)
    assert now.superseded_by("never") is None
    assert decode(now.encode(), FLOW) == now


# -- the two flows of a pair -------------------------------------------------------------------------------------------


def test_pair_of_flows_fails_over_there_back_and_there_again_without_a_flag() -> None:
    """paris->lyon, then lyon->paris, then paris->lyon: each by its own record, on its own target."""
    there, back = LeaseRecord(), LeaseRecord()
    for number in range(3):
        own, other = (there, back) if number % 2 == 0 else (back, there)
        begun = enter(FLOW, after_opposite(own, other), EMERGENCY, NOW)
        assert isinstance(begun, Entered)
        done = move(begun.state, DrillEvent.SUCCEEDED)
        assert isinstance(done, DrillState)
        finished = LeaseRecord(state=done, run=f"r{number}", since_ms=1000 * (number + 1))
        there, back = (finished, back) if number % 2 == 0 else (there, finished)
    rehearsal = Beginning(run="r", command=DrillEvent.TEST, mode=Mode.PRACTICE)
    assert isinstance(enter(FLOW, after_opposite(back, there), rehearsal, NOW), Entered)  # the applications are in lyon
    assert isinstance(enter(FLOW, after_opposite(there, back), rehearsal, NOW), Refusal)


@pytest.mark.parametrize(
    ("own", "opposite", "ready"),
    [
        ((DrillState.FAILED_OVER, 10), (DrillState.FAILED_OVER, 20), True),
        ((DrillState.REPROTECTED, 10), (DrillState.FAILED_OVER, 20), True),
        ((DrillState.FAILED_OVER, 10), (DrillState.REPROTECTED, 20), True),
        ((DrillState.FAILED_OVER, 20), (DrillState.FAILED_OVER, 10), False),
        ((DrillState.FAILED_OVER, 20), (DrillState.FAILED_OVER, 20), False),
        ((DrillState.FAILED_OVER, 10), (DrillState.READY, 20), False),  # it went there, and came back by a failback
        ((DrillState.FAILED_OVER, 10), (DrillState.INCOMPLETE, 20), False),
        ((DrillState.INCOMPLETE, 10), (DrillState.FAILED_OVER, 20), False),
    ],
)
def test_opposite_flow_that_failed_over_later_makes_a_flow_ready(
    own: tuple[DrillState, int], opposite: tuple[DrillState, int], ready: bool
) -> None:
    mine = LeaseRecord(state=own[0], since_ms=own[1])
    found = after_opposite(mine, LeaseRecord(state=opposite[0], since_ms=opposite[1]))
    assert found.state is (DrillState.READY if ready else own[0])


def test_failback_by_the_same_flow_is_ready_and_fails_over_again() -> None:
    state = DrillState.READY
    for event in ["fail-over", "succeeded", "reprotect", "succeeded", "fail-back", "succeeded", "fail-over"]:
        to = move(state, DrillEvent(event))
        assert isinstance(to, DrillState)
        state = to
    assert state is DrillState.RUNNING
