"""The form of the live view: what it offers, and what its buttons call."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from drlib.training.incidents.lab.testbed import GATES, LOADERS, ON_LEFT, PRODUCERS, READERS, VOUCHERS
from drlib.training.incidents.live.form import (
    ESTIMATES,
    MOST_PARAMETERS,
    OFFERED,
    Known,
    call_text,
    cell_button,
    known_of,
    meaning,
    options_of,
    parameters_of,
)
from drlib.training.incidents.rules.causes import CAUSES, InjectedCause
from drlib.training.incidents.rules.moves import MOVES, Move, parse_move
from drlib.training.incidents.rules.symptoms import (
    ApplicationObservation,
    GroupObservation,
    Observation,
    TopicObservation,
)

KNOWN = Known(
    tuple(topic.name for topic in (*ON_LEFT, VOUCHERS)), tuple(READERS), (*PRODUCERS, *READERS, GATES.name, *LOADERS)
)
REPAIRS = sorted(
    {
        move
        for cause in CAUSES.values()
        for where in cause.wheres
        for how in cause.hows
        for move in InjectedCause(cause.name, where, how).repair
    },
    key=str,
)


def test_every_move_of_the_table_is_offered_with_a_meaning() -> None:
    assert set(MOVES) < set(OFFERED)
    assert all(meaning(name) for name in OFFERED)
    assert "the reveal says" in meaning("diagnose")
    assert meaning("hint") == "costs 5 points"
    assert ESTIMATES == (5, 10, 20, 30, 60, 120, 300, 600)
    assert all(len(parameters_of(name)) <= MOST_PARAMETERS for name in OFFERED)


@pytest.mark.parametrize("name", OFFERED)
def test_every_choice_of_a_move_is_one_that_it_takes(name: str) -> None:
    chosen = [options_of(name, parameter, KNOWN) for parameter in parameters_of(name)]
    assert all(chosen), "an empty list cannot be chosen from"
    if name in MOVES:
        for number, options in enumerate(chosen):
            for option in options:
                arguments = [each[0] for each in chosen]
                arguments[number] = option
                assert parse_move([name, *arguments]) == Move(name, tuple(arguments))


@pytest.mark.parametrize("move", REPAIRS, ids=str)
def test_every_repair_can_be_chosen(move: Move) -> None:
    """For how many seconds is the operator's choice, and an application of the fault's own is in the status."""
    for parameter, argument in zip(parameters_of(move.name), move.arguments, strict=True):
        if parameter not in ("SECONDS", "NAME"):
            assert argument in options_of(move.name, parameter, KNOWN)


def test_known_names_are_those_of_the_newest_observation() -> None:
    newest = Observation(
        2,
        (),
        (TopicObservation("menus", 1, 1, 0),),
        (ApplicationObservation("gates", "working", "LEFT", 3),),
        (GroupObservation("billing", 1, 1),),
        True,
        (),
    )
    older = Observation(1, (), (), (), (), True, ())
    assert known_of((older, newest)) == Known(("menus",), ("billing",), ("gates",))
    assert known_of(()) == Known()


def test_call_text_is_what_the_notebook_would_say() -> None:
    assert call_text("incident", "restart-broker", ("LEFT",)) == 'incident.act("restart-broker LEFT")'
    assert call_text("mine", "diagnose", ("wrong-acl",)) == 'mine.diagnose("wrong-acl")'
    assert call_text("incident", "hint", ()) == "incident.hint(take=True)"


def test_cell_button_gives_jupyterlab_the_whole_text() -> None:
    text = call_text("incident", "remove-acl", ("RIGHT", "<img src=x onerror='alert(1)'>\"&quot;"))
    button = cell_button(text)
    assert "<img" not in button
    found = re.search(r'data-commandlinker-args="([^"]*)"', button)
    assert found is not None
    arguments = json.loads(unescape(found.group(1)))
    assert arguments["args"] == {"text": text}
    assert arguments["commands"] == ["notebook:insert-cell-below", "notebook:replace-selection"]
