from __future__ import annotations

import time

import pytest

from drlib import clock
from drlib.mirror.engine.fencing.target_clock import TargetClock


def test_target_clock_without_a_marker_is_the_wall_clock() -> None:
    assert TargetClock().now_ms() == pytest.approx(clock.now_ms(), abs=1000)


def test_target_clock_follows_its_newest_marker_whatever_the_wall_clock_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    found = TargetClock()
    asked = time.monotonic()
    found.marked(asked, [5_000_000, 7_000_000, 6_000_000])
    monkeypatch.setattr(clock, "now_ms", lambda: 1)
    assert found.now_ms() == pytest.approx(7_000_000, abs=1000)
    monkeypatch.setattr(time, "monotonic", lambda: asked + 60)
    assert found.now_ms() == 7_060_000


def test_target_clock_is_rather_ahead_than_behind() -> None:
    """A marker was written at some time after it was asked for: had it been at once, the target would be this far."""
    found = TargetClock()
    found.marked(time.monotonic() - 10, [1_000_000])
    assert found.now_ms() >= 1_010_000


def test_target_clock_ignores_leaders_that_know_no_time() -> None:
    found = TargetClock()
    found.marked(time.monotonic(), [-1])
    assert found.ahead_ms is None
    found.marked(time.monotonic(), [])
    assert found.ahead_ms is None
