"""Run the services beside the copy of records so that none of them can end it: each is started again by itself.

Rules: heartbeats, checkpoints, offset syncs, configurations, ACLs, groups, lag, watches. Whatever one of them raises is the
event `ServiceFailed` with its name; it starts again after a pause that grows, and the event ends once it has run for
`STEADY_S`.
Not for: lanes and the membership, whose end is the end of the copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from drlib.errors import explain, first_error
from drlib.mirror.errors import log_traceback
from drlib.mirror.status.worker_status import EventLog

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
STEADY_S: Final = 2.0


async def keep_running(entity: str, run: Callable[[], Awaitable[None]], events: EventLog) -> None:
    """Run a service until cancelled, again after every error. `entity`: the flow and the service, as in the event."""
    pause = FIRST_PAUSE_S
    unexpected: BaseException | None
    while True:
        service = asyncio.ensure_future(run())
        try:
            await asyncio.wait([service], timeout=STEADY_S)
            if not service.done():
                events.resolve("ServiceFailed", entity)
                pause = FIRST_PAUSE_S
            await service
            why, unexpected = "it ended by itself", None
        except Exception as error:
            why, unexpected = explain(error), first_error(error)
        finally:
            service.cancel()
            await asyncio.gather(service, return_exceptions=True)
        if events.open("ServiceFailed", entity, f"{why}; started again after {pause:g} s") and unexpected is not None:
            log_traceback(unexpected)
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE_S, pause * 2)


async def retract_when(ready: Callable[[], bool], events: EventLog, by: str) -> None:
    """A service that ends the reports of `by` whenever it is `ready`: those of the preflight, once the lanes report themselves.

    They report what their topics wait for on whichever worker they run.
    """
    while True:
        await asyncio.sleep(STEADY_S)
        if ready():
            events.retract(by)
