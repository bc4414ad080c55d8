"""Moments of a run, and the stages of the RTO between them."""

from pathlib import Path

import pytest

from drlib.drill.step import rto_clock as moments
from drlib.errors import UsageError
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


@pytest.mark.parametrize("content", [b"", b"-1", b"1e3", b"9" * 65, b"9" * 20, b"\xff", b"1 2"])
def test_rto_moment_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    moments.mark(tmp_path, "fault", 10_000)
    (tmp_path / moments.FOLDER / "fault").write_bytes(content)
    with pytest.raises(UsageError, match="cannot be used"):
        moments.at(tmp_path, "fault")
