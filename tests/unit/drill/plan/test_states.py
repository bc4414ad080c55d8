"""The machine of drills: every pair of state and event, and the picture in the docs."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from repository_root import ROOT

from drlib.drill.plan.states import (
    COMMANDS,
    DECLARED,
    TABLE,
    DrillEvent,
    DrillState,
    Refused,
    active,
    allowed,
    move,
    target_serves,
    unfinished,
)

DOC = ROOT / "docs" / "drills.md"
ACTIVITIES = [
    (DrillState.READY, DrillEvent.TEST, DrillState.TESTING, DrillState.TESTED),
    (DrillState.TESTED, DrillEvent.TEST, DrillState.TESTING, DrillState.TESTED),
    (DrillState.READY, DrillEvent.FAIL_OVER, DrillState.RUNNING, DrillState.FAILED_OVER),
    (DrillState.TESTED, DrillEvent.FAIL_OVER, DrillState.RUNNING, DrillState.FAILED_OVER),
    (DrillState.FAILED_OVER, DrillEvent.FAIL_OVER, DrillState.RUNNING, DrillState.FAILED_OVER),
    (DrillState.REPROTECTED, DrillEvent.FAIL_OVER, DrillState.RUNNING, DrillState.FAILED_OVER),
    (DrillState.FAILED_OVER, DrillEvent.REPROTECT, DrillState.REPROTECTING, DrillState.REPROTECTED),
    (DrillState.REPROTECTED, DrillEvent.FAIL_BACK, DrillState.FAILING_BACK, DrillState.READY),
]


def test_states_full_cycle() -> None:
    state: DrillState | Refused = DrillState.READY
    way = ["test", "succeeded", "fail-over", "succeeded", "reprotect", "succeeded", "fail-back", "succeeded"]
    for event in way:
        assert isinstance(state, DrillState)
        state = move(state, DrillEvent(event))
    assert state is DrillState.READY


@pytest.mark.parametrize(("start", "command", "doing", "done"), ACTIVITIES)
def test_states_activity_ends_done_incomplete_or_where_it_began(
    start: DrillState, command: DrillEvent, doing: DrillState, done: DrillState
) -> None:
    assert move(start, command) is doing
    assert active(doing)
    assert not active(start)
    assert move(doing, DrillEvent.SUCCEEDED) is done
    assert move(doing, DrillEvent.RESUME) is doing
    incomplete = move(doing, DrillEvent.FAILED)
    assert isinstance(incomplete, DrillState)
    assert incomplete not in (start, doing, done)
    assert move(doing, DrillEvent.ABORT) is incomplete
    assert move(incomplete, DrillEvent.RESUME) is doing
    home = move(doing, DrillEvent.ROLLED_BACK)
    assert home == (DrillState.READY if command is DrillEvent.FAIL_OVER or start is DrillState.TESTED else start)
    assert move(incomplete, DrillEvent.ROLLED_BACK) is home
    for state in (doing, incomplete):
        assert unfinished(state)
        assert move(state, DrillEvent.SUPERSEDE) is home
    for state in (start, done):
        assert not unfinished(state)
        assert isinstance(move(state, DrillEvent.SUPERSEDE), Refused)


@pytest.mark.parametrize(("state", "event"), list(itertools.product(DrillState, DrillEvent)))
def test_move_answers_every_pair(state: DrillState, event: DrillEvent) -> None:
    found = move(state, event)
    if event in TABLE[state] or event in DECLARED:
        assert found is (DECLARED.get(event) or TABLE[state][event])
        return
    assert isinstance(found, Refused)
    assert (found.state, found.event) == (state, event)
    assert found.allowed == allowed(state)
    assert f"'{event}'" in found.what
    assert state in found.why
    for command in found.allowed:
        assert command in COMMANDS
        assert command in found.remedy
        assert isinstance(move(state, command), DrillState)


def test_states_always_allow_a_command() -> None:
    assert set(TABLE) == set(DrillState)
    for state in DrillState:
        assert allowed(state)


def test_states_are_reachable_from_ready_and_back() -> None:
    def reached(start: DrillState) -> set[DrillState]:
        seen, new = {start}, [start]
        while new:
            for to in TABLE[new.pop()].values():
                if to not in seen:
                    seen.add(to)
                    new.append(to)
        return seen

    assert reached(DrillState.READY) == set(DrillState)
    for state in DrillState:
        assert DrillState.READY in reached(state)


@given(st.lists(st.sampled_from(list(DrillEvent)), max_size=60))
def test_states_fail_back_needs_fail_over_and_reprotect(events: list[DrillEvent]) -> None:
    state, passed = DrillState.READY, [DrillState.READY]
    for event in events:
        to = move(state, event)
        if isinstance(to, DrillState):
            state = to
            passed.append(to)
    if DrillState.FAILING_BACK in passed:
        before = passed[: passed.index(DrillState.FAILING_BACK)]
        assert before.index(DrillState.FAILED_OVER) < before.index(DrillState.REPROTECTED)


@pytest.mark.parametrize("state", DrillState)
def test_declared_state_holds_whatever_the_state_was(state: DrillState) -> None:
    assert move(state, DrillEvent.SOURCE_SERVES) is DrillState.READY
    assert move(state, DrillEvent.TARGET_SERVES) is DrillState.FAILED_OVER


def mermaid() -> str:
    """The table as a Mermaid state diagram, one arrow a pair of states, in the table's order."""
    lines = ["stateDiagram-v2", f"    [*] --> {_id(DrillState.READY)}"]
    lines += [f"    {_id(state)}: {state}" for state in TABLE if _id(state) != state]
    for state, moves in TABLE.items():
        arrows: dict[DrillState, list[str]] = {}
        for event, to in moves.items():
            arrows.setdefault(to, []).append(event)
        lines += [f"    {_id(state)} --> {_id(to)}: {', '.join(events)}" for to, events in arrows.items()]
    return "\n".join(lines) + "\n"


def _id(state: DrillState) -> str:
    """Mermaid takes no hyphens in a state's id."""
    return state.replace("-", "_")


def test_mermaid_diagram_in_the_docs_is_current() -> None:
    assert f"```mermaid\n{mermaid()}```" in DOC.read_text()


def test_mermaid_diagram_has_every_transition_once() -> None:
    arrows = [line for line in mermaid().splitlines() if "-->" in line and "[*]" not in line]
    drawn = []
    for line in arrows:
        pair, events = line.strip().split(": ")
        start, to = pair.split(" --> ")
        drawn += [(start.replace("_", "-"), event, to.replace("_", "-")) for event in events.split(", ")]
    assert sorted(drawn) == sorted((s, e, to) for s, moves in TABLE.items() for e, to in moves.items())


def test_target_serves_from_the_failover_until_applications_are_moved_back() -> None:
    serving = {state for state in DrillState if target_serves(state)}
    assert serving == {DrillState.FAILED_OVER, DrillState.REPROTECTING, DrillState.REPROTECTED}
