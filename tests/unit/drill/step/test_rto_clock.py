"""Moments of a run, and the stages of the RTO between them."""

from pathlib import Path

import pytest

from drlib.drill.step import rto_clock as moments
from drlib.runs.scorecard import RtoSeconds


def test_rto_stages_are_counted_from_the_previous_moment_and_the_first_mark_counts(tmp_path: Path) -> None:
    moments.mark(tmp_path, "fault", 10_000)
    moments.mark(tmp_path, "fault", 99_000)
    moments.mark(tmp_path, "detect", 10_250)
    moments.mark(tmp_path, "act", 12_000)
    assert moments.seconds(tmp_path) == RtoSeconds(detect=0.25)
    moments.mark(tmp_path, "decide", 11_000)
    moments.mark(tmp_path, "verify", 15_500)
    assert moments.seconds(tmp_path) == RtoSeconds(detect=0.25, decide=0.75, act=1.0, verify=3.5, total=5.5)
    with pytest.raises(ValueError, match="no stage"):
        moments.mark(tmp_path, "celebrate")
