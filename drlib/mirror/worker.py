"""The worker process: the enabled flows of one properties file, until SIGTERM or SIGINT.

Rules: a signal stops fetching, then everything fetched is sent, acknowledged and journaled, and the process exits 0; a
second signal ends it at once. SIGKILL is always safe: the next claim reads back what was written. One worker is one event
loop on one core; more workers are more processes in the same group. Heartbeats of the pairs of clusters that are not enabled
are written by the worker that owns lane 0 of the opposite flow, or else of the first enabled one. Cycles of flows that keep
topic names are refused before anything starts. Flows are independent, and `ends_worker` decides: a cluster that does not
answer, or is not ready, is waited for and reported, also at the start; what only a change of the file or of a right can end is
refused at the first try of its flow, and waited for once a flow has run. A copy that is to end does not wait for clusters
(`waits`).
Longer than most modules: starting, running and restarting flows share the state of one process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drlib import clock
from drlib.config.both_ways.rings import ring_of
from drlib.config.both_ways.shared_topics import may_return, refuse_ring, refuse_shared_topics
from drlib.config.flow_settings import FlowSettings
from drlib.config.patterns.selection import PatternTooSlow
from drlib.config.replication_policy import IdentityReplicationPolicy
from drlib.config.settings import MirrorSettings
from drlib.errors import Aborted, DrlibError, Unreachable, UsageError, explain, first_error
from drlib.kafka.admin.connect import wire_client
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.engine.fetch import memory
from drlib.mirror.engine.reverse.appends import Appends
from drlib.mirror.errors import SourceLost, no_answer
from drlib.mirror.flow import WORKER, FlowRunner, FlowSetup
from drlib.mirror.preflight.cycles import find_cycle, refuse_cycles
from drlib.mirror.side_services import keep_running
from drlib.mirror.status import causes
from drlib.mirror.status import worker_status as status
from drlib.mirror.status.endpoint import Endpoint
from drlib.mirror.status.systemd import ServiceManager
from drlib.mirror.sync.heartbeats import PairHeartbeats
from drlib.mirror.threads import share_arenas
from drlib.model import Flow

STATUS_S = 0.25
RETRY_S, RETRY_AT_MOST_S = 0.5, 10.0
HEARTBEATS_TOPIC_S = 3.0  # the wait for the topics of heartbeats, so that the first look at topics finds them
TRANSIENT_REFUSALS = frozenset(
    {
        "LEADER_NOT_AVAILABLE",
        "NOT_CONTROLLER",
        "KAFKA_STORAGE_ERROR",
        "NOT_ENOUGH_REPLICAS",
        "THROTTLING_QUOTA_EXCEEDED",
    }
)
STARTING_UP_S = 60.0  # without `waits`: how long a broker may answer that it is loading, electing or without metadata


async def mirror(
    settings: MirrorSettings,
    *,
    status_path: Path | None = None,
    metrics_address: str | None = None,
    memory_bytes: int = memory.DEFAULT_WORKER,
    on_state: Callable[[status.WorkerStatus], None] | None = None,
    until: Callable[[status.WorkerStatus], bool] | None = None,
    name: str = "",
    waits: bool = True,
) -> None:
    """Run every enabled flow until a signal arrives, or until `until` returns True for the state (called 4 times a second).

    `memory_bytes` limits the whole process, whatever waits on the source. `name` identifies this worker in claims and in
    `drlib status`: host and process ID by default, without spaces. `waits`: for clusters that do not answer at the start.
    Raises `UsageError` when no flow is enabled, the memory is too little or a flow is refused at the start, `Aborted` after a
    second signal; without `waits` also `Unreachable`.
    """
    flows = [f for f in settings.flows if f.enabled]
    if not flows:
        raise UsageError(
            f"nothing to mirror in {settings.path}", "no flow is enabled", "Set 'A->B.enabled = true' for a flow."
        )
    await _refuse_rings(settings, flows)
    for flow in flows:
        if flow.sync_group_offsets_back:
            refuse_shared_topics(settings, flow.flow, "group offsets cannot be synchronized back")
        if flow.sync_group_offsets:
            refuse_ring(settings, flow.flow, "group offsets cannot be synchronized")
    worker = Worker(
        settings,
        flows,
        Reporting(status_path, on_state, until),
        metrics_address=metrics_address,
        memory_bytes=memory_bytes,
        name=name,
        waits=waits,
    )
    await worker.run()


@dataclass(frozen=True, slots=True)
class Reporting:
    """Who receives a worker's state: a file, a listener for news, a condition that ends the worker."""

    status_path: Path | None = None
    on_state: Callable[[status.WorkerStatus], None] | None = None
    until: Callable[[status.WorkerStatus], bool] | None = None


