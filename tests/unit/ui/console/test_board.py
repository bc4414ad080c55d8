"""The board of a drill: where the steps are, by the journal, and a picture that says it in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from hostile_text import HOSTILE, elements

from drlib.drill.plan.plan import Call, Change, Drill, Mode, Plan, Step, StepPlan
from drlib.drill.plan.progress import Noted
from drlib.drill.run.approvals import Approvals
from drlib.drill.session.board import BoardState, Stand, Waits, steps_of, waits_of
from drlib.drill.session.session import DrillSession
from drlib.lab.environment import MOVES, Banner, Environment
from drlib.mirror.monitor.survey import GroupStatus, Survey
from drlib.model import Flow
from drlib.runs.journal import Line, Scalar
from drlib.ui.console.board import LEAST_S, SUBSHELL_S, LiveBoard, Picture

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
STEPS = tuple(Step(name=n, title=f"Step <{n}>", action=Call("x")) for n in ("one", "two", "three"))
DRILL = Drill(name="d", flow=Flow("A", "B"), mode=Mode.PLANNED, steps=STEPS)


def line(second: float, event: Noted, **data: Scalar) -> Line:
    return Line(0, (START + timedelta(seconds=second)).isoformat(), event, data, "", "")


def test_board_steps_have_the_state_and_time_of_their_last_line() -> None:
    lines = [
        line(0, Noted.RUN_STARTED),
        line(1, Noted.STEP_STARTED, step="one"),
        line(3.5, Noted.STEP_SUCCEEDED, step="one"),
        line(4, Noted.STEP_STARTED, step="two"),
    ]
    now = START + timedelta(seconds=10)
    found = [(s.name, s.stand, s.seconds) for s in steps_of(DRILL, lines, now)]
    assert found == [("one", Stand.DONE, 2.5), ("two", Stand.RUNNING, 6.0), ("three", Stand.WAITING, None)]
    lines += [
        line(11, Noted.STEP_FAILED, step="two", error="no"),
        line(12, Noted.UNDO_STARTED, step="one"),
        line(13, Noted.UNDO_SUCCEEDED, step="one"),
    ]
    found = [(s.name, s.stand, s.seconds) for s in steps_of(DRILL, lines, now)]
    assert found[:2] == [("one", Stand.UNDONE, 2.5), ("two", Stand.FAILED, 7.0)]


def test_board_step_that_ended_is_not_shown_as_running() -> None:
    began = [line(0, Noted.RUN_STARTED), line(1, Noted.STEP_STARTED, step="one")]
    hour = START + timedelta(hours=1)

    def first(*more: Line, alive: bool = True) -> tuple[Stand, float | None]:
        step = steps_of(DRILL, [*began, *more], hour, alive=alive)[0]
        return step.stand, step.seconds

    asked = line(6, Noted.ABORT_REQUESTED, detail="you")
    undoing = (line(7, Noted.PROBED, step="one", detail="partly"), line(8, Noted.UNDO_STARTED, step="one"))
    assert first() == (Stand.RUNNING, 3599.0)
    assert first(asked) == (Stand.STOPPED, 5.0), "an abort ends it, without a line of its own"
    assert first(asked, *undoing) == (Stand.UNDOING, 5.0)
    assert first(asked, *undoing, alive=False) == (Stand.STOPPED, 5.0), "its process died while it was undone"
    assert first(asked, *undoing, line(9, Noted.UNDO_SUCCEEDED, step="one")) == (Stand.UNDONE, 5.0)
    assert first(line(4, Noted.RUN_ENDED)) == (Stand.STOPPED, 3.0)
    assert first(alive=False) == (Stand.STOPPED, 0.0), (
        "its process was killed: how long it ran is known up to its last line"
    )
    again = (line(20, Noted.RUN_RESUMED), line(21, Noted.STEP_STARTED, step="one"))
    assert first(asked, line(8, Noted.RUN_ENDED), *again) == (Stand.RUNNING, 3579.0)


def test_board_picture_uses_words_and_escapes_input() -> None:
    survey = Survey("A->B", 0, 1, source_error="<gone>", groups=(GroupStatus("g<1>", 2, 1234, 3, 1, 0, 5),))
    state = BoardState(DRILL, steps_of(DRILL, (), START), survey, "", "look & see")
    bundle = Picture(state)._repr_mimebundle_()
    assert "0 of 3 steps" in bundle["text/plain"]
    assert "one: waiting" in bundle["text/plain"]
    assert "group g<1>: lag 1,234 records; positions 3 exact, 1 behind, 0 not translatable" in bundle["text/plain"]
    assert "lag unknown" in bundle["text/plain"]
    again = replace(survey, groups=(GroupStatus("g", 2, 0, 1, 0, 1, 5, bounded=1, bounded_records=5),))
    said = Picture(replace(state, survey=again))._repr_mimebundle_()["text/plain"]
    assert "positions 1 exact, 0 behind, 1 with records read again, 0 not translatable" in said
    assert "Step &lt;one&gt;" in bundle["text/html"]
    assert "g&lt;1&gt;" in bundle["text/html"]
    assert "&lt;gone&gt;" in bundle["text/html"]
    assert "look &amp; see" in bundle["text/html"]
    assert "<gone>" not in bundle["text/html"]
    why = "this host cannot use it: broker h:1 can't be used: it refused the login"
    refused = Picture(replace(state, survey=replace(survey, source_error=why)))._repr_mimebundle_()["text/plain"]
    assert "this host cannot use it" in refused
    assert "does not answer" not in refused


def test_board_waiting_step_shows_its_changes_and_how_to_approve() -> None:
    steps = tuple(replace(step, approval=step.name != "one") for step in STEPS)
    planned = [StepPlan(s.name, (), (Change(f"entity <{s.name}>", None, "held"),)) for s in steps]
    plan = Plan(replace(DRILL, steps=steps), tuple(planned))
    assert waits_of(plan, (), (), Approvals()) == Waits(
        "two", "Step <two>", ("entity <two>: not there -> held",), ("three",), plan=plan.hash
    )
    assert (
        waits_of(plan, [line(1, Noted.APPROVED, step="two"), line(2, Noted.APPROVED, step="three")], (), Approvals())
        is None
    )
    waits = waits_of(plan, [line(1, Noted.APPROVED, step="two")], (), Approvals())
    assert waits == Waits("three", "Step <three>", ("entity <three>: not there -> held",), plan=plan.hash)
    text = Picture(BoardState(DRILL, (), note="an error", waits=waits))._repr_mimebundle_()
    assert (
        f"three (Step <three>) waits for approval: press the button, or put a line 'three of {plan.hash}' into approved "
        "in the run's folder." in text["text/plain"]
    )
    assert "It changes entity &lt;three&gt;: not there -&gt; held." in text["text/html"]
    assert "an error" not in text["text/plain"]  # it says the same
    refused = waits_of(plan, [line(1, Noted.APPROVED, step="two")], (), Approvals(refused=("line 1 names <no> plan",)))
    shown = Picture(BoardState(DRILL, (), waits=refused))._repr_mimebundle_()["text/html"]
    assert "Not approved by what is there: line 1 names &lt;no&gt; plan." in shown
    given = waits_of(plan, [line(1, Noted.APPROVED, step="two")], (), Approvals({"three": "Ada <3"}))
    assert (
        "three was approved by Ada &lt;3"
        in Picture(BoardState(DRILL, (), waits=given))._repr_mimebundle_()["text/html"]
    )


def test_board_is_drawn_at_most_four_times_a_second_and_at_the_end() -> None:
    drawn: list[Picture] = []
    moment = [0.0]

    class Handle:
        def update(self, picture: Picture) -> None:
            drawn.append(picture)

    board = LiveBoard(clock=lambda: moment[0])
    state = BoardState(DRILL, ())
    board.update(lambda: state)
    assert drawn == []  # not opened: there is nowhere to draw
    board._handle = Handle()
    for _ in range(1000):
        moment[0] += 0.01
        board.update(lambda: state)
    assert 10 / LEAST_S * 0.8 <= len(drawn) <= 10 / LEAST_S
    before = len(drawn)
    board.redraw(state)
    assert len(drawn) == before + 1


@pytest.mark.parametrize(
    ("asked_at", "answered"), [(0.0, True), (5.0, True), (SUBSHELL_S + 1, False), (float("inf"), False)]
)
def test_board_answers_once_the_front_end_has_received_the_buttons(asked_at: float, answered: bool) -> None:
    moment = [0.0]

    def sleep(seconds: float) -> None:
        moment[0] += seconds

    board = LiveBoard(lambda: moment[0], lambda: True, lambda: moment[0] >= asked_at, sleep=sleep)
    assert not board.answers()  # not opened
    board.open(BoardState(DRILL, ()), cast(DrillSession, None))
    assert board.answers() is answered
    assert moment[0] == pytest.approx(min(asked_at, SUBSHELL_S), abs=LEAST_S)
    waited = moment[0]
    assert board.answers() is answered
    assert moment[0] == waited  # only once


def test_board_on_a_closed_page_does_not_wait_for_its_front_end() -> None:
    board = LiveBoard(attended=lambda: True, answered=lambda: False, present=lambda: False)
    board.open(BoardState(DRILL, ()), cast(DrillSession, None))
    assert not board.answers()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_board_of_any_text_has_the_same_elements(text: str) -> None:
    def page(word: str) -> str:
        steps = tuple(Step(name=n, title=f"{n}{word}", action=Call("x")) for n in ("one", "two"))
        drill = Drill(name=f"d{word}", flow=Flow("A", "B"), mode=Mode.PLANNED, steps=steps)
        survey = Survey("A->B", 0, 1, source_error=f"e{word}", groups=(GroupStatus(f"g{word}", 2, 1, 3, 1, 0, 5),))
        state = BoardState(drill, steps_of(drill, (), START), survey, f"u{word}", f"n{word}")
        return str(Picture(state)._repr_mimebundle_()["text/html"])

    assert elements(page(text)) == elements(page("plain"))


def test_board_banner_comes_first_in_words() -> None:
    banner = Banner(Environment.PRODUCTION, "A->B", MOVES)
    shown = Picture(BoardState(DRILL, steps_of(DRILL, (), START), banner=banner))._repr_mimebundle_()
    assert shown["text/plain"].startswith("PRODUCTION  flow A->B, clusters A and B: real applications move.")
    assert shown["text/html"].index(banner.html()) < shown["text/html"].index("0 of 3 steps")
