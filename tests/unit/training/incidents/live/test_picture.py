"""The live view as text, page and figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_text import HOSTILE, elements

from drlib.runs.table import PLOTLY
from drlib.training.incidents.live.picture import (
    MADE,
    LivePicture,
    clock_html,
    figure_of,
    headline,
    moves_html,
    text_of,
)
from drlib.training.incidents.live.state import Kind, LiveState, Made, Period, live_state
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.rules.seed import draw_plan
from drlib.training.incidents.rules.symptoms import Symptom

AT = 1_700_000_000_000
EMPTY = LiveState(AT, AT + 5_000, AT + 4_000, (), (), None, finished=False)
STATE = LiveState(
    AT,
    AT + 90_000,
    AT + 89_000,
    (Period(Symptom.SITE_SILENT, AT + 20_000, AT + 40_000), Period(Symptom.RECORDS_SKIPPED, AT + 25_000, None)),
    (
        Made(AT + 30_000, Kind.MOVE, "acknowledge", "recorded"),
        Made(AT + 31_000, Kind.FAILED, "restart-broker LEFT", "its port is taken"),
        Made(AT + 32_000, Kind.DIAGNOSIS, "diagnosis: wrong-acl", "recorded"),
    ),
    AT + 30_000,
    finished=False,
)


def test_text_has_clock_symptoms_and_moves() -> None:
    assert text_of(STATE).splitlines() == [
        "1 symptom, 22:14:50 UTC: 90 s since the start, first symptom 70 s ago, acknowledged 10 s after it",
        "symptom a site does not answer: gone after 20 s",
        "symptom a group has committed offsets behind records that it has not processed: for 64 s",
        "1 22:13:50 acknowledge: recorded",
        "2 22:13:51 restart-broker LEFT: failed: its port is taken",
        "3 22:13:52 diagnosis: wrong-acl: recorded",
    ]
    assert text_of(EMPTY) == "No symptoms, 22:13:25 UTC: 5.0 s since the start"


@pytest.mark.parametrize(
    ("seen_ms", "words"), [(None, "was never observed"), (AT + 60_000, "not observed since 22:14:20")]
)
def test_unobserved_lab_has_unknown_symptoms(seen_ms: int | None, words: str) -> None:
    state = LiveState(AT, AT + 90_000, seen_ms, STATE.periods, (), None, finished=False)
    assert headline(state) == "Symptoms unknown"
    assert words in text_of(state)
    assert "not acknowledged" in text_of(state)
    assert "unknown" in clock_html(state)
    assert any("(unknown)" in note.text for note in figure_of(state).layout.annotations)


def test_figure_draws_each_period_and_numbers_the_moves() -> None:
    figure = figure_of(STATE)
    moves, *periods = figure.data
    assert [row[0] for row in moves.customdata] == [1, 2, 3]
    assert list(moves.marker.symbol) == ["diamond", "x", "square"]
    assert [tuple(one.x) for one in periods] == [
        ("2023-11-14 22:13:45.000", "2023-11-14 22:14:49.000"),
        ("2023-11-14 22:13:40.000", "2023-11-14 22:14:00.000"),
    ]
    labels = [note.text for note in figure.layout.annotations]
    assert labels == [
        *("1", "2", "3"),
        "a group has committed offsets behind records<br>that it has not processed (present)",
        "a site does not answer (gone)",
    ]
    heights = [note.y for note in figure.layout.annotations[:3]]
    assert len(set(heights)) == 3, "numbers of one second do not cover each other"
    assert figure_of(EMPTY).layout.title.text == "<b>No symptoms</b>"
    assert set(LivePicture(STATE)._repr_mimebundle_()) == {"text/plain", "text/html", PLOTLY}


def test_long_list_of_moves_says_how_many_are_left_out() -> None:
    made = tuple(Made(AT + number, Kind.MOVE, "acknowledge", "recorded") for number in range(MADE + 3))
    page = moves_html(LiveState(AT, AT + 9, AT, (), made, None, finished=False))
    assert "and 3 rows more" in page
    assert f">{MADE + 3}</td>" in page, "the newest is there"
    assert 'data-of="no." class=n>1</td>' not in page


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_texts_from_outside_are_escaped(text: str) -> None:
    made = (Made(AT, Kind.FAILED, text, text),)
    state = LiveState(AT, AT + 9, AT, (Period(text, AT, None),), made, None, finished=False)
    plain = LiveState(
        AT, AT + 9, AT, (Period("x", AT, None),), (Made(AT, Kind.FAILED, "x", "x"),), None, finished=False
    )
    for page in (clock_html, moves_html):
        assert elements(page(state)) == elements(page(plain))
    assert len(text_of(state).splitlines()) == 3
    assert "<img" not in str(LivePicture(state)._repr_mimebundle_()[PLOTLY])


def test_picture_before_the_reveal_names_neither_cause_nor_level_nor_seed(tmp_path: Path) -> None:
    """The public journal has the seed, the level that was asked for, and the texts of hints, which come to the repair."""
    record, plan = IncidentRecord(tmp_path), draw_plan(1, 3)
    record.write(EventKind.STARTED, seed=1, level=3, sealed=record.seal_plan(plan), lab="lab", own_lab=True)
    (cause,) = plan.causes
    hints = [cause.render(hint) for hint in cause.definition.hints]
    record.write(EventKind.SYMPTOM, word=cause.definition.symptoms[0])
    for hint in hints:
        record.write(EventKind.HINTED, word=hint)
    shown = str(LivePicture(live_state(record.lines(), AT, AT))._repr_mimebundle_())
    assert cause.definition.symptoms[0] in shown
    for word in (cause.cause, cause.definition.title, *map(str, cause.repair), *hints, "level", "seed"):
        assert word not in shown