class Worker:
    """Runs `flows` of `settings`; constructed inside a running event loop, it serves its metrics at once."""

    def __init__(
        self,
        settings: MirrorSettings,
        flows: Sequence[FlowSettings],
        reporting: Reporting,
        *,
        metrics_address: str | None = None,
        memory_bytes: int = memory.DEFAULT_WORKER,
        name: str = "",
        waits: bool = True,
    ) -> None:
        """Raises `UsageError` for too little memory or a metrics address that is none."""
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._flows = tuple(replace(flow, on_slow_pattern=self._slow_pattern(flow.flow)) for flow in flows)
        self._reporting = reporting
        self._memory_bytes = memory_bytes
        self._memory = memory.Memory(memory.data_share(memory_bytes))
        self._events = status.EventLog()
        self._logs = {f.flow: status.EventLog(str(f.flow)) for f in flows}  # a restarted flow continues in its own log
        self._stopped: dict[Flow, dict[str, str]] = {f.flow: {} for f in flows}  # topics, until the worker is restarted
        self._appends = Appends()
        self._id = secrets.token_bytes(16)
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._waits = waits
        self._state = "starting"
        self._stops = 0
        self._reported: tuple[object, ...] = ()  # the news that `on_state` got last
        self._manager = ServiceManager.from_environment()
        self._runners: list[FlowRunner] = []
        cycles = may_return(settings.flows)  # else those there are recognise what was copied
        self._keeping = [f for f in flows if cycles and isinstance(f.policy, IdentityReplicationPolicy)]
        wanted = metrics_address or next((f.metrics_address for f in flows if f.metrics_address), None)
        self._endpoint = None if wanted is None else Endpoint.open(wanted, self.status, self._events)
        self._runners += [self._runner(flow) for flow in self._flows]
        self._heartbeats = {f.flow: self._pair_heartbeats(f) for f in pairs_with_heartbeats(settings, flows)}

    @property
    def _address(self) -> str:
        return "" if self._endpoint is None else self._endpoint.address

    def _runner(self, flow: FlowSettings) -> FlowRunner:
        clusters = self._settings.clusters
        slow = self._slow_pattern(flow.flow)
        flows = tuple(replace(each, on_slow_pattern=slow) for each in self._settings.flows)
        setup = FlowSetup(
            settings=flow,
            source=clusters[flow.flow.source],
            target=clusters[flow.flow.target],
            # The journal's claims carry name and address: `drlib status` finds the worker by them.
            worker=f"{self._name} {self._address}".strip(),
            worker_id=self._id,
            events=self._logs[flow.flow],
            memory=self._memory,
            keeping=self._keeping,
            flows=flows,
            ring=ring_of(flow.flow, flows),
            stopped=self._stopped[flow.flow],
            appends=self._appends,
            reverse=next((each for each in flows if each.flow == flow.flow.reverse), None),
        )
        return FlowRunner(setup)

    def _slow_pattern(self, flow: Flow) -> Callable[[str, PatternTooSlow], None]:
        """What a name is for `flow` that took too long to be matched: an event. It may be reported from any thread."""

        def report(key: str, error: PatternTooSlow) -> None:
            detail = f"{error.what}: {error.why}"
            with contextlib.suppress(RuntimeError):  # the worker has ended
                self._loop.call_soon_threadsafe(self._logs[flow].open, "PatternTooSlow", f"{flow} {key}", detail)

        return report

    def _pair_heartbeats(self, pair: FlowSettings) -> PairHeartbeats:
        owner = heartbeats_owner(pair.flow, [flow.flow for flow in self._flows])
        self._logs[pair.flow] = status.EventLog(str(pair.flow))
        return PairHeartbeats(
            pair,
            self._settings.clusters[pair.flow.target],
            self._logs[pair.flow],
            lambda: self._runners[owner].owns_first_lane,
        )

    def status(self) -> status.WorkerStatus:
        """The state now: flows, lanes, partitions and open events."""
        flows = tuple(r.status() for r in self._runners)
        logs = (self._events, *self._logs.values())
        events, omitted = causes.bounded(causes.group_by_cause(event for log in logs for event in log.snapshot()))
        brief = tuple((log.flow, name, count) for log in logs for name, count in sorted(log.brief.items()))
        now = clock.now_ms()
        kept = self._memory
        by_lane = tuple(sorted(kept.by_owner().items()))
        bytes_kept = status.MemoryStatus(kept.limit, kept.reserved, by_lane, kept.leaked, self._memory_bytes)
        return status.WorkerStatus(
            os.getpid(), now, self._state, flows, events, self._name, self._address, bytes_kept, omitted, brief
        )

    async def run(self) -> None:
        """Run until stopped. Raises the first error of a flow that cannot be waited out, in a group; `Aborted`."""
        main = asyncio.current_task()
        assert main is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, main)
        try:
            async with asyncio.TaskGroup() as group:
                reporting = group.create_task(self._report(main))
                beating = [
                    group.create_task(keep_running(f"{pair} heartbeats", beats.run, self._logs[pair]))
                    for pair, beats in await self._create_heartbeats_topics()
                ]
                await asyncio.wait([group.create_task(self._keep_running(n)) for n in range(len(self._runners))])
                for task in (reporting, *beating):
                    task.cancel()
            self._state = "stopped"
        except* asyncio.CancelledError:
            raise Aborted(
                "the mirror was stopped at once", "a second signal came", "Nothing to do: nothing is lost."
            ) from None
        finally:
            self._state = self._state if self._state == "stopped" else "failed"
            self._publish(main)
            if self._endpoint is not None:
                self._endpoint.close()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def _create_heartbeats_topics(self) -> Sequence[tuple[Flow, PairHeartbeats]]:
        """Create those of pairs that are not enabled, as far as their clusters answer soon; returns the pairs."""
        if self._heartbeats:
            creating = [asyncio.create_task(beats.create_topic()) for beats in self._heartbeats.values()]
            await asyncio.wait(creating, timeout=HEARTBEATS_TOPIC_S)
            for task in creating:
                task.cancel()
        return tuple(self._heartbeats.items())

    def _stop(self, main: asyncio.Task[Any]) -> None:
        """Drain every flow; called a second time, cancel `main` at once."""
        self._state = "stopping"
        self._manager.stopping()
        self._stops += 1
        for runner in self._runners:
            runner.stop()
        if self._stops > 1:
            main.cancel()

    def _publish(self, main: asyncio.Task[Any]) -> None:
        """Write the state to the status file and pass it to `until`; call `on_state` when state or events have changed."""
        status_path, on_state, until = self._reporting.status_path, self._reporting.on_state, self._reporting.until
        news = (self._state, self._events.snapshot(), *(log.snapshot() for log in self._logs.values()))
        if status_path is None and until is None and (on_state is None or news == self._reported):
            return
        now = self.status()
        if status_path is not None:
            try:
                status.write(status_path, now)
                self._events.resolve("StatusUnwritable", str(status_path))
            except OSError as error:
                self._events.open("StatusUnwritable", str(status_path), error.strerror or str(error))
        if on_state is not None and news != self._reported:
            on_state(now)
        self._reported = news
        if until is not None and not self._stops and until(now):
            self._stop(main)

    async def _report(self, main: asyncio.Task[Any]) -> None:
        loop = asyncio.get_running_loop()
        names = ", ".join(str(f.flow) for f in self._flows)
        while True:
            began = time.thread_time()
            if self._state == "starting" and all(r.ready for r in self._runners):
                self._state = "running"
                self._manager.ready(f"mirroring {names}")
            self._manager.alive(loop.time(), f"{self._state}: {names}")
            self._publish(main)
            await asyncio.sleep(status.pause_s(STATUS_S, time.thread_time() - began))

    async def _keep_running(self, index: int) -> None:
        """Run one flow, and start it again after everything that `ends_worker` does not count as an end."""
        flow, loop = self._flows[index].flow, asyncio.get_running_loop()
        delay, began, tries, ran = RETRY_S, loop.time(), 0, False
        while True:
            try:
                await self._runners[index].run()
                return
            except (DrlibError, TimeoutError, OSError) as error:
                if self._runners[index].running is not None:
                    ran, delay = True, RETRY_S
                elif self._stops and self._waits and is_unavailable(error):
                    return  # it was still waiting for its clusters: there is nothing to drain
                alone, waited_s = len(self._runners) == 1, loop.time() - began
                # Beside other flows only the first try counts: these must not end because a cluster came up later.
                fresh = not ran and (alone or not tries)
                if self._stops or ends_worker(error, fresh=fresh, alone=alone, waits=self._waits, waited_s=waited_s):
                    raise
                log, unavailable = self._logs[flow], is_unavailable(error)
                detail, remedy = no_answer(error) if unavailable else (explain(error), "")
                name, other = ("FlowUnreachable", "FlowFailed") if unavailable else ("FlowFailed", "FlowUnreachable")
                log.open(name, str(flow), detail, remedy=remedy, by=WORKER)
                log.resolve(other, str(flow), by=WORKER)
            tries += 1
            self._runners[index] = self._runner(self._flows[index])
            stopped = asyncio.create_task(self._runners[index].stopped())
            await asyncio.wait([stopped], timeout=delay)
            stopped.cancel()
            if self._stops:
                return
            delay = min(RETRY_AT_MOST_S, delay * 2)


