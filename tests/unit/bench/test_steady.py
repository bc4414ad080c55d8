"""The window of a catch-up: what is in it, what is left out, and samples that have none."""

import pytest

from bench.latency import added
from bench.steady import Sample, percentile, steady


def ramp(rate: float, seconds: int, *, start: float = 0.0, cpu: float = 0.5) -> list[Sample]:
    """A sample a second: nothing until `start`, then `rate` records and `cpu` seconds per second."""
    return [Sample(t, max(0.0, (t - start) * rate), max(0.0, (t - start) * cpu)) for t in range(seconds + 1)]


def test_steady_constant_rate_is_measured() -> None:
    found = steady(ramp(100, 10), 1000)
    assert found is not None
    assert (found.seconds, found.records, found.cpu) == pytest.approx((8.0, 800.0, 4.0))
    assert found.rate == pytest.approx(100.0)


def test_start_up_and_its_cpu_are_left_out() -> None:
    slow_start = [Sample(0, 0, 0), Sample(9, 0, 20), Sample(10, 100, 21), Sample(18, 900, 23), Sample(40, 1000, 30)]
    found = steady(slow_start, 1000)
    assert found is not None
    assert (found.seconds, found.records, found.cpu) == pytest.approx((8, 800, 2))


def test_crossings_between_samples_are_interpolated() -> None:
    found = steady([Sample(0, 0, 0), Sample(1, 50, 1), Sample(2, 250, 2), Sample(3, 1000, 3)], 1000)
    assert found is not None
    assert found.seconds == pytest.approx((2 + 650 / 750) - 1.25)


def test_steady_slow_engine_is_measured_five_seconds_after_first_record() -> None:
    found = steady(ramp(1, 20, start=0.5), 1_000_000)
    assert found is not None
    assert (found.seconds, found.rate) == (pytest.approx(20 - 6), pytest.approx(1.0))  # first seen at 1 s


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [Sample(0, 0, 0), Sample(9, 0, 1)],
        [Sample(0, 0, 0), Sample(1, 5, 0)],  # cut off before the window opened
        [Sample(0, 0, 0), Sample(1, 5, 0), Sample(20, 5, 0)],  # no progress in it
    ],
)
def test_steady_too_few_samples_have_no_rate(samples: list[Sample]) -> None:
    assert steady(samples, 1000) is None


def test_percentiles() -> None:
    values = [float(n) for n in range(101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([3.0, 1.0], 0.5)) == (50.0, 99.0, 2.0)
    assert (percentile([7.0], 0.99), percentile([1.0, 5.0], 1.0), percentile([1.0, 5.0], 0.0)) == (7.0, 5.0, 1.0)
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)


def test_added_latency_counts_what_is_missing() -> None:
    found = added([1, 2, 3], {1: 10.0, 2: 11.0, 3: 12.0}, {1: 10.25, 3: 12.5})
    assert (found.ms, found.sent, found.missing) == ((250.0, 500.0), 3, 1)
