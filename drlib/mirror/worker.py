"""The worker process: the enabled flows of one properties file, until SIGTERM or SIGINT.

Rules: a signal stops fetching, then everything fetched is sent, acknowledged and journaled, and the process exits 0; a
second signal ends it at once. SIGKILL is always safe: the next claim reads back what stands. One worker is one event
loop on one core; more workers are more processes in the same group.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

from drlib.config.settings import MirrorSettings
from drlib.errors import Aborted, UsageError
from drlib.mirror import memory, status
from drlib.mirror.flow import FlowRunner

STATUS_S = 0.25


async def mirror(
    settings: MirrorSettings,
    *,
    status_path: Path | None = None,
    on_state: Callable[[status.WorkerStatus], None] | None = None,
) -> None:
    """Run every enabled flow until a signal asks to stop.

    Raises `UsageError` when no flow is enabled, `Unreachable` when a cluster does not answer at the start.
    """
    flows = [f for f in settings.flows if f.enabled]
    if not flows:
        raise UsageError(
            f"nothing to mirror in {settings.path}", "no flow is enabled", "Set 'A->B.enabled = true' for a flow."
        )
    events = status.EventLog()
    worker = f"{socket.gethostname()}-{os.getpid()}"
    held = memory.Memory()
    runners = [
        FlowRunner(f, settings.clusters[f.flow.source], settings.clusters[f.flow.target], worker, events, held)
        for f in flows
    ]
    state = "starting"
    stops = 0
    main = asyncio.current_task()
    assert main is not None

    def stop() -> None:
        nonlocal state, stops
        state = "stopping"
        stops += 1
        for runner in runners:
            runner.stop()
        if stops > 1:
            main.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)

    def tell() -> None:
        snapshot = status.WorkerStatus(
            os.getpid(), int(time.time() * 1000), state, tuple(r.status() for r in runners), events.snapshot()
        )
        if status_path is not None:
            status.write(status_path, snapshot)
        if on_state is not None:
            on_state(snapshot)

    async def report() -> None:
        nonlocal state
        while True:
            if state == "starting" and all(r.status().lanes for r in runners):
                state = "running"
            tell()
            await asyncio.sleep(STATUS_S)

    reporting = asyncio.create_task(report())
    try:
        async with asyncio.TaskGroup() as group:
            for runner in runners:
                group.create_task(runner.run())
    except* asyncio.CancelledError:
        raise Aborted(
            "the mirror was stopped at once", "a second signal came", "Nothing to do: nothing is lost."
        ) from None
    finally:
        reporting.cancel()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    state = "stopped"
    tell()


def run(
    settings: MirrorSettings,
    *,
    status_path: Path | None = None,
    on_state: Callable[[status.WorkerStatus], None] | None = None,
) -> None:
    """`mirror` on uvloop where it installs; raises the first error itself, not a group of them."""
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(mirror(settings, status_path=status_path, on_state=on_state))
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from group
