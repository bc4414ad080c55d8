"""Coroutines run from blocking code."""

from __future__ import annotations

import pytest

from drlib.kafka.admin.connect import blocking


async def answer(value: int) -> int:
    if value < 0:
        raise ValueError(value)
    return value


async def test_blocking_inside_a_running_event_loop_returns_the_answer() -> None:
    assert blocking(answer(7)) == 7


def test_blocking_work_that_raises_raises_the_same() -> None:
    with pytest.raises(ValueError, match="-1"):
        blocking(answer(-1))
