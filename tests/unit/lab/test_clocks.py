"""Clocks of a lab's machines: behind by what a file says, at once, and right where there is none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from drlib.client.pointer import Pointer
from drlib.errors import UsageError
from drlib.lab import clocks
from drlib.lab.apps import in_doubt
from drlib.lab.apps.fleet import Sent
from drlib.lab.apps.flights import Flight

HOUR_MS = 3_600_000


def behind(clock: clocks.MachineClock, alias: str) -> int:
    """To the nearest second."""
    return round((time.time() * 1000 - clock.now_ms(alias)) / 1000)


def test_a_clock_is_right_until_it_is_set_back_and_right_again_afterwards(tmp_path: Path) -> None:
    clock = clocks.MachineClock(tmp_path, "gates")
    assert behind(clock, "LEFT") == 0
    clocks.set_back(tmp_path, "LEFT", HOUR_MS)
    assert clocks.behind_ms(tmp_path, "LEFT") == HOUR_MS
    assert behind(clocks.MachineClock(tmp_path, "gates"), "LEFT") == 3600
    assert behind(clocks.MachineClock(tmp_path), "LEFT") == 3600
    assert behind(clocks.MachineClock(tmp_path), "RIGHT") == 0
    clocks.set_back(tmp_path, "LEFT", 0)
    assert behind(clocks.MachineClock(tmp_path, "gates"), "LEFT") == 0
    assert list(tmp_path.iterdir()) == []


def test_a_running_application_sees_it_within_a_moment(tmp_path: Path) -> None:
    clock = clocks.MachineClock(tmp_path, "gates")
    clock.now_ms("LEFT")
    clocks.set_back(tmp_path, "gates", HOUR_MS)
    end = time.monotonic() + 5
    while behind(clock, "LEFT") != 3600:
        assert time.monotonic() < end
    clocks.set_all_right(tmp_path)
    while behind(clock, "LEFT") != 0:
        assert time.monotonic() < end


def test_its_own_clock_and_its_site_s_add_up(tmp_path: Path) -> None:
    clocks.set_back(tmp_path, "gates", HOUR_MS)
    clocks.set_back(tmp_path, "LEFT", HOUR_MS)
    assert behind(clocks.MachineClock(tmp_path, "gates"), "LEFT") == 7200
    assert behind(clocks.MachineClock(tmp_path, "other"), "LEFT") == 3600


def test_without_a_lab_it_is_this_machine_s() -> None:
    assert behind(clocks.MachineClock(None, "gates"), "LEFT") == 0


def test_a_file_that_says_nothing_is_no_clock(tmp_path: Path) -> None:
    (tmp_path / ".LEFT.clock").write_text("soon")
    with pytest.raises(UsageError, match="no number"):
        clocks.behind_ms(tmp_path, "LEFT")


def test_what_is_in_doubt_is_looked_for_by_the_time_it_bears(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time it was sent a record of a slow clock would not be found, and be sent again."""
    asked: list[int] = []
    monkeypatch.setattr(in_doubt, "look_up", lambda at, topic, ids, oldest_ms, stopping: asked.append(oldest_ms) or {})
    flight = Flight(0, "0", "AA1", 0, "AA", b"{}", 0)
    doubts = [Sent(flight, 10 * HOUR_MS, 9 * HOUR_MS, 0), Sent(flight, 10 * HOUR_MS + 1, 10 * HOUR_MS + 1, 0)]
    pointer = Pointer(2, "RIGHT", "127.0.0.1:1", "LEFT.")
    assert in_doubt.still_to_send(doubts, pointer, "flights", None, lambda: False) == [flight, flight]  # type: ignore[arg-type]
    assert asked == [9 * HOUR_MS]
