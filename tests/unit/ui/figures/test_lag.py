"""The pictures of lag: what is drawn, and what is said where there is nothing to draw."""

from __future__ import annotations

import re
from dataclasses import replace
from math import log10

from drlib.analysis.lag.result import HourOfLatency, LagReport, Series
from drlib.analysis.lag.trend import Limits, Point, judge_lag
from drlib.model import Flow, TopicPartition
from drlib.runs.check import Verdict
from drlib.ui.figures.lag import MOST_TEXT, lag_figure, worst

BEGIN_S = 1_790_000_000.0
LIMITS = Limits(retention_s=86400, objective_s=30)


def series(partition: int, slope: float, *, group: str = "") -> Series:
    points = tuple(Point(BEGIN_S + 60 * n, int(slope * n), int(100 * slope * n), slope * n) for n in range(30))
    where = ("RIGHT", group, False) if group else ("LEFT", "LEFT->RIGHT", True)
    return Series(*where, TopicPartition("orders", partition), LIMITS, points, judge_lag(points, LIMITS))


def report(*found: Series, latencies: tuple[HourOfLatency, ...] = ()) -> LagReport:
    return LagReport(Flow("LEFT", "RIGHT"), 0, 1, found, latencies, (), ())


def texts_of(figure) -> list[str]:  # type: ignore[no-untyped-def]
    """The annotations without the square that shows a line's colour."""
    return [re.sub('^<span style="color:#[0-9A-F]{6}">■</span> ', "", a.text) for a in figure.layout.annotations]


def test_lag_figure_names_lines_at_their_end_and_draws_limits() -> None:
    figure = lag_figure(report(series(0, 20.0), series(1, 0.0), series(2, 1.0, group="billing")))
    texts = texts_of(figure)
    assert "orders-0: 9.67 min, 580 records" in texts
    assert "orders-1: nothing behind" in texts
    assert not any("billing" in text for text in texts)
    assert "objective 30 s" in texts
    assert "retention 24 h of orders" in texts
    assert [shape.y0 for shape in figure.layout.shapes] == [30, 86400]
    low, high = figure.layout.yaxis.range
    assert low < log10(0.1)
    assert high > log10(86400)
    assert len({trace.line.dash for trace in figure.data}) == 2
    assert not figure.layout.showlegend
    assert "UTC" in figure.layout.xaxis.title.text
    named = [a for a in figure.layout.annotations if "orders-" in a.text and "retention" not in a.text]
    assert abs(named[0].y - named[1].y) > 0.1  # none covers another


def test_lag_figure_names_groups_with_their_cluster() -> None:
    figure = lag_figure(report(series(0, 20.0), series(2, 1.0, group="billing")), groups=True)
    assert len(figure.data) == 1
    assert any(text.startswith("billing on RIGHT, orders-2: 29 s") for text in texts_of(figure))


def test_lag_figure_says_how_far_behind_a_line_of_any_name_is() -> None:
    long = "settlement-and-reconciliation.of-the-european-branches.v2"
    figure = lag_figure(report(series(2, 1.0, group=long)), groups=True)
    (text,) = [text for text in texts_of(figure) if "orders-2" in text and "retention" not in text]
    assert len(text) <= MOST_TEXT
    assert text.startswith("settlement")
    assert text.endswith("orders-2: 29 s, 29 records")
    assert figure.layout.margin.r >= len(text) * 6.6


def test_lag_figure_draws_only_the_worst() -> None:
    many = [series(n, float(n)) for n in range(20)]
    assert [one.partition.partition for one in worst(many)] == [19, 18, 17, 16, 15, 14]
    assert len(lag_figure(report(*many)).data) == 6


def test_lag_figure_without_data_says_so() -> None:
    assert "No lag was measured" in lag_figure(report()).layout.annotations[0].text


def test_lag_report_verdict_is_that_of_its_worst_part() -> None:
    fine = series(0, 0.0)
    assert report(fine).verdict is Verdict.PASS
    assert report(fine, series(1, 60.0)).verdict is Verdict.FAIL
    assert report().verdict is Verdict.UNKNOWN
    noted = LagReport(Flow("LEFT", "RIGHT"), 0, 1, (fine,), (), (), ("groups on RIGHT: away",))
    assert noted.verdict is Verdict.UNKNOWN


def test_lag_range_is_written_with_both_ends() -> None:
    most = series(0, 1.0)
    bounded = replace(most, lower_bound=Point(most.points[-1].at_s, 3, 300, 2.0))
    figure = lag_figure(report(bounded))
    assert "at most, from MirrorMaker 2's offset syncs" in figure.layout.title.text
    assert "orders-0: 3 to 29 records, at most 29 s" in texts_of(figure)
    assert "at most" not in lag_figure(report(most)).layout.title.text


def test_lag_figure_draws_both_ends_of_a_range() -> None:
    most = series(0, 1.0)
    certain = (Point(most.points[-2].at_s, 0, 0, 0.0), Point(most.points[-1].at_s, 3, 300, 2.0))
    figure = lag_figure(report(replace(most, lower_bound=certain[-1], lower_bounds=certain)))
    assert "at most (thick) and for certain (thin), from MirrorMaker 2's offset syncs" in figure.layout.title.text
    upper, lower = figure.data
    assert (upper.line.color, upper.line.width, lower.line.width) == (lower.line.color, 2, 1)
    assert list(lower.y) == [0.1, 2.0]
    assert lower.x[-1] == upper.x[-1]
