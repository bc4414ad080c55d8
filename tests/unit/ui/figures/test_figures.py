"""The pictures show what was measured, and say what was not."""

from __future__ import annotations

import itertools
import subprocess
import sys

import plotly.graph_objects as go
import pytest
import sample_scorecard as sample
from hypothesis import given
from hypothesis import strategies as st

from drlib.runs.scorecard import Mark, Objectives, PartitionOffsets, RtoSeconds, Sample
from drlib.ui.figures.figures import (
    INK,
    MOST_PARTITIONS,
    ORANGE,
    PURPLE,
    SOFT,
    VERMILLION,
    blank,
    label,
    partitions_figure,
    rto_figure,
    square,
    traffic_figure,
)
from drlib.ui.layout import rows, spread


def said(figure: go.Figure) -> str:
    return " | ".join([figure.layout.title.text, *(note.text for note in figure.layout.annotations)])


def test_rto_figure_stacks_stages_in_order() -> None:
    figure = rto_figure(sample.scorecard())
    assert [trace.name for trace in figure.data] == ["detect", "decide", "act", "verify"]
    at = 0.0
    for trace in figure.data:
        assert trace.base == pytest.approx(at)
        at += trace.x[0]
    assert at == pytest.approx(8.145)
    assert [shape.x0 for shape in figure.layout.shapes] == [30]
    assert "inside the objective" in said(figure)


def test_rto_figure_states_a_missed_objective() -> None:
    assert "over the objective" in said(rto_figure(sample.scorecard(objectives=Objectives(rto_seconds=5))))


def test_rto_figure_stage_not_reached_is_unknown() -> None:
    figure = rto_figure(sample.scorecard(rto_seconds=RtoSeconds(detect=1.5, decide=0.1)))
    assert [trace.name for trace in figure.data] == ["detect", "decide"]
    assert "Recovery time: unknown" in said(figure)
    assert "act, verify: unknown" in said(figure)


def test_rto_figure_draws_stages_of_zero_length() -> None:
    figure = rto_figure(sample.scorecard(rto_seconds=RtoSeconds(detect=0, decide=0, act=0, verify=0, total=0)))
    assert len(figure.data) == 4
    assert "detect 0.000 s" in said(figure)


def test_traffic_figure_has_a_line_per_count_and_per_mark() -> None:
    figure = traffic_figure(sample.scorecard())
    assert [trace.name for trace in figure.data] == ["produced", "mirrored", "read by arrivals", "read by delays"]
    assert figure.data[0].x[0] == "2026-11-21 10:00:00.000"
    assert len(figure.layout.shapes) == 6
    assert "LEFT killed" in said(figure)
    assert "UTC" in figure.layout.xaxis.title.text


def test_traffic_figure_unsampled_group_has_a_gap() -> None:
    samples = (
        Sample(at_ms=1000, produced=5, mirrored=1, consumed={}),
        Sample(at_ms=2000, produced=9, mirrored=4, consumed={"g": 3}),
    )
    figure = traffic_figure(sample.scorecard(samples=samples, marks=()))
    assert figure.data[2].y == (None, 3)


def test_traffic_figure_includes_marks_outside_the_samples() -> None:
    card = sample.scorecard(marks=(Mark(name="late", at_ms=sample.START + 90_000),))
    assert traffic_figure(card).layout.xaxis.range[1] == "2026-11-21 10:01:30.000"


def test_partitions_figure_states_how_far_behind_each_is() -> None:
    figure = partitions_figure(sample.scorecard())
    assert [len(trace.x) for trace in figure.data] == [9, 9]
    assert "54 not mirrored" in said(figure)
    assert "all mirrored" in said(figure)


def test_partitions_figure_unknown_partition_has_no_bar() -> None:
    figure = partitions_figure(sample.unmeasured())
    assert figure.data[0].x == (None,)
    assert "source end: unknown" in said(figure)


def test_partitions_figure_of_many_shows_the_worst_and_a_count() -> None:
    many = tuple(
        PartitionOffsets(topic="t", partition=n, source_end=100, mirrored_to=100 - n, target_end=100, unmirrored=n)
        for n in range(60)
    )
    figure = partitions_figure(sample.scorecard(partitions=many))
    assert len(figure.data[0].y) == MOST_PARTITIONS
    assert f"{60 - MOST_PARTITIONS} more" in said(figure)
    assert figure.data[0].y[-1] == "t-59"


@pytest.mark.parametrize("draw", [rto_figure, traffic_figure])
def test_scorecard_figures_without_data_say_so(draw) -> None:  # type: ignore[no-untyped-def]
    figure = draw(sample.unmeasured())
    assert len(figure.data) == 0
    assert "No " in said(figure)


def test_figures_escape_names() -> None:
    hostile = Mark(name="<b>x</b>", at_ms=sample.START)
    assert "&lt;b&gt;x" in said(traffic_figure(sample.scorecard(marks=(hostile,))))


SPANS = st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 0.5)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)


@given(SPANS)
def test_label_rows_never_overlap(spans: list[tuple[float, float]]) -> None:
    placed = list(zip(rows(spans), spans, strict=True))
    for n, (row, (left, right)) in enumerate(placed):
        assert all(right <= a or left >= b for other, (a, b) in placed[:n] if other == row)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8))
def test_spread_labels_keep_distance_and_order(values: list[float]) -> None:
    moved = spread(values, 5, 100)
    assert max(moved) <= 100
    ordered = sorted(zip(values, moved, strict=True))
    heights = sorted(moved)
    assert all(b - a >= 5 - 1e-9 for a, b in itertools.pairwise(heights))
    assert all(a[1] <= b[1] for a, b in itertools.pairwise(ordered))


def luminance(colour: str) -> float:
    """The relative luminance of `#rrggbb`, by WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colour", sorted({VERMILLION, PURPLE, ORANGE, INK, SOFT}))
def test_label_text_is_dark_enough_whatever_it_names(colour: str) -> None:
    figure = blank("x", height=100)
    label(figure, "orders-0", 0, 0, colour=colour)
    (note,) = figure.layout.annotations
    assert 1.05 / (luminance(note.font.color) + 0.05) >= 4.5
    assert (square(colour) in note.text) is (colour not in (INK, SOFT))


WHILE_PANDAS_IS_IMPORTED = """
import importlib.machinery, sys, threading, time

began = threading.Event()
run = importlib.machinery.SourceFileLoader.exec_module

def slowly(loader, module):
    if module.__name__ == "pandas":
        began.set()
        time.sleep(1)
    run(loader, module)

importlib.machinery.SourceFileLoader.exec_module = slowly
importing = threading.Thread(target=__import__, args=("pandas",))
importing.start()
assert began.wait(30)
from drlib.ui.figures import figures
figure = figures.blank("any", height=100)
figure.add_bar(x=[1, 2], y=[3, 4])
print(len(figure.to_json()) > 0)
importing.join()
"""


def test_figure_is_made_while_another_thread_imports_pandas() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHILE_PANDAS_IS_IMPORTED], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
