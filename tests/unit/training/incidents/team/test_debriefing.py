"""Estimated and actual times of a team's actions, from its journal."""

from __future__ import annotations

from drlib.runs.journal import Line
from drlib.training.incidents.rules.causes import InjectedCause
from drlib.training.incidents.rules.moves import parse_move
from drlib.training.incidents.rules.score import EventKind, IncidentEvent, MoveRating
from drlib.training.incidents.team.debriefing import (
    DONE,
    FAILED,
    UNRECORDED,
    Action,
    Estimates,
    actions_of,
    estimates_of,
    ratings_of,
)
from drlib.training.incidents.team.pictures import debriefing_figure, debriefing_shown


def line(second: int, event: str, **data: str | int | bool) -> Line:
    return Line(0, f"2026-11-26T10:00:{second:02d}.000+00:00", event, data, "", "")


JOURNAL = (
    line(0, "started"),
    line(10, "begun", seat="Ana", move="restart-broker LEFT", estimate_s=5),
    line(12, "acted", seat="Bo", move="ask-broker LEFT"),
    line(18, "acted", seat="Ana", move="restart-broker LEFT"),
    line(19, "acted", seat="Bo", move="read-log mirror-1"),
    line(20, "acted", seat="Ana", move="ask-broker LEFT"),
    line(21, "symptom-gone", word="a site does not answer"),
    line(22, "symptom-gone", word="an application makes no progress"),
    line(30, "begun", seat="Bo", move="restart-mirror", estimate_s=10),
    line(33, "acted", seat="Bo", move="restart-mirror", failed=True),
    line(40, "begun", seat="Ana", move="heal-link LEFT", estimate_s=20),
    line(41, "begun", seat="Bo", move="stop-mirror", estimate_s=4),
    line(43, "acted", seat="Bo", move="stop-mirror"),
    line(59, "finished"),
)
ACTIONS = (
    Action(10.0, "Ana", "restart-broker LEFT", 5.0, 8.0, DONE, "a site does not answer", 11.0),
    Action(30.0, "Bo", "restart-mirror", 10.0, 3.0, FAILED),
    Action(40.0, "Ana", "heal-link LEFT", 20.0, None, UNRECORDED),
    Action(41.0, "Bo", "stop-mirror", 4.0, 2.0, DONE),
)


def test_actions_have_estimate_time_outcome_and_what_was_gone_next() -> None:
    assert actions_of(JOURNAL) == ACTIONS
    (unestimated,) = actions_of((line(0, "started"), line(1, "begun", seat="Ana", move="stop-mirror")))
    assert unestimated == Action(1.0, "Ana", "stop-mirror", None, None, UNRECORDED)
    assert [action.over_s for action in ACTIONS] == [3.0, -7.0, None, -2.0]


def test_estimates_are_compared_where_both_times_are_known() -> None:
    assert estimates_of(ACTIONS) == (Estimates("Ana", 1, 0, 1.6), Estimates("Bo", 2, 2, 0.4))
    exact = Action(0.0, "Ana", "stop-mirror", 4.0, 4.0, DONE)
    assert estimates_of((exact,)) == (Estimates("Ana", 1, 1, 1.0),)
    assert estimates_of((ACTIONS[2],)) == (Estimates("Ana", 0, 0, None),)


def test_ratings_are_of_actions_from_seats_and_of_the_causes_until_then() -> None:
    def acted(at_s: float, move: str, by: str = "Ana") -> IncidentEvent:
        return IncidentEvent(at_s, EventKind.ACTED, move=parse_move([move]), by=by)

    killed = IncidentEvent(2, EventKind.CAUSE_IN, cause=InjectedCause("broker-killed", "LEFT"))
    events = (
        acted(1, "restart-broker LEFT"),
        killed,
        acted(3, "acknowledge"),
        acted(4, "restart-broker LEFT", by=""),
        acted(5, "restart-broker LEFT"),
        acted(6, "delete-topic LEFT menus"),
    )
    assert ratings_of(events) == (MoveRating.WRONG, MoveRating.RIGHT, MoveRating.HARMFUL)


def test_debriefing_shows_each_action_with_its_own_rating() -> None:
    ratings = (MoveRating.RIGHT, MoveRating.WRONG, MoveRating.HARMFUL)
    shown = debriefing_shown(ACTIONS, estimates_of(ACTIONS), ratings)
    assert [row["rating"] for row in shown.rows] == ["right", "wrong", "", "harmful"]
    assert [row["took"] for row in shown.rows] == ["8.00 s", "3.00 s", "unknown", "2.00 s"]
    assert shown.rows[0]["symptom that was gone next"] == "a site does not answer, after 11.0 s"
    assert "Ana: 0 of 1 within the estimate, median 1.6 times the estimate" in shown.note
    labels = [note.text for note in debriefing_figure(ACTIONS).layout.annotations]
    assert labels[:3] == ["1. Ana: restart-broker LEFT", "estimated 5.00 s", "took 8.00 s"]
    assert "took unknown" in labels
    assert "nothing to compare" in repr(debriefing_shown((), (), ()))
