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


def test_clock_set_back_and_reset(tmp_path: Path) -> None:
    clock = clocks.MachineClock(tmp_path, "gates")
    assert behind(clock, "LEFT") == 0
    clocks.set_back(tmp_path, "LEFT", HOUR_MS)
    assert clocks.behind_ms(tmp_path, "LEFT") == HOUR_MS
    assert behind(clocks.MachineClock(tmp_path, "gates"), "LEFT") == 3600
    assert behind(clocks.MachineClock(tmp_path), "LEFT") == 3600
    assert behind(clocks.MachineClock(tmp_path), "RIGHT") == 0
    clocks.set_back(tmp_path, "LEFT", -HOUR_MS)
    assert clocks.behind_ms(tmp_path, "LEFT") == -HOUR_MS
    assert behind(clocks.MachineClock(tmp_path, "gates"), "LEFT") == -3600
    clocks.set_back(tmp_path, "LEFT", 0)
    assert behind(clocks.MachineClock(tmp_path, "gates"), "LEFT") == 0
    assert list(tmp_path.iterdir()) == []


def test_machine_clock_change_is_seen_while_running(tmp_path: Path) -> None:
    clock = clocks.MachineClock(tmp_path, "gates")
    clock.now_ms("LEFT")
    clocks.set_back(tmp_path, "gates", HOUR_MS)
    end = time.monotonic() + 5
    while behind(clock, "LEFT") != 3600:
        assert time.monotonic() < end
    clocks.set_all_right(tmp_path)
    while behind(clock, "LEFT") != 0:
        assert time.monotonic() < end


def test_machine_clock_adds_application_and_cluster_offsets(tmp_path: Path) -> None:
    clocks.set_back(tmp_path, "gates", HOUR_MS)
    clocks.set_back(tmp_path, "LEFT", HOUR_MS)
    assert behind(clocks.MachineClock(tmp_path, "gates"), "LEFT") == 7200
    assert behind(clocks.MachineClock(tmp_path, "other"), "LEFT") == 3600


def test_machine_clock_without_lab_is_system_clock() -> None:
    assert behind(clocks.MachineClock(None, "gates"), "LEFT") == 0


@pytest.mark.parametrize("content", [b"", b"9" * 65, b"\xff", b"--5", b"-"])
def test_clock_file_with_anything_but_a_number_is_refused(tmp_path: Path, content: bytes) -> None:
    clocks.set_back(tmp_path, "LEFT", HOUR_MS)
    next(tmp_path.iterdir()).write_bytes(content)
    with pytest.raises(UsageError, match="the clock of LEFT"):
        clocks.behind_ms(tmp_path, "LEFT")


def test_clock_invalid_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".LEFT.clock").write_text("soon")
    with pytest.raises(UsageError, match="is not a number"):
        clocks.behind_ms(tmp_path, "LEFT")


def test_still_to_send_searches_by_record_timestamp(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time it was sent a record of a slow clock would not be found, and be sent again."""
    asked: list[int] = []

    def find_nothing(at: object, topic: object, ids: object, oldest_ms: int, stopping: object) -> dict[str, object]:
        asked.append(oldest_ms)
        return {}

    monkeypatch.setattr(in_doubt, "find_on_mirror", find_nothing)
    flight = Flight(0, "0", "AA1", 0, "AA", b"{}", 0)
    doubts = [Sent(flight, 10 * HOUR_MS, 9 * HOUR_MS, 0), Sent(flight, 10 * HOUR_MS + 1, 10 * HOUR_MS + 1, 0)]
    pointer = Pointer(2, "RIGHT", "127.0.0.1:1", "LEFT.")
    assert in_doubt.still_to_send(doubts, pointer, "flights", None, lambda: False) == [flight, flight]  # type: ignore[arg-type]
    assert asked == [9 * HOUR_MS]
