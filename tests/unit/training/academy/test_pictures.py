"""The lessons' figures: every line is labelled, and labels do not overlap."""

from __future__ import annotations

import pytest

from drlib.training.academy.pictures import BOTTOM, HEIGHT, LABEL, TOP, Line, Span, Stretch, bars, lines, logs


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
    empty = (
        lines("t", [Line("a", [], [])], "x", "y"),
        bars("t", ["a"], {"s": [0]}, "records"),
        logs("t", {"LEFT": [], "RIGHT": []}, "orders", "written on", "read again"),
    )
    for figure in empty:
        assert "nothing yet" in figure.layout.annotations[0].text


def test_bars_empty_bar_is_labelled_with_0() -> None:
    (drawn,) = bars("t", ["tail", "quarantine"], {"orders": [12, 0]}, "orders").data
    assert tuple(drawn.text) == ("orders: 12", "orders: 0")
    assert tuple(drawn.textposition) == ("inside", "outside")


def test_logs_stretches_lie_in_their_order_and_say_in_words_what_hatching_and_colours_mean() -> None:
    drawn = {"LEFT": [Stretch("0–9", 10, "LEFT"), Stretch("100–104", 5, "RIGHT", marked=True)], "RIGHT": []}
    figure = logs("t", drawn, "orders", "first written on", "read again")
    assert [(bar.x[0], bar.text[0], bar.marker.pattern.shape) for bar in figure.data] == [
        (10, "0–9", ""),
        (5, "100–104, again", "/"),
    ]
    title = figure.layout.xaxis.title.text
    assert "first written on LEFT" in title
    assert "first written on RIGHT" in title
    assert "hatched: read again" in title
    assert len({bar.marker.color for bar in figure.data}) == 2
    plain = logs("t", {"LEFT": drawn["LEFT"][:1]}, "orders", "first written on", "read again")
    assert "hatched" not in plain.layout.xaxis.title.text


def test_bars_parts_have_letters_that_the_axis_explains_with_the_numbers_of_narrow_ones() -> None:
    parts = {
        "before the fault": [334, 333],
        "by the killed worker": [12, 0],
        "by the new worker": [654, 667],
        "none": [0, 0],
    }
    figure = bars("t", ["p0", "p1"], parts, "records", stacked=True)
    assert [tuple(bar.text) for bar in figure.data[:3]] == [("a 334", "a 333"), ("", ""), ("c 654", "c 667")]
    title = figure.layout.xaxis.title.text
    assert "a before the fault" in title
    assert "b by the killed worker: 12, 0" in title
    assert "before the fault:" not in title
    assert "none" not in title
    assert figure.layout.barmode == "stack"


def test_lines_spans_are_shaded_and_named() -> None:
    figure = lines("t", [Line("all", [0, 10], [0, 5])], "s", "records", spans=[Span("link cut for 4 s", 2, 6)])
    (shade,) = figure.layout.shapes
    assert (shade.x0, shade.x1) == (2, 6)
    (name,) = [note for note in figure.layout.annotations if "link cut for 4 s" in note.text]
    assert (name.x, name.yref) == (2, "y domain")