def is_unavailable(error: Exception) -> bool:
    """Does `error` say that a cluster does not answer, or not yet?"""
    if isinstance(error, ClusterRefused):
        return error.code in TRANSIENT_REFUSALS
    return not isinstance(error, DrlibError) or error.retriable or isinstance(error, SecurityFault)


def ends_worker(error: Exception, *, fresh: bool, alone: bool, waits: bool, waited_s: float) -> bool:
    """Does an error of one flow end the whole worker?

    `fresh`: the flow has not run, and no other flow may run already; `alone`: the worker has no other flow; `waits`: for
    clusters that do not answer; `waited_s`: since the flow's first try.
    """
    if isinstance(error, SourceLost):
        return True  # drlib.source.loss.policy = fail
    if not waits:
        return not (isinstance(error, BrokerError) and error.retriable and waited_s < STARTING_UP_S)
    if isinstance(error, SecurityFault):
        return fresh and alone  # a wrong password or certificate is a wrong file
    return fresh and not is_unavailable(error)


def pairs_with_heartbeats(settings: MirrorSettings, enabled: Sequence[FlowSettings]) -> tuple[FlowSettings, ...]:
    """The pairs that only write heartbeats, as `MirrorMakerConfig.clusterPairs` chooses them."""
    running = {flow.flow for flow in enabled}
    return tuple(f for f in settings.flows if f.emit_heartbeats and f.flow not in running)


