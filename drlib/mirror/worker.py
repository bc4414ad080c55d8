"""The worker process: the enabled flows of one properties file, until SIGTERM or SIGINT.

Rules: a signal stops fetching, then everything fetched is sent, acknowledged and journaled, and the process exits 0; a
second signal ends it at once. SIGKILL is always safe: the next claim reads back what stands. One worker is one event
loop on one core; more workers are more processes in the same group. Flows stand on their own: one whose cluster does not
answer is tried again while the others go on, and so is one whose brokers say that they are not ready yet. Rings of flows
that keep names are refused before anything starts.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from drlib.config.replication_policy import IdentityReplicationPolicy
from drlib.config.settings import FlowSettings, MirrorSettings
from drlib.errors import Aborted, Unreachable, UsageError
from drlib.kafka.admin.connect import wire_client
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.engine.fetch import memory
from drlib.mirror.flow import WORKER, FlowRunner
from drlib.mirror.preflight.cycles import find_cycle, refuse_rings
from drlib.mirror.status import worker_status as status
from drlib.mirror.status.endpoint import Endpoint
from drlib.mirror.status.systemd import ServiceManager

STATUS_S = 0.25
RETRY_S, RETRY_AT_MOST_S = 0.5, 10.0
COMING_UP_S = 60.0  # how long a broker may answer that it is loading, electing or not yet told


async def mirror(
    settings: MirrorSettings,
    *,
    status_path: Path | None = None,
    metrics_address: str | None = None,
    memory_bytes: int = memory.DEFAULT_WORKER,
    on_state: Callable[[status.WorkerStatus], None] | None = None,
    until: Callable[[status.WorkerStatus], bool] | None = None,
    name: str = "",
) -> None:
    """Run every enabled flow until a signal asks to stop, or `until` says so of the state, a few times a second.

    `memory_bytes` is what this process may take in all, however much waits on the source; `name` is who it is to others,
    host and process ID unless given, without spaces.
    Raises `UsageError` when no flow is enabled or the memory is too little, `Unreachable` when a cluster does not answer
    at the start.
    """
    flows = [f for f in settings.flows if f.enabled]
    if not flows:
        raise UsageError(
            f"nothing to mirror in {settings.path}", "no flow is enabled", "Set 'A->B.enabled = true' for a flow."
        )
    await _refuse_rings(settings, flows)
    events = status.EventLog()
    logs = {f.flow: status.EventLog(str(f.flow)) for f in flows}  # a flow that is begun anew goes on in its own
    name = name or f"{socket.gethostname()}-{os.getpid()}"
    state = "starting"

    def snapshot() -> status.WorkerStatus:
        flows_now = tuple(r.status() for r in runners)
        open_ones = tuple(event for log in (events, *logs.values()) for event in log.snapshot())
        return status.WorkerStatus(os.getpid(), int(time.time() * 1000), state, flows_now, open_ones, name, address)

    asked = metrics_address or next((f.metrics_address for f in flows if f.metrics_address), None)
    endpoint = None if asked is None else Endpoint.open(asked, snapshot, events)
    address = "" if endpoint is None else endpoint.address
    worker = f"{name} {address}".strip()  # as the journal's claims tell it: `drlib status` finds us there
    held = memory.Memory(memory.data_share(memory_bytes))

    def runner_of(flow: FlowSettings) -> FlowRunner:
        source, target = settings.clusters[flow.flow.source], settings.clusters[flow.flow.target]
        keeping = [f for f in flows if isinstance(f.policy, IdentityReplicationPolicy)]
        return FlowRunner(flow, source, target, worker, logs[flow.flow], held, keeping)

    runners = [runner_of(flow) for flow in flows]
    manager = ServiceManager.from_environment()
    names = ", ".join(str(f.flow) for f in flows)
    stops = 0
    main = asyncio.current_task()
    assert main is not None

    def stop() -> None:
        nonlocal state, stops
        state = "stopping"
        manager.stopping()
        stops += 1
        for runner in runners:
            runner.stop()
        if stops > 1:
            main.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)

    told: tuple[object, ...] = ()

    def tell() -> None:
        """The whole state to a file, where one is asked for, and to `until`; to whoever listens only news."""
        nonlocal told
        news = (state, events.snapshot(), *(log.snapshot() for log in logs.values()))
        if status_path is None and until is None and (on_state is None or news == told):
            return
        now = snapshot()
        if status_path is not None:
            status.write(status_path, now)
        if on_state is not None and news != told:
            on_state(now)
        told = news
        if until is not None and not stops and until(now):
            stop()

    async def report() -> None:
        nonlocal state
        while True:
            began = time.thread_time()
            if state == "starting" and all(r.ready for r in runners):
                state = "running"
                manager.ready(f"mirroring {names}")
            manager.alive(loop.time(), f"{state}: {names}")
            tell()
            await asyncio.sleep(status.pause_s(STATUS_S, time.thread_time() - began))

    async def keep(at: int) -> None:
        """One flow. A broker that is still coming up is waited for; where there are other flows, a whole cluster is."""
        delay, began = RETRY_S, loop.time()
        while True:
            try:
                await runners[at].run()
                return
            except (Unreachable, SecurityFault, BrokerError) as error:
                coming = isinstance(error, BrokerError) and error.retriable and loop.time() < began + COMING_UP_S
                alone = isinstance(error, BrokerError) or len(runners) == 1
                if stops or (alone and not coming):
                    raise
                logs[flows[at].flow].open("FlowUnreachable", str(flows[at].flow), str(error), by=WORKER)
            runners[at] = runner_of(flows[at])
            stopped = asyncio.create_task(runners[at].stopped())
            await asyncio.wait([stopped], timeout=delay)
            stopped.cancel()
            if stops:
                return
            delay = min(RETRY_AT_MOST_S, delay * 2)

    reporting = asyncio.create_task(report())
    try:
        async with asyncio.TaskGroup() as group:
            for at in range(len(runners)):
                group.create_task(keep(at))
        state = "stopped"
    except* asyncio.CancelledError:
        raise Aborted(
            "the mirror was stopped at once", "a second signal came", "Nothing to do: nothing is lost."
        ) from None
    finally:
        reporting.cancel()
        state = state if state == "stopped" else "failed"
        tell()
        if endpoint is not None:
            endpoint.close()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _refuse_rings(settings: MirrorSettings, flows: Sequence[FlowSettings]) -> None:
    """Raises `TopicLoop`. Topics made later are looked at when they are found (`FlowRunner`)."""
    keeping = [f for f in flows if isinstance(f.policy, IdentityReplicationPolicy)]
    aliases = sorted({alias for f in keeping for alias in (f.flow.source, f.flow.target)})
    if not find_cycle([(f.flow, lambda _: True) for f in keeping], "any"):
        return
    # What a file names or matches counts whether or not there is such a topic yet.
    topics = {pattern.replace(".*", "any-topic") for f in keeping for pattern in f.topics}
    for alias in aliases:
        client = wire_client(settings.clusters[alias], client_id="drlib-rings")
        try:
            topics |= set((await client.metadata(None)).topics)
        except (Unreachable, SecurityFault):
            continue  # its flow is tried again, and looks at each topic it finds
        finally:
            await client.close()
    refuse_rings([(f.flow, f.mirrors_topic) for f in keeping], topics)


def run(
    settings: MirrorSettings,
    *,
    status_path: Path | None = None,
    metrics_address: str | None = None,
    memory_bytes: int = memory.DEFAULT_WORKER,
    on_state: Callable[[status.WorkerStatus], None] | None = None,
    until: Callable[[status.WorkerStatus], bool] | None = None,
    name: str = "",
) -> None:
    """`mirror` on uvloop where it installs; raises the first error itself, not a group of them."""
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(
                mirror(
                    settings,
                    status_path=status_path,
                    metrics_address=metrics_address,
                    memory_bytes=memory_bytes,
                    on_state=on_state,
                    until=until,
                    name=name,
                )
            )
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from group
