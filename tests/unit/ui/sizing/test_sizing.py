"""Sizing shown: sentences, tables and pictures, of what is predicted and of what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib import Sizing
from drlib.errors import UsageError
from drlib.lab.link.sizing import KIB, MIB, LinkSpec, ours, sequential
from drlib.lab.link_trial import Measured
from drlib.runs.scorecard import Scorecard
from drlib.ui.sizing.measurements import Tried
from drlib.ui.sizing.sizing import Trial

LINK = LinkSpec(20e6, 0.1)
TRIED = Tried(
    LINK,
    (
        Measured(1.4e6, clients=1, request=256 * KIB),
        Measured(5.0e6, clients=4, request=256 * KIB),
        Measured(18.5e6, workers=1, lanes=2),
        Measured(19.0e6, workers=2, lanes=4),
    ),
)


def test_sizing_flow_that_fits_passes() -> None:
    sizing = Sizing("5MB/s", "200ms", "1Gb/s", 12)
    text = repr(sizing.link())
    assert "1 MiB" in text
    assert "5.03 MB/s" in text
    assert "enough" in text
    assert "256MiB" in repr(sizing.needs())
    assert "outlasts 7 d" in repr(sizing.after_outages())


def test_sizing_flow_that_does_not_fit_says_when_records_are_lost() -> None:
    sizing = Sizing("200MB/s", "200ms", "1Gb/s", 12, retention="24h", outages=("48h",))
    text = repr(sizing.link()) + repr(sizing.after_outages())
    assert "Not enough" in text
    assert "none can" in text
    assert "never" in text
    assert "nothing" in text  # is left by retention
    assert "loses records after" in text
    assert "Never" in sizing.outage_figure().layout.annotations[0].text


@pytest.mark.parametrize(
    ("rate", "rtt", "bandwidth"),
    [("5", "1ms", "1Gb/s"), ("5MB/s", "1", "1Gb/s"), ("5MB/s", "1ms", "0Gb/s"), ("5MB/s", "1ms", "fast")],
)
def test_sizing_malformed_link_is_refused(rate: str, rtt: str, bandwidth: str) -> None:
    with pytest.raises(UsageError):
        Sizing(rate, rtt, bandwidth, 12)


def test_throughput_figure_draws_predictions_as_lines_and_measurements_as_marks() -> None:
    figure = Trial(TRIED).figure()
    marks = [trace for trace in figure.data if "markers" in trace.mode]
    assert (list(marks[0].x), list(marks[0].y)) == ([256 * KIB], [1.4])
    assert marks[1].y[0] == 19.0
    assert list(marks[0].text) == ["1.4"]
    curve = figure.data[0]
    at = dict(zip(curve.x, curve.y, strict=True))
    assert at[MIB] == pytest.approx(sequential(LINK, MIB) / 1e6)
    text = " ".join(annotation.text for annotation in figure.layout.annotations)
    assert "waits for each answer" in text
    assert "drlib mirror" in text
    assert not figure.layout.showlegend


def test_workers_figure_shows_measurements_beside_predictions() -> None:
    trial = Trial(TRIED)
    bars = trial.workers_figure().data[0]
    assert list(bars.x) == ["1 worker, 2 lanes", "2 workers, 4 lanes"]
    assert list(bars.y) == [18.5, 19.0]
    shapes = trial.workers_figure().layout.shapes
    assert [shape.y0 for shape in shapes] == [ours(LINK, workers)[0] / 1e6 for workers in (1, 2)]
    text = repr(trial.workers()) + repr(trial.link())
    assert "18.5 MB/s" in text
    assert "1.4 MB/s" in text


def test_workers_figure_without_measurements_says_so() -> None:
    figure = Trial(Tried(LINK, ())).workers_figure()
    assert "Nothing was measured" in figure.layout.annotations[0].text


def test_sizing_checks_judge_link_outage_and_measurement(tmp_path: Path) -> None:
    link = LinkSpec(20e6, 0.1)
    slow = Trial(
        Tried(link, (Measured(sequential(link, MIB) * 0.9, clients=1, request=MIB), Measured(1e3, workers=1, lanes=1)))
    )
    sizing = Sizing("5MB/s", "200ms", "1Gb/s", 12, retention="24h")
    assert "Verdict: unknown" in repr(sizing.conclude(tmp_path, slow, "6h"))  # of the measurement nothing is proven
    card = Scorecard.read(tmp_path / "scorecard.json")
    assert [(c.name, c.verdict.value) for c in card.checks] == [
        ("the link carries the flow", "pass"),
        ("an outage of 6 h loses nothing", "pass"),
        ("clients that wait reach at least 50% of what was predicted", "pass"),
        ("drlib mirror reaches at least 50% of what was predicted", "unknown"),
    ]
    fine = Trial(Tried(link, (Measured(ours(link, 1)[0], workers=1, lanes=1),)))
    assert "Verdict: pass" in repr(sizing.conclude("", fine, "6h"))
    assert "Verdict: fail" in repr(sizing.conclude("", fine, "48h"))
    assert "Verdict: fail" in repr(Sizing("200MB/s", "200ms", "1Gb/s", 12).conclude("", fine, "1h"))
