"""Attempts begun one after the other: who counts, who is followed, and what becomes of the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from drlib.kafka.staggered import AllFailed, first_success

SILENT = "silent"


class Trial:
    """Attempts that do what their text says, and a list of what happened."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.discarded: list[str] = []
        self.released = asyncio.Event()
        self.second_began = asyncio.Event()
        self.ending = asyncio.Event()

    async def attempt(self, name: str, does: str) -> str:
        self.seen.append(f"{name} begins")
        if name == "1":
            self.second_began.set()
        if does == SILENT:
            try:
                await asyncio.Event().wait()
            finally:
                self.seen.append(f"{name} ends")
        if does == "late":
            await self.released.wait()
        if does == "fails":
            raise OSError(name)
        if does == "faulty":
            raise ValueError(name)
        if does == "stubborn":  # succeeds although it is cancelled
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return name
        if does == "slow to end":  # and succeeds then
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.ending.set()
                await self.released.wait()
        return name

    async def first(self, *does: str, pause_s: float = 0.01) -> str:
        attempts: list[Callable[[], Coroutine[Any, Any, str]]] = [
            partial(self.attempt, str(at), one) for at, one in enumerate(does)
        ]
        async with asyncio.timeout(20):
            return await first_success(attempts, pause_s=pause_s, failures=(OSError,), discard=self.discarded.append)


async def test_first_success_begins_nothing_else_where_the_first_attempt_succeeds() -> None:
    trial = Trial()
    assert await trial.first("succeeds", "succeeds", pause_s=60) == "0"
    assert trial.seen == ["0 begins"]


async def test_first_success_tries_the_next_at_once_after_a_failure() -> None:
    trial = Trial()
    assert await trial.first("fails", "fails", "succeeds", pause_s=60) == "2"


async def test_first_success_tries_the_next_beside_a_silent_one_and_ends_it() -> None:
    trial = Trial()
    assert await trial.first(SILENT, SILENT, "succeeds", "succeeds") == "2"
    assert trial.seen[:3] == ["0 begins", "1 begins", "2 begins"]
    assert sorted(trial.seen[3:]) == ["0 ends", "1 ends"]


async def test_first_success_takes_an_earlier_attempt_that_succeeds_late() -> None:
    trial = Trial()
    going = asyncio.create_task(trial.first("late", SILENT))
    await trial.second_began.wait()
    trial.released.set()
    assert await going == "0"


async def test_first_success_fails_with_every_failure_in_the_order_of_the_attempts() -> None:
    trial = Trial()
    trial.released.set()
    with pytest.raises(AllFailed) as caught:
        await trial.first("fails", "fails", "fails")
    assert [str(failure) for failure in caught.value.failures] == ["0", "1", "2"]


async def test_first_success_ends_all_attempts_at_an_error_that_is_no_failure() -> None:
    trial = Trial()
    with pytest.raises(ValueError, match="1"):
        await trial.first(SILENT, "faulty", "succeeds")
    assert trial.seen == ["0 begins", "1 begins", "0 ends"]


async def test_first_success_discards_what_succeeds_after_the_first() -> None:
    trial = Trial()
    assert await trial.first("stubborn", "succeeds") == "1"
    assert trial.discarded == ["0"]


async def test_first_success_ends_its_attempts_when_it_is_cancelled() -> None:
    trial = Trial()
    going = asyncio.create_task(trial.first(SILENT, SILENT))
    await trial.second_began.wait()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert sorted(trial.seen[2:]) == ["0 ends", "1 ends"]


async def test_first_success_that_is_cancelled_while_the_others_end_discards_everything() -> None:
    trial = Trial()
    going = asyncio.create_task(trial.first("slow to end", "succeeds"))
    await trial.ending.wait()
    going.cancel()
    trial.released.set()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert trial.discarded == ["1"]
    await asyncio.sleep(0)
    assert sorted(trial.discarded) == ["0", "1"]
