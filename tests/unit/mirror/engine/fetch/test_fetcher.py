"""What the readers of a lane leave behind when they end."""

from __future__ import annotations

import asyncio
import gc

from drlib.mirror.engine.fetch.fetch_response import LeaderMoved
from drlib.mirror.engine.fetch.fetcher import release
from drlib.mirror.engine.fetch.memory import Memory


async def test_release_drops_what_was_received_before_a_leader_moved() -> None:
    memory = Memory()
    share = memory.share("lane")

    async def read() -> None:
        response = share.reserve(100)
        assert response.size == 100
        raise LeaderMoved

    gc.disable()
    try:
        for handled in range(2):
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(read())
            except* LeaderMoved as moved:
                release(moved)
            assert memory.reserved == 0, handled
    finally:
        gc.enable()
