"""The live view's widgets: drawn when something changed, moves carried out and answered in place."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from deadline import Deadline

from drlib.errors import UsageError
from drlib.runs.table import PLOTLY
from drlib.training.incidents.live.form import Known
from drlib.training.incidents.live.state import Kind, LiveState, Made
from drlib.training.incidents.live.widget import LiveWidget

AT = 1_700_000_000_000
STATE = LiveState(AT, AT + 5_000, AT + 4_000, (), (), None, finished=False)
KNOWN = Known(("flights", "bookings"), ("billing",), ("gates",))


class Incident:
    """An incident's answers, as the widget asks for them."""

    def __init__(self) -> None:
        self.state = STATE
        self.known = KNOWN
        self.made: list[tuple[str, tuple[str, ...]]] = []
        self.estimates: list[int | None] = []
        self.gate = threading.Event()
        self.gate.set()
        self.refusal: Exception | None = None

    def make(self, name: str, arguments: tuple[str, ...], estimate_s: int | None) -> str:
        self.gate.wait(5)
        if self.refusal is not None:
            raise self.refusal
        self.made.append((name, arguments))
        self.estimates.append(estimate_s)
        return "done <so>"


@pytest.fixture
def incident() -> Incident:
    return Incident()


@pytest.fixture
def widget(incident: Incident) -> Iterator[LiveWidget]:
    found = LiveWidget(lambda: incident.state, lambda: incident.known, incident.make, "incident")
    yield found
    incident.gate.set()
    found.close()


def until(holds: Callable[[], object]) -> None:
    deadline = Deadline(10)
    while not holds():
        assert not deadline.passed
        time.sleep(0.01)


def test_figure_is_sent_again_only_when_something_happened(widget: LiveWidget, incident: Incident) -> None:
    widget.draw()
    first = widget.figure.outputs
    assert PLOTLY in first[0]["data"]
    incident.state = replace(STATE, now_ms=AT + 6_000)
    widget.draw()
    assert widget.figure.outputs is first
    assert "6.0 s since the start" in widget.clock.value, "the clock goes on"
    incident.state = replace(STATE, made=(Made(AT + 6_000, Kind.MOVE, "acknowledge", "recorded"),))
    widget.draw()
    assert widget.figure.outputs is not first
    assert "acknowledge" in widget.moves.value


def test_move_is_chosen_from_lists_and_both_buttons_have_it(widget: LiveWidget, incident: Incident) -> None:
    widget.draw()
    widget.move.value = "remove-acl"
    assert [one.layout.display for one in widget.lists] == ["flex", "flex", "none"]
    widget.lists[0].value, widget.lists[1].value = "RIGHT", "LEFT.bookings"
    assert "remove-acl RIGHT LEFT.bookings" in widget.cell.value
    assert "remove-acl RIGHT LEFT.bookings" in widget.call.value
    widget.make_it.click()
    until(lambda: "done &lt;so&gt;" in widget.said.value)
    assert incident.made == [("remove-acl", ("RIGHT", "LEFT.bookings"))]


def test_choice_stays_while_names_are_added(widget: LiveWidget, incident: Incident) -> None:
    widget.draw()
    widget.move.value = "stop-application"
    incident.known = replace(KNOWN, applications=("gates", "intruder"))
    widget.lists[0].value = "gates"
    widget.draw()
    assert widget.lists[0].options == ("gates", "intruder")
    assert widget.lists[0].value == "gates"


def test_click_is_answered_before_the_move_is_carried_out(widget: LiveWidget, incident: Incident) -> None:
    incident.gate.clear()
    widget.make_it.click()
    assert "acknowledge: under way" in widget.said.value
    assert incident.made == []
    incident.gate.set()
    until(lambda: incident.made == [("acknowledge", ())])


def test_refused_move_says_what_why_and_what_to_do(widget: LiveWidget, incident: Incident) -> None:
    incident.refusal = UsageError("this incident is over", "it was finished", "Start another.")
    widget.make_it.click()
    until(lambda: "<b>this incident is over</b>: it was finished. Start another." in widget.said.value)
    assert 'role="alert"' in widget.said.value


def test_finished_incident_ends_the_threads_and_the_form(widget: LiveWidget, incident: Incident) -> None:
    widget.start()
    assert any(one.name == "drlib-incident-draw" for one in threading.enumerate())
    incident.state = replace(STATE, finished=True)
    until(lambda: not any(one.name == "drlib-incident-draw" for one in threading.enumerate()))
    assert widget.make_it.disabled
    assert widget.cell.value == ""
    assert "finished" in widget.clock.value


def test_failed_look_is_shown_and_the_view_continues(incident: Incident) -> None:
    answers: list[Exception] = []

    def look() -> LiveState:
        if answers:
            raise answers[0]
        return incident.state

    widget = LiveWidget(look, lambda: KNOWN, incident.make, "incident")
    widget.start()
    try:
        answers.append(UsageError("no incident in run-1", "it has no journal", "Start one."))
        until(lambda: "it has no journal" in widget.said.value)
        answers.clear()
        incident.state = replace(STATE, now_ms=AT + 8_000)
        until(lambda: "8.0 s since the start" in widget.clock.value)
    finally:
        widget.close()
    assert "This view is closed" in widget.said.value
    widget.make_it.click()
    assert "this view is closed" in widget.said.value


def test_team_states_an_estimate_for_moves_that_change_something(incident: Incident) -> None:
    widget = LiveWidget(lambda: incident.state, lambda: incident.known, incident.make, "mine", estimates=True)
    try:
        widget.draw()
        assert widget.estimate.layout.display == "none", "to acknowledge changes nothing"
        widget.move.value = "restart-broker"
        assert widget.estimate.layout.display == "flex"
        widget.estimate.value = 60
        assert "mine.act(&quot;restart-broker LEFT&quot;, estimate_s=60)" in widget.call.value
        widget.make_it.click()
        until(lambda: incident.estimates == [60])
    finally:
        widget.close()
