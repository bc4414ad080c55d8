"""The lessons' figures: every line is labelled, and labels do not overlap."""

from __future__ import annotations

import pytest

from drlib.training.academy.pictures import BOTTOM, HEIGHT, LABEL, TOP, Line, bars, lines


def test_lines_labels_with_close_ends_are_moved_apart() -> None:
    figure = lines("t", [Line("ordinary", [0, 369], [0, 359]), Line("yours", [0, 359], [0, 359], marks=True)], "x", "y")
    low, high = sorted(note.y for note in figure.layout.annotations)
    bottom, top = figure.layout.yaxis.range
    assert (high - low) / (top - bottom) * (HEIGHT - TOP - BOTTOM) == pytest.approx(LABEL)
    assert high <= top
    assert [note.xref for note in figure.layout.annotations] == ["x domain"] * 2


def test_lines_single_point_is_labelled_at_its_place() -> None:
    figure = lines(
        "t", [Line("the line", [50, 6400], [8000, 8000]), Line("measured", [200], [890], marks=True)], "x", "y"
    )
    name = figure.layout.annotations[1]
    assert (name.xref, name.x, name.y) == ("x", 200, 890)
    assert "measured" in name.text


def test_lines_of_zeros_are_drawn() -> None:
    figure = lines("t", [Line("none yet", [0, 1], [0, 0])], "x", "y")
    assert tuple(figure.layout.yaxis.range) == (0, 1)


def test_figures_without_data_say_so() -> None:
    for figure in (lines("t", [Line("a", [], [])], "x", "y"), bars("t", ["a"], {"s": [0]}, "records")):
        assert "nothing yet" in figure.layout.annotations[0].text


def test_bars_empty_bar_is_labelled_with_0() -> None:
    (drawn,) = bars("t", ["tail", "quarantine"], {"orders": [12, 0]}, "orders").data
    assert tuple(drawn.text) == ("orders: 12", "orders: 0")
    assert tuple(drawn.textposition) == ("auto", "outside")
