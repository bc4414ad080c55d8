"""Moments of a run, and the stages of the RTO between them."""

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.drill.step import rto_clock as moments
from drlib.drill.step.rto_clock import STAGES, Moment
from drlib.errors import UsageError
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Objectives, Rpo, RtoSeconds
from drlib.runs.verdict import objective_checks


def test_rto_stages_are_counted_from_the_previous_moment_and_the_first_mark_counts(tmp_path: Path) -> None:
    moments.mark(tmp_path, "fault", 10_000)
    moments.mark(tmp_path, "fault", 99_000)
    moments.mark(tmp_path, "detect", 10_250)
    moments.mark(tmp_path, "act", 12_000)
    assert moments.seconds(tmp_path) == RtoSeconds(detect=0.25, why=moments.NOT_SERVED)
    moments.mark(tmp_path, "decide", 11_000)
    moments.mark(tmp_path, "verify", 15_500)
    assert moments.seconds(tmp_path) == RtoSeconds(detect=0.25, decide=0.75, act=1.0, verify=3.5, total=5.5)
    with pytest.raises(ValueError, match="no stage"):
        moments.mark(tmp_path, "celebrate")


def test_rto_without_a_moment_of_the_fault_is_not_measured(tmp_path: Path) -> None:
    moments.mark(tmp_path, "verify", 15_500)
    assert moments.seconds(tmp_path) == RtoSeconds(why=moments.NO_FAULT)


def test_rto_moment_keeps_its_machine_and_bounds(tmp_path: Path) -> None:
    moments.mark(tmp_path, "fault", moment=Moment(earliest_ms=9_000, latest_ms=9_400, basis="the mirror"))
    assert moments.at(tmp_path, "fault") == 9_000
    kept = Moment(earliest_ms=9_000, latest_ms=9_400, machine=socket.gethostname(), basis="the mirror")
    assert moments.moment_of(tmp_path, "fault") == kept


def test_rto_mirror_an_hour_ahead_uncorrected_is_not_measured() -> None:
    hour = 3_600_000
    marks = dict.fromkeys(STAGES) | {
        "fault": Moment(earliest_ms=hour, latest_ms=hour),
        "verify": Moment(earliest_ms=18_000, latest_ms=18_000),
    }
    rto = moments.between_stages(marks)
    assert (rto.total, rto.why) == (None, "clocks differ by at least 3582.000 s: recovery would be before the fault")
    (check,) = objective_checks(Objectives(rto_seconds=300), rto, Rpo())
    assert check.verdict is Verdict.UNKNOWN
    assert "clocks differ" in check.evidence


def test_rto_moments_of_two_machines_are_not_subtracted() -> None:
    marks = dict.fromkeys(STAGES) | {
        "fault": Moment(earliest_ms=1, latest_ms=1, machine="one"),
        "verify": Moment(earliest_ms=5_001, latest_ms=5_001, machine="two"),
    }
    rto = moments.between_stages(marks)
    assert rto.total is None
    assert "one" in rto.why
    assert "two" in rto.why


_TIMES = st.integers(0, 10**7)


@st.composite
def _moments(draw: st.DrawFn) -> Moment | None:
    if draw(st.integers(0, 5)) == 0:
        return None
    low = draw(_TIMES)
    return Moment(earliest_ms=low, latest_ms=low + draw(st.integers(0, 10_000)))


@given(st.fixed_dictionaries({stage: _moments() for stage in STAGES}), st.floats(0, 10_000))
def test_rto_is_never_negative_and_passes_by_its_worst_bound_only(
    marks: dict[str, Moment | None], objective: float
) -> None:
    rto = moments.between_stages(marks)
    figures = [rto.detect, rto.decide, rto.act, rto.verify, rto.total, rto.at_least]
    assert all(figure >= 0 for figure in figures if figure is not None)
    (check,) = objective_checks(Objectives(rto_seconds=objective), rto, Rpo())
    fault, verify = marks["fault"], marks["verify"]
    if check.verdict is Verdict.PASS:
        assert fault is not None
        assert verify is not None
        assert 0 <= verify.latest_ms - fault.earliest_ms <= objective * 1000 + 0.5
    if rto.at_least is not None and rto.total is not None and rto.at_least <= objective < rto.total:
        assert check.verdict is Verdict.UNKNOWN
    assert rto.total is not None or rto.why


@given(st.integers(-(10**7), 10**7), st.integers(0, 5_000), st.integers(0, 600_000))
def test_rto_corrected_by_a_measured_skew_contains_the_true_duration(skew_ms: int, half_ms: int, took_ms: int) -> None:
    """The fault was read on a clock that is `skew_ms` ahead, and the skew is known to within `half_ms`."""
    from drlib.drill.actions.failover.fault_moment import corrected
    from drlib.kafka.net.authorized_operations import Skew

    true_fault = 10**9
    fault = corrected(true_fault + skew_ms, Skew(skew_ms - half_ms, skew_ms + half_ms), "mirror")
    verify = Moment(earliest_ms=true_fault + took_ms, latest_ms=true_fault + took_ms)
    rto = moments.between_stages(dict.fromkeys(STAGES) | {"fault": fault, "verify": verify})
    assert rto.total is not None
    least = rto.total if rto.at_least is None else rto.at_least
    assert 0 <= least <= took_ms / 1000 <= rto.total


@pytest.mark.parametrize("content", [b"", b"-1", b"1e3", b"9" * 65, b"9" * 20, b"\xff", b"1 2"])
def test_rto_moment_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    moments.mark(tmp_path, "fault", 10_000)
    (tmp_path / moments.FOLDER / "fault").write_bytes(content)
    with pytest.raises(UsageError, match="cannot be used"):
        moments.at(tmp_path, "fault")


def test_rto_bounds_that_are_none_are_refused(tmp_path: Path) -> None:
    moments.mark(tmp_path, "fault", 10_000)
    (tmp_path / moments.FOLDER / ("fault" + moments.CLOCK)).write_text('{"earliest_ms": "soon"}')
    with pytest.raises(UsageError, match="cannot be used"):
        moments.seconds(tmp_path)


def test_source_silent_before_the_run_is_kept_once_and_on_this_machine_only(tmp_path: Path) -> None:
    assert moments.silent_since(tmp_path) is None
    moments.keep_silent(tmp_path, 5_000)
    moments.keep_silent(tmp_path, 9_000)  # the command, given again
    assert moments.silent_since(tmp_path) == 5_000
    path = tmp_path / moments.FOLDER / (moments.SILENT + moments.CLOCK)
    path.write_text(path.read_text().replace(socket.gethostname(), "another-machine"))
    assert moments.silent_since(tmp_path) is None
