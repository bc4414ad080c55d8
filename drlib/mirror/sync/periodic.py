"""Work that is done again and again by one worker of a flow: the owner of lane 0.

Rules: a duty that fails opens an event, and is tried again at its next time; it never ends the flow. Whoever gets lane 0
starts without memory, because somebody else worked in between; who loses it has nothing more to report. Blocking calls
run in `drlib.mirror.threads`, so that a cluster that does not answer never holds up the end of the process.
Not for: work of every worker for its own lanes (`flow._announce`, `groups`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from drlib.errors import DrlibError
from drlib.mirror.status.worker_status import EventLog

LOOK_S = 0.2  # how soon a new owner of lane 0 notices


class PeriodicTask(Protocol):
    @property
    def name(self) -> str:
        """Of the event that says it failed, such as `ConfigSyncFailed`."""

    async def look(self) -> None:
        """Do the work once."""

    def forget(self) -> None:
        """Another worker did the work for a while, or nobody."""


async def perform(
    duty: PeriodicTask, seconds: float, term: Callable[[], object | None], events: EventLog, entity: str
) -> None:
    """Do `duty` at once and every `seconds`, while `term()` gives the same object; None: somebody else's turn.

    `events` is the log in the hands of this duty alone (`EventLog.reporter`).
    """
    ours: object | None = None
    while True:
        now = term()
        if now is not ours:
            ours = now
            duty.forget()
            if ours is None:
                events.retract(events.by)
        if ours is None:
            await asyncio.sleep(LOOK_S)
            continue
        try:
            await duty.look()
            events.resolve(duty.name, entity)
        except (DrlibError, TimeoutError, OSError) as error:
            events.open(duty.name, entity, str(error))
        except Exception as error:  # a fault of ours in what is beside the records must not end the copying of records
            events.open(duty.name, entity, f"unforeseen: {type(error).__name__}: {error}. Report it with this line.")
        await asyncio.sleep(seconds)