def heartbeats_owner(pair: Flow, enabled: Sequence[Flow]) -> int:
    """The index in `enabled` of the flow whose lane 0 decides which worker writes the heartbeats of `pair`."""
    return enabled.index(pair.reverse) if pair.reverse in enabled else 0


async def _refuse_rings(settings: MirrorSettings, flows: Sequence[FlowSettings]) -> None:
    """Raises `TopicLoop`. Topics created later are checked when they are discovered (`Discovery`)."""
    # A name whose match takes too long is an event of the flow, which looks at it again.
    deciding = [replace(f, on_slow_pattern=lambda key, error: None) for f in flows]
    keeping = [f for f in deciding if isinstance(f.policy, IdentityReplicationPolicy)]
    if not may_return(settings.flows):
        return  # the only cycles are pairs and rings that recognise what was copied
    aliases = sorted({alias for f in keeping for alias in (f.flow.source, f.flow.target)})
    if not find_cycle([(f.flow, lambda _: True) for f in keeping], "any"):
        return
    # Topics that the file names or matches count whether or not they exist yet.
    topics = {pattern.replace(".*", "any-topic") for f in keeping for pattern in f.topics}
    for alias in aliases:
        client = wire_client(settings.clusters[alias], client_id="drlib-rings")
        try:
            topics |= set((await client.metadata(None)).topics)
        except (Unreachable, SecurityFault):
            continue  # its flow is restarted, and checks each topic it discovers
        finally:
            await client.close()
    refuse_cycles([(f.flow, f.mirrors_topic) for f in keeping], topics)


def run(
    settings: MirrorSettings,
    *,
    status_path: Path | None = None,
    metrics_address: str | None = None,
    memory_bytes: int = memory.DEFAULT_WORKER,
    on_state: Callable[[status.WorkerStatus], None] | None = None,
    until: Callable[[status.WorkerStatus], bool] | None = None,
    name: str = "",
    waits: bool = True,
) -> None:
    """`mirror` on uvloop where it installs; raises the first error itself, not a group of them."""
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None
    share_arenas()
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
                    waits=waits,
                )
            )
    except BaseExceptionGroup as group:
        raise first_error(group) from group
