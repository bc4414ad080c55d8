"""Time to catch up against time left, on literal numbers and on many."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.status.forecast import (
    Outlook,
    Retention,
    Sample,
    TimeLeft,
    burn,
    copied_per_s,
    eta_s,
    forecast,
    oldest_unmirrored_ms,
    outlook,
    rates,
    retention_of,
    threshold_s,
    time_left,
    warn,
)

NOW = 1_700_000_000_000
HOUR, DAY = 3600.0, 86_400.0


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"},
            Retention(604_800_000, -1),
        ),
        ({"cleanup.policy": "compact", "retention.ms": "1000", "retention.bytes": "5"}, Retention()),
        ({"cleanup.policy": "compact, delete", "retention.ms": "1000", "retention.bytes": "5"}, Retention(1000, 5)),
        ({}, Retention()),
    ],
)
def test_retention_of_topic_configurations(config: dict[str, str], expected: Retention) -> None:
    assert retention_of(config) == expected


def test_rates_need_two_samples() -> None:
    assert rates([Sample(0, 0, 0)]) is None
    assert rates([Sample(1, 0, 0), Sample(1, 5, 5)]) is None
    assert rates([Sample(5, 0, 0), Sample(5, 0, 0), Sample(15, 50, 100)]) == (10.0, 5.0)
    assert rates([Sample(0, 50, 100), Sample(10, 40, 90)]) == (0.0, 0.0)  # a truncated log
    assert rates([Sample(0, 0, 100), Sample(5, 0, 100), Sample(10, 50, 200)]) == (10.0, 5.0)


def test_rate_of_copying_counts_what_is_copied_and_no_offset_that_is_only_passed() -> None:
    passed = [Sample(0, 100, 100, copied=7), Sample(10, 600, 600, copied=12)]
    assert copied_per_s(passed) == 0.5
    assert copied_per_s([Sample(0, 100, 100), Sample(10, 600, 600)]) == 50
    assert copied_per_s([Sample(0, 100, 100), Sample(10, 600, 600, copied=12)]) == 50, "it was not counted at first"
    assert copied_per_s([Sample(0, 100, 100, copied=7), Sample(10, 600, 600, copied=2)]) == 0, "it was counted again"
    assert copied_per_s(passed[:1]) is None


def test_outlook_with_offsets_that_are_only_passed_catches_up_by_them() -> None:
    """Copies of the flow back are read through: they are no copies of this flow, and no lag once they are passed."""
    found = outlook(
        [Sample(0, 0, 1000, copied=5), Sample(10, 500, 1000, copied=5)],
        now_ms=NOW,
        oldest_ms=NOW,
        record_bytes=1.0,
        retention=None,
        warning_s=0,
    )
    assert (found.in_per_s, found.out_per_s, found.eta_s, found.stuck) == (0, 0, 10, False)


def test_eta_s_by_lag_and_rates() -> None:
    assert eta_s(0, 10, 0) == 0
    assert eta_s(100, 10, 20) == 10
    assert eta_s(1, 0, 0.5) == 2
    assert eta_s(100, 10, 10) is None
    assert eta_s(100, 10, 0) is None


def test_time_left_by_age() -> None:
    left = time_left(Retention(ms=10_000), now_ms=NOW, oldest_ms=NOW - 4_000, lag_bytes=None, in_bytes_per_s=None)
    assert left == TimeLeft(6.0, 10.0, "retention.ms")


def test_time_left_by_size() -> None:
    left = time_left(Retention(bytes=1000), now_ms=NOW, oldest_ms=None, lag_bytes=400, in_bytes_per_s=100)
    assert left == TimeLeft(6.0, 10.0, "retention.bytes")


def test_time_left_takes_the_earlier_rule() -> None:
    both = Retention(ms=10_000, bytes=1000)
    found = time_left(both, now_ms=NOW, oldest_ms=NOW - 4_000, lag_bytes=900, in_bytes_per_s=100)
    assert found is not None
    assert found.rule == "retention.bytes"


def test_time_left_limits_and_timestamps_of_zero_count() -> None:
    at = {"now_ms": 5_000, "oldest_ms": 0, "lag_bytes": 400, "in_bytes_per_s": 100.0}
    assert time_left(Retention(ms=0), **at) == TimeLeft(-5.0, 0.0, "retention.ms")  # type: ignore[arg-type]
    assert time_left(Retention(bytes=0), **at) == TimeLeft(-4.0, 0.0, "retention.bytes")  # type: ignore[arg-type]


@pytest.mark.parametrize("oldest", [None, -1])
def test_time_left_without_timestamp_or_limit_is_none(oldest: int | None) -> None:
    assert time_left(Retention(10_000), now_ms=NOW, oldest_ms=oldest, lag_bytes=1, in_bytes_per_s=1) is None
    assert time_left(Retention(), now_ms=NOW, oldest_ms=NOW, lag_bytes=1, in_bytes_per_s=1) is None
    assert time_left(Retention(bytes=9), now_ms=NOW, oldest_ms=oldest, lag_bytes=1, in_bytes_per_s=0) is None


def test_burn_by_progress() -> None:
    assert burn([Sample(0, 0, 9)], 90.0) == 1  # nothing measured: time alone
    assert burn([Sample(0, 0, 9, 100.0)], 90.0) == 1
    assert burn([Sample(0, 0, 9, 100.0), Sample(10, 0, 9)], 90.0) == 1
    assert burn([Sample(0, 0, 9, 100.0), Sample(10, 5, 9)], 95.0) == 0.5
    assert burn([Sample(0, 0, 9), Sample(5, 0, 9, 100.0), Sample(10, 5, 9)], 110.0) == -2


@pytest.mark.parametrize(
    ("span", "warning", "expected"),
    [(7 * DAY, HOUR, 0.7 * DAY), (10 * HOUR, HOUR, HOUR), (HOUR, HOUR, HOUR / 2), (30, HOUR, 15), (30, 1, 3)],
)
def test_threshold_s_is_a_share_or_the_warning_time_up_to_half(span: float, warning: float, expected: float) -> None:
    assert threshold_s(span, warning) == pytest.approx(expected)


def moving(left: float, speed: float) -> list[Sample]:
    """Two samples ten seconds apart whose time left shrinks by `speed` per second to `left`."""
    return [Sample(0, 0, 100, left + 10 * speed), Sample(10, 50, 200)]


def test_warn_without_lag_or_retention_is_empty() -> None:
    assert warn(0, TimeLeft(0, 10, "retention.ms"), 0, [], HOUR) == ""
    assert warn(9, None, 10**9, [], HOUR) == ""


def test_warn_expiry_now_and_soon() -> None:
    assert "any moment" in warn(9, TimeLeft(-1, 10, "retention.ms"), 1, [], HOUR)
    assert "any moment" in warn(1, TimeLeft(0, 10, "retention.ms"), 1, [], HOUR)
    assert "expires in 4 s by retention.ms" in warn(9, TimeLeft(4, 10, "retention.ms"), 1, [], HOUR)


def test_warn_retention_before_catching_up_days_ahead() -> None:
    left = TimeLeft(3 * DAY, 7 * DAY, "retention.ms")
    warning = warn(9, left, 5 * DAY, moving(3 * DAY, 1.0), HOUR)
    assert warning == "catching up takes 5.0 days, but retention.ms reaches unmirrored records in 3.0 days"


def test_warn_catching_up_before_retention_is_empty() -> None:
    left = TimeLeft(3 * DAY, 7 * DAY, "retention.ms")
    assert warn(9, left, 2 * DAY, moving(3 * DAY, 1.0), HOUR) == ""
    # five days to go and three left, but every second of copying wins two: it never gets there
    assert warn(9, left, 5 * DAY, moving(3 * DAY, -1.0), HOUR) == ""


@pytest.mark.parametrize(
    ("left_s", "eta", "samples", "warned"),
    [
        (3 * DAY, 3 * DAY + 1, moving(3 * DAY, 1.0), True),
        (3 * DAY, 3 * DAY, moving(3 * DAY, 1.0), False),  # it catches up just in time
        (3 * DAY, 5 * DAY, moving(3 * DAY, 0.0), False),  # as fast as time passes
        (3 * DAY, 5 * DAY, [Sample(0, 0, 100, 3 * DAY)], False),  # one sample shows no speed
        (0.5, 0.9, moving(0.5, 1.0), True),
        (3 * DAY, 2 * DAY, moving(3 * DAY, 2.0), True),  # half of it for each second that passes
        (3 * DAY, 5 * DAY, moving(3 * DAY, 0.5), False),
    ],
)
def test_warn_compares_the_time_to_catch_up_with_the_time_left(
    left_s: float, eta: float, samples: list[Sample], warned: bool
) -> None:
    left = TimeLeft(left_s, 2 * left_s, "retention.ms")
    assert warn(9, left, eta, samples, 0.1 * left_s).startswith("catching up takes") is warned


def test_warn_at_the_threshold_is_empty() -> None:
    assert warn(9, TimeLeft(HOUR, 10 * HOUR, "retention.ms"), None, [], HOUR) == ""
    assert warn(9, TimeLeft(HOUR - 1, 10 * HOUR, "retention.ms"), None, [], HOUR)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (119, "119 s"),
        (120, "2.0 min"),
        (7199, "120.0 min"),
        (7200, "2.0 h"),
        (2 * DAY - 1, "48.0 h"),
        (2 * DAY, "2.0 days"),
    ],
)
def test_warn_time_is_in_the_largest_unit_that_it_fills_twice(seconds: float, words: str) -> None:
    assert f"expires in {words} by" in warn(9, TimeLeft(seconds, 20 * seconds, "retention.ms"), None, [], seconds + 1)


def test_warn_stuck_partition_at_its_threshold() -> None:
    left = TimeLeft(3 * DAY, 7 * DAY, "retention.ms")
    assert warn(9, left, None, moving(3 * DAY, 1.0), HOUR) == ""
    assert warn(9, TimeLeft(0.5 * DAY, 7 * DAY, "retention.ms"), None, [], HOUR)


def test_outlook_has_every_value() -> None:
    samples = [Sample(0, 0, 1000), Sample(10, 100, 1050)]
    found = outlook(
        samples,
        now_ms=NOW,
        oldest_ms=NOW - 2_000,
        record_bytes=10.0,
        retention=Retention(ms=20_000),
        warning_s=HOUR,
    )
    assert (found.lag_s, found.lag_bytes, found.in_per_s, found.out_per_s) == (2.0, 9500, 5.0, 10.0)
    assert (found.eta_s, found.left_s, found.rule) == (190.0, 18.0, "retention.ms")
    assert "catching up takes 3.2 min" in found.warning


def test_outlook_by_size_needs_a_rate() -> None:
    """9,500 bytes are behind, 50 are written each second: 10 s until 10,000."""
    samples = [Sample(0, 0, 1000), Sample(10, 100, 1050)]
    for taken, left_s in ((samples, 10.0), (samples[1:], None)):
        found = outlook(
            taken, now_ms=NOW, oldest_ms=None, record_bytes=10.0, retention=Retention(bytes=10_000), warning_s=HOUR
        )
        assert (found.lag_bytes, found.left_s) == (9500, left_s)
    assert (
        outlook(
            samples, now_ms=NOW, oldest_ms=None, record_bytes=None, retention=Retention(bytes=10_000), warning_s=HOUR
        ).left_s
        is None
    )


def test_outlook_without_lag_is_zero() -> None:
    found = outlook(
        [Sample(0, 5, 5)], now_ms=NOW, oldest_ms=None, record_bytes=None, retention=Retention(ms=1), warning_s=HOUR
    )
    assert found == Outlook(lag_s=0.0, lag_bytes=0, eta_s=0.0)
    for mirrored in (5, 6):  # or further than a truncated source reaches
        samples = [Sample(0, mirrored, 5), Sample(10, mirrored, 5)]
        found = outlook(
            samples, now_ms=NOW, oldest_ms=NOW, record_bytes=9.0, retention=Retention(ms=1, bytes=1), warning_s=HOUR
        )
        assert found == Outlook(lag_s=0.0, lag_bytes=0, in_per_s=0.0, out_per_s=0.0, eta_s=0.0)
        assert found.idle


@pytest.mark.parametrize(("oldest_ms", "lag_s"), [(0, NOW / 1000), (-1, None), (NOW + 500, 0.0), (NOW - 500, 0.5)])
def test_outlook_lag_in_seconds_by_the_oldest_timestamp(oldest_ms: int, lag_s: float | None) -> None:
    """A record of another clock may be newer than now."""
    found = outlook(
        [Sample(0, 0, 1)], now_ms=NOW, oldest_ms=oldest_ms, record_bytes=None, retention=None, warning_s=HOUR
    )
    assert found.lag_s == lag_s
    assert not found.idle


def test_outlook_unknown_values_are_none() -> None:
    found = outlook([Sample(0, 0, 5)], now_ms=NOW, oldest_ms=None, record_bytes=None, retention=None, warning_s=HOUR)
    assert found == Outlook()


def test_outlook_lag_without_progress_is_stuck_after_stuck_s() -> None:
    def found(seconds: float, end: int = 12) -> Outlook:
        samples = [Sample(100, 7, min(9, end)), Sample(100 + seconds, 7, end)]
        return outlook(samples, now_ms=NOW, oldest_ms=NOW, record_bytes=1, retention=Retention(), warning_s=HOUR)

    assert not found(4).stuck
    assert found(5).stuck
    assert found(5, end=8).stuck
    assert not found(5, end=7).stuck


def oldest(**given: int | None) -> int | None:
    known: dict[str, int | None] = {
        "queued_ms": None,
        "probed_ms": None,
        "end_before": 100,
        "measured_before_ms": 5000,
        "last_mirrored_ms": 100,
    }
    known |= given
    return oldest_unmirrored_ms(
        lag=known.pop("lag", 1) or 0,
        mirrored=known.pop("mirrored", 50) or 0,
        **known,
    )


def test_oldest_unmirrored_ms_by_source() -> None:
    assert oldest(lag=0, queued_ms=7) is None
    assert oldest(queued_ms=7, probed_ms=8) == 7
    assert oldest(probed_ms=8) == 8
    assert oldest(mirrored=50) == 100  # in a backlog: about as old as the last one mirrored
    assert oldest(mirrored=100) == 5000  # came after the last look, however long the topic was idle before
    assert oldest(mirrored=100, last_mirrored_ms=6000) == 6000
    assert oldest(mirrored=50, last_mirrored_ms=None) is None
    assert oldest(mirrored=50, end_before=None, measured_before_ms=None, last_mirrored_ms=None) is None


@given(
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.floats(0.1, 10**5),
    st.integers(0, 10**12),
    st.integers(-1, 10**12),
    st.integers(-1, 10**12),
)
def test_time_left_grows_with_retention_and_warning_names_its_rule(
    mirrored: int, behind: int, seconds: float, age: int, ms: int, size: int
) -> None:
    samples = [Sample(0, mirrored, mirrored + behind), Sample(seconds, mirrored + behind // 2, mirrored + behind)]

    def found(by_age: int, by_size: int) -> Outlook:
        return outlook(
            samples,
            now_ms=NOW,
            oldest_ms=NOW - age,
            record_bytes=100.0,
            retention=Retention(by_age, by_size),
            warning_s=HOUR,
        )

    one, more = found(ms, size), found(ms * 2 if ms >= 0 else ms, size * 2 if size >= 0 else size)
    if one.left_s is None:
        assert more.left_s is None
    else:
        assert more.left_s is not None
        assert more.left_s >= one.left_s
    if one.warning:
        assert "retention." in one.warning
        assert one.left_s is not None


def test_forecast_window_drops_old_samples_and_keeps_two() -> None:
    samples: deque[Sample] = deque()
    for at_s in (0.0, 10.0, 20.0, 60.0):
        found = forecast(
            samples,
            Sample(at_s, int(at_s), 100),
            window_s=30.0,
            now_ms=0,
            oldest_ms=0,
            record_bytes=None,
            retention=Retention(ms=1000),
            warning_s=HOUR,
        )
    assert [sample.at_s for sample in samples] == [20.0, 60.0]
    assert samples[-1].left_s == found.left_s == 1.0


def test_forecast_window_begins_with_the_last_sample_before_it() -> None:
    samples: deque[Sample] = deque()
    for at_s in (0.0, 10.0, 20.0, 50.0):
        forecast(
            samples,
            Sample(at_s, 0, 100),
            window_s=30.0,
            now_ms=0,
            oldest_ms=None,
            record_bytes=None,
            retention=None,
            warning_s=HOUR,
        )
    assert [sample.at_s for sample in samples] == [10.0, 20.0, 50.0]
