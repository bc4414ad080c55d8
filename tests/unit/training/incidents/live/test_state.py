"""The live view's state, from journals as incidents write them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.errors import UsageError
from drlib.runs.journal import Line
from drlib.training.incidents.live.state import Kind, Period, live_state, moment_ms
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.score import EventKind

START = "2026-11-26T10:00:00.000+00:00"


def line(seq: int, second: int, event: str, **data: str | bool) -> Line:
    return Line(seq, f"2026-11-26T10:00:{second:02d}.000+00:00", event, data, "", "")


JOURNAL = (
    line(0, 0, "started"),
    line(1, 10, "symptom", word="a"),
    line(2, 12, "symptom", word="b"),
    line(3, 15, "acted", move="acknowledge", said="recorded"),
    line(4, 16, "acted", move="restart-broker LEFT", said="its port is taken", failed=True),
    line(5, 20, "symptom-gone", word="a"),
    line(6, 25, "symptom", word="a"),
    line(7, 26, "acted", move="acknowledge", said="recorded"),
    line(8, 27, "hinted", word="Look at the link."),
    line(9, 28, "diagnosed", word="wrong-acl"),
)


def test_live_state_has_periods_of_symptoms_and_every_move() -> None:
    start = moment_ms(JOURNAL[0])
    state = live_state(JOURNAL, start + 30_000, start + 29_000)
    assert state.periods == (
        Period("a", start + 10_000, start + 20_000),
        Period("b", start + 12_000, None),
        Period("a", start + 25_000, None),
    )
    assert state.present == ("b", "a")
    assert [(one.kind, one.text, one.outcome) for one in state.made] == [
        (Kind.MOVE, "acknowledge", "recorded"),
        (Kind.FAILED, "restart-broker LEFT", "its port is taken"),
        (Kind.MOVE, "acknowledge", "recorded"),
        (Kind.HINT, "hint", "costs 5 points"),
        (Kind.DIAGNOSIS, "diagnosis: wrong-acl", "recorded"),
    ]
    assert state.acknowledged_ms == start + 15_000, "the first one"
    assert [state.end_ms(period) - start for period in state.periods] == [20_000, 29_000, 29_000]


def test_live_state_without_a_recent_observation_is_unknown() -> None:
    start = moment_ms(JOURNAL[0])
    state = live_state(JOURNAL, start + 60_000, start + 40_000)
    assert state.known
    assert not replace(state, now_ms=state.now_ms + 1).known
    assert not live_state(JOURNAL, start + 60_000, None).known


def test_live_state_of_a_finished_incident_stands_still_at_its_end() -> None:
    finished = (*JOURNAL, line(10, 40, "finished", recovered=True))
    start = moment_ms(JOURNAL[0])
    state = live_state(finished, start + 999_000, None)
    assert (state.finished, state.known, state.now_ms) == (True, True, start + 40_000)
    assert state.end_ms(state.periods[-1]) == start + 40_000


def test_live_state_refuses_lines_that_are_none_of_an_incident() -> None:
    with pytest.raises(UsageError, match="line 11 is none of an incident"):
        live_state((*JOURNAL, line(10, 40, "brewed")), 0, None)


def test_live_state_knows_every_event_of_a_public_journal(record: IncidentRecord) -> None:
    state = live_state(record.lines(), 0, None)
    assert len(state.made) == 5
    assert {one.event for one in record.lines()} <= {kind.value for kind in EventKind}


def test_live_state_of_a_team_has_who_did_it_and_what_is_under_way() -> None:
    lines = (
        line(0, 0, "started"),
        line(1, 1, "seated", seat="Ana", access="acting"),
        line(2, 2, "begun", seat="Ana", move="heal-link LEFT"),
        line(3, 3, "acted", seat="Bo", move="ask-broker LEFT", said="its port accepts connections"),
    )
    state = live_state(lines, moment_ms(lines[0]) + 9_000, None)
    assert state.seats == ("Ana, acting",)
    assert [(one.seat, one.kind) for one in state.made] == [("Ana", Kind.UNDER_WAY), ("Bo", Kind.MOVE)]
    done = live_state((*lines, line(4, 4, "acted", seat="Ana", move="heal-link LEFT", said="done")), 0, None)
    assert [(one.seat, one.kind) for one in done.made] == [("Bo", Kind.MOVE), ("Ana", Kind.MOVE)]
    left = live_state((*lines, line(4, 4, "begun", seat="Bo", move="stop-mirror")), 0, None)
    assert (left.made[0].kind, left.made[0].outcome) == (Kind.FAILED, "no outcome was recorded")
