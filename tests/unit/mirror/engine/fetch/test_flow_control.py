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
