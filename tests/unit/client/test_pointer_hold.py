"""A hold that is not ended: it lasts for its limit from when each process saw it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from drlib.client.pointer import Pointer, decode, encode
from drlib.client.pointer_file import PointerWatcher, write_atomic
from drlib.client.pointer_hold import HoldClock
from drlib.errors import UsageError

HELD = Pointer(7, "LEFT", "left:9092", hold=True, hold_limit_s=60.0)


def test_hold_clock_ends_a_hold_after_its_limit_and_warns_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [1000.0]
    clock = HoldClock(lambda: now[0])
    assert clock.applied(HELD) is HELD
    now[0] += 59.9
    assert clock.applied(HELD) is HELD
    now[0] += 0.2
    with caplog.at_level(logging.WARNING, "drlib.active"):
        assert clock.applied(HELD) == clock.applied(HELD) == replace(HELD, hold=False)
    assert [r.getMessage() for r in caplog.records] == [
        "the pointer has held for its limit of 60 s (version 7) and was not moved: continuing at LEFT"
    ]
    again = replace(HELD, version=8)
    assert clock.applied(again) is again  # held again
    now[0] += 60.0
    assert not (clock.applied(again) or HELD).hold


def test_hold_clock_without_limit_keeps_the_pointer() -> None:
    now = [0.0]
    clock = HoldClock(lambda: now[0])
    forever, free = replace(HELD, hold_limit_s=0.0), replace(HELD, hold=False)
    for pointer in (forever, free, None):
        assert clock.applied(pointer) is pointer
    now[0] = 1e9
    for pointer in (forever, free, None):
        assert clock.applied(pointer) is pointer


def test_hold_limit_is_encoded_and_missing_in_older_pointers(tmp_path: Path) -> None:
    assert decode(encode(HELD)) == HELD
    plain = replace(HELD, hold_limit_s=0.0)
    assert b"limit" not in encode(plain)
    assert decode(encode(plain)) == plain
    for wrong in (b"-1", b"true", b'"60"'):
        with pytest.raises(UsageError, match="is not a pointer"):
            decode(encode(HELD).replace(b"60.0", wrong))
    path = tmp_path / "pointer.json"
    write_atomic(path, replace(HELD, hold_limit_s=0.05))
    watcher = PointerWatcher(path, interval_s=0.0)
    assert watcher.current() == replace(HELD, hold_limit_s=0.05)
    while watcher.current() != replace(HELD, hold_limit_s=0.05, hold=False):
        pass
