"""The window fills a link of any bandwidth and delay, and is no larger than needed."""

from __future__ import annotations

import heapq

import pytest

from drlib.mirror.engine.fetch.flow_control import InFlightWindow


def run(window: InFlightWindow, *, bandwidth: float, delay_s: float, piece: int, seconds: float) -> tuple[float, int]:
    """Simulate a link of `bandwidth` bytes/s and round trip `delay_s`: bytes/s over the second half, and the most in flight."""
    now, free, sequence, delivered, most = 0.0, 0.0, 0, 0, 0
    coming: list[tuple[float, int, object]] = []
    window.measured(delay_s)
    while now < seconds:
        while window.open:
            free = max(free, now) + piece / bandwidth
            sequence += 1
            heapq.heappush(coming, (free + delay_s, sequence, window.sent(now, piece)))
        most = max(most, window.outstanding)
        now, _, flight = heapq.heappop(coming)
        window.answered(flight, now, piece)  # type: ignore[arg-type]
        if now > seconds / 2:
            delivered += piece
    return delivered / (seconds / 2), most


@pytest.mark.parametrize("bandwidth", [1e6, 1.25e8, 2e9])
@pytest.mark.parametrize("delay_s", [0.0002, 0.01, 0.2, 0.5])
def test_window_fills_any_link(bandwidth: float, delay_s: float) -> None:
    piece = max(256 << 10, int(bandwidth * delay_s / 50))
    window = InFlightWindow(least=4 << 20, most=8 << 30)
    seconds = 30 * delay_s + 100 * piece / bandwidth + 4 * window.least / bandwidth
    rate, most = run(window, bandwidth=bandwidth, delay_s=delay_s, piece=piece, seconds=seconds)
    assert rate > 0.9 * bandwidth
    assert most <= window.least + 2.6 * bandwidth * delay_s + 2 * piece


def test_window_stays_within_most() -> None:
    window = InFlightWindow(least=1 << 20, most=8 << 20)
    _, most = run(window, bandwidth=1e9, delay_s=0.2, piece=1 << 20, seconds=10)
    assert most <= 9 << 20


def test_window_forgets_an_old_rate() -> None:
    window = InFlightWindow(least=1 << 20, most=1 << 30)
    window.measured(0.1)
    window.answered(window.sent(0.0, 100), 0.1, 10 << 20)
    assert window.size == pytest.approx((1 << 20) + 2 * (10 << 20), rel=0.01)
    window.answered(window.sent(20.0, 100), 20.1, 1 << 10)
    assert window.size < 2 << 20


def test_window_slow_link_gets_what_it_moves_in_seconds() -> None:
    window = InFlightWindow(least=16 << 20, most=80 << 20)
    assert window.size == window.start
    _, most = run(window, bandwidth=64e3, delay_s=0.05, piece=64 << 10, seconds=120)
    assert most <= window.start + (64 << 10)


def test_window_fast_link_outgrows_its_start_quickly() -> None:
    window = InFlightWindow(least=16 << 20, most=80 << 20)
    run(window, bandwidth=500e6, delay_s=0.0005, piece=128 << 10, seconds=0.02)
    assert window.size >= 16 << 20


def test_window_before_the_first_measurement_is_its_start() -> None:
    window = InFlightWindow(least=16 << 20, most=80 << 20)
    assert (window.rate, window.round_trip_s, window.in_transit, window.size) == (0.0, 0.0, 0, 256 << 10)
    window.sent(0.0, (256 << 10) - 1)
    assert window.open
    window.sent(0.0, 1)
    assert not window.open


def test_window_is_least_and_two_round_trips_within_most_and_patience() -> None:
    window = InFlightWindow(least=1000, most=1 << 40, start=10)
    window.answered(window.sent(0.0, 100), 0.0, 100)
    assert window.rate == 0.0  # no time passed: that is no measurement
    window.answered(window.sent(1.0, 100), 3.0, 2000)
    assert (window.rate, window.outstanding, window.delivered) == (1000.0, 0, 2100)
    window.measured(0.5)
    assert (window.in_transit, window.size) == (1000, 2000)
    window.measured(0.25)
    assert window.size == 1500
    slow = InFlightWindow(least=1 << 30, most=1 << 40, start=10)
    slow.answered(slow.sent(0.0, 1), 1.0, 1000)
    assert slow.size == 4000  # what the link moves in four seconds


def test_window_remembers_the_best_rate_of_ten_seconds_and_the_best_of_five_round_trips() -> None:
    window = InFlightWindow(least=1, most=1 << 40)
    window.answered(window.sent(0.0, 1), 1.0, 500)
    for end, rate in ((11.0, 500.0), (11.5, 100.0)):
        window.answered(window.sent(end - 1, 1), end, 100)
        assert window.rate == rate
    for trip, least in ((0.1, 0.1), *[(0.5, 0.1)] * 4, (0.5, 0.5)):
        window.measured(trip)
        assert window.round_trip_s == least
