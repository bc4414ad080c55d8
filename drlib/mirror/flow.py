"""One flow: starts it against its two clusters, and runs the lanes that the consumer group assigns to this worker.

Rules: a lane whose partitions changed drains and claims again over the new set. A lane that was assigned to another worker
drains beside the membership's heartbeats, and starts again here only when it has ended. Configs, ACLs and group offsets are
synchronized by the owner of lane 0 (`drlib.mirror.sync`). Only a lane or the membership can end the flow; the services beside
them are started again (`drlib.mirror.side_services`). The source is only read, apart from MM2's offset-syncs topic
where the file places it there.
Longer than most modules: starting, running and stopping lanes share the state of one flow.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from drlib import clock
from drlib.config.both_ways.rings import Ring, hops_of
from drlib.config.both_ways.shared_topics import journals_of, shared_topics, shares_every_topic
from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import IdentityReplicationPolicy
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.connect import wire_client
from drlib.kafka.net.api_versions import UnsupportedRequest
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.discovery import ASKED_REFRESH_S, LONGEST_ASKED_S, Discovery, wait_for_refresh
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.engine.fencing.membership import Membership
from drlib.mirror.engine.fencing.producer_expiration import Expiry
from drlib.mirror.engine.fetch.context import LaneContext
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import PartitionStream, PlannedBatch
from drlib.mirror.engine.lane.lane import Housekeeping, Lane
from drlib.mirror.engine.lane.parked_partitions import PREFLIGHT
from drlib.mirror.engine.lane.state import LaneState
from drlib.mirror.engine.reverse.appends import Appends
from drlib.mirror.engine.reverse.journal import JournalTopic, ReverseJournal
from drlib.mirror.errors import SourceLost, log_traceback
from drlib.mirror.journal.entries import Entry
from drlib.mirror.mm2.checkpoint_log import read_log
from drlib.mirror.mm2.offset_syncs import OffsetSyncWriter
from drlib.mirror.mm2.takeover import TakeoverReader
from drlib.mirror.mm2.writer import Mm2Writer, WriterFailed
from drlib.mirror.monitor.cluster_watch import watch
from drlib.mirror.monitor.flow_status import flow_status
from drlib.mirror.monitor.lag_monitor import LagMonitor
from drlib.mirror.offsets.comparison.compare_logs import ComparedPartition, LogComparison
from drlib.mirror.offsets.comparison.own_records import OwnRecordsSearch, Words
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.translation.shared_followed import FollowedBack
from drlib.mirror.preflight.checks import Grants, Preflight
from drlib.mirror.preflight.failed_over import LOOK_S, FailedOverWatch
from drlib.mirror.preflight.way_back import LOOK_S as WAY_BACK_S
from drlib.mirror.preflight.way_back import reason_to_stop, way_back
from drlib.mirror.read_batches import locate, until_listed
from drlib.mirror.side_services import keep_running, retract_when
from drlib.mirror.source_producers.recorder import ProducerRecorder
from drlib.mirror.stall_watch import watch_progress
from drlib.mirror.status.worker_status import EventLog, FlowStatus
from drlib.mirror.sync.create_topics import MirrorTopics
from drlib.mirror.sync.group_offsets import BothWays
from drlib.mirror.sync.internal_topics import (
    InternalTopicsWatch,
    adjust_journal,
    create_missing,
    internal_topics,
    journal_topic,
    read_expiry,
)
from drlib.mirror.sync.source_groups import GroupPositions
from drlib.mirror.sync.tasks import SyncTasks
from drlib.mirror.transactions.recorder import TransactionRecorder
from drlib.model import TopicPartition

WORKER = "worker"  # reports the events that outlive a restart of the flow
DRAIN_S = 10.0
OFFSET_SYNC_COMMIT_S = 1.0
# Events that already explain why topics can be neither listed nor created.
SAME_CAUSE = frozenset({"SourceUnreachable", "TargetUnreachable", "SourceSlow", "TargetSlow", "LaneFault"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSetup:
    """What a flow runs with. `keeping`: the worker's flows that keep topic names, where a record may return; `worker`: as
    named in claims; `worker_id`: what identifies it in the groups of all its flows; `reverse`: the flow back in the file,
    enabled or not; `flows`: all of it; `ring`: of those that keep topic names, the ring that it is in; `stopped`: by source
    topic, why it is not copied any more although the file says so; `appends`: what the lanes of the worker appended last."""

    settings: FlowSettings
    source: ClusterSettings
    target: ClusterSettings
    worker: str
    events: EventLog
    worker_id: bytes
    memory: Memory = field(default_factory=Memory)
    keeping: Sequence[FlowSettings] = ()
    reverse: FlowSettings | None = None
    flows: Sequence[FlowSettings] = ()
    ring: Ring | None = None
    stopped: dict[str, str] = field(default_factory=dict)
    appends: Appends = field(default_factory=Appends)
    housekeeping: Housekeeping = field(default_factory=Housekeeping)

    @property
    def aliases(self) -> frozenset[str]:
        """Of the file's clusters: `flows` has every pair of them."""
        return frozenset(each.flow.source for each in self.flows)

    @property
    def grants(self) -> Grants:
        return Grants(self.settings, self.source, self.target, self.flows)

    @property
    def journal_topic(self) -> str:
        return self.settings.policy.journal_topic(self.settings.flow.source)


class FlowRunner:
    """Starts a flow and runs it until `stop`; for a restart a new one is made."""

    def __init__(self, setup: FlowSetup) -> None:
        self.setup = setup
        self.running: RunningFlow | None = None
        self._stop = asyncio.Event()
        self._ending = asyncio.Event()  # of what runs now
        self._waits = False
        self._unasked = False  # whether the flow is failed over
        # Does it run on when it is failed over? What only the source has is then one more record of topics that both write.
        self._keeps_on = shares_every_topic(setup.settings, setup.reverse, setup.flows)

    def stop(self) -> None:
        self._stop.set()
        self._ending.set()

    async def stopped(self) -> None:
        """Return when `stop` was called."""
        await self._stop.wait()

    @property
    def ready(self) -> bool:
        """Is this worker a member of the group, and do all lanes assigned to it run? True also without any lane, and while
        the flow is failed over."""
        return self._waits or (self.running is not None and self.running.ready)

    @property
    def owns_first_lane(self) -> bool:
        """Does this worker do what one worker does for the whole flow?"""
        return self.running is not None and self.running.owns_first_lane

    def status(self) -> FlowStatus:
        if self.running is None:
            return FlowStatus(str(self.setup.settings.flow), (), (), 0, 0)
        return self.running.status()

    async def run(self) -> None:
        """Connect, then mirror until stopped; what was fetched is then sent, acknowledged and journaled.

        While the flow is failed over it is not mirrored, and this worker is no member of its group. Raises what cannot be
        waited out.
        """
        setup, settings = self.setup, self.setup.settings
        source = wire_client(setup.source, client_id=settings.client_id(settings.flow.source))
        target = wire_client(setup.target, client_id=settings.client_id(settings.flow.target), as_target=True)
        watch = FailedOverWatch(settings.flow, setup.source, setup.target, target, setup.events, WORKER)
        try:
            while await self._until_released(watch):
                started = await self._start(source, target)
                if self._unasked and await watch.look() is not None:
                    await asyncio.to_thread(started.writer.close, 1.0)
                    continue
                for name in ("FlowUnreachable", "FlowFailed"):
                    setup.events.resolve(name, str(settings.flow), by=WORKER)
                self.running = RunningFlow(setup, started)
                watching = asyncio.create_task(self._watch(watch))
                try:
                    await self.running.run(self._ending)
                finally:
                    watching.cancel()
                    await asyncio.gather(watching, return_exceptions=True)
                if self._stop.is_set():
                    return
                setup.events.retract_others(WORKER)
                self.running = None
                self._ending.clear()
        finally:
            setup.events.retract_others(WORKER)  # the flow's other reporters have ended with it
            await source.close()
            await target.close()

    async def _until_released(self, watch: FailedOverWatch) -> bool:
        """Wait while the flow is failed over, and report it; False when stopped. A target that does not answer is left to the
        start, which names both clusters."""
        flow, events = str(self.setup.settings.flow), self.setup.events
        while not self._stop.is_set() and not self._keeps_on:
            try:
                record, self._unasked = await watch.look(), False
            except (DrlibError, TimeoutError, OSError):
                record, self._unasked = None, True
            if record is None:
                break
            self._waits = True
            for name in ("FlowUnreachable", "FlowFailed"):
                events.resolve(name, flow, by=WORKER)
            events.open("FlowFailedOver", flow, f"it is {record.state}, by run {record.run or 'unknown'}", by=WORKER)
            await self._pause()
        self._waits = False
        events.resolve("FlowFailedOver", flow, by=WORKER)
        return not self._stop.is_set()

    async def _watch(self, watch: FailedOverWatch) -> None:
        """End what runs when the flow is failed over."""
        if self._keeps_on:
            return
        while not self._stop.is_set():
            await self._pause()
            with contextlib.suppress(
                DrlibError, TimeoutError, OSError
            ):  # the lanes report a target that does not answer
                if await watch.look() is not None:
                    break
        self._ending.set()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._stop.wait()

    async def _start(self, source: ClusterClient, target: ClusterClient) -> StartedFlow:
        setup, settings, events = self.setup, self.setup.settings, self.setup.events
        checks = Preflight(settings, setup.source, setup.target, source, target, setup.flows)
        for notice in await checks.run():
            events.open(notice.event, notice.entity, f"{notice.detail}. {notice.remedy}", by=PREFLIGHT)
        takeover = TakeoverReader(settings, source, target, events)
        await takeover.refuse_running()
        both, ring = shared_topics(settings, setup.reverse, setup.flows), setup.ring
        if both is not None and setup.reverse is not None:  # its copies would be taken for records of clients
            await TakeoverReader(setup.reverse, target, source, events).refuse_running()
        if (looking := way_back(settings, setup.reverse, source, target)) is not None:
            await looking.refuse(events)
        mirrors = MirrorTopics(settings, setup.source, setup.target, events)
        shared = both if ring is None else ring.shares
        discovery = Discovery(settings, source, target, mirrors, events, keeping=setup.keeping, shared=shared)
        on_target, on_source = internal_topics(settings)
        journals = [journal_topic(settings, hop) for hop in hops_of(ring)]
        on_target += journals[1:]
        incoming = journals_of(settings, setup.flows).incoming
        # What tells its copies is there before anything is read.
        theirs = [] if incoming is None else [journal_topic(incoming, hop) for hop in hops_of(ring)]
        admin_s = settings.admin_timeout_ms / 1000
        _, _, _, expiry = await asyncio.gather(  # over a long link each of these is many round trips
            discovery.refresh(),
            asyncio.to_thread(create_missing, setup.target, on_target, admin_s),
            asyncio.to_thread(create_missing, setup.source, on_source, admin_s, others=theirs),
            asyncio.to_thread(read_expiry, setup.target, admin_s, events),
        )
        await asyncio.gather(
            until_listed(target, {each.name: settings.lanes for each in journals}),
            until_listed(source, {each.name: each.partitions for each in theirs}),  # the other flow may create them
            *(asyncio.to_thread(adjust_journal, setup.target, each.name, admin_s, events) for each in journals),
        )
        writer = Mm2Writer(settings, setup.source, setup.target, events)
        return StartedFlow(source, target, takeover, discovery, expiry, writer)


@dataclass(frozen=True, slots=True)
class StartedFlow:
    """Connections and services of a flow whose clusters have answered and whose topics exist."""

    source: ClusterClient
    target: ClusterClient
    takeover: TakeoverReader
    discovery: Discovery
    expiry: Expiry
    writer: Mm2Writer


class RunningFlow:
    """A started flow: its membership, its lanes, and the tasks beside them. Observes the progress of the lanes."""

    def __init__(self, setup: FlowSetup, started: StartedFlow) -> None:
        self._setup = setup
        self._settings = settings = setup.settings
        self._events = setup.events
        self._source, self._target = started.source, started.target
        self._takeover = started.takeover
        self._discovery = started.discovery
        self._expiry = started.expiry
        self._writer = started.writer
        self._lanes: dict[int, Lane] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._draining: dict[int, asyncio.Task[None]] = {}  # lanes that are no longer assigned to this worker
        self._streams: dict[TopicPartition, PartitionStream] = {}
        self._records = 0
        self._bytes = 0
        self._syncs = OffsetSyncWriter(settings.offset_lag_max)
        self._back = _followed_back(setup, self._source)
        self._groups = GroupPositions(
            settings,
            setup.source,
            self._source,
            self._writer,
            self._events,
            self._streams.get,
            self._back,
            lambda: read_log(setup.target, settings.policy.checkpoints_topic(settings.flow.source)),
        )
        self._lag_monitor = LagMonitor(settings, setup.source, self._source, self._events, self._lane_streams)
        self._comparison = LogComparison(self._source, self._target, self._compared_partitions, self._events)
        self._own_records = OwnRecordsSearch(
            flow=settings.flow,
            source=self._source,
            target=self._target,
            partitions=self._compared_partitions,
            compared=self._comparison.is_through,
            words=Words(settings.own_records_journal.lower(), settings.copied_records_journal.lower()),
            journal_id=self._journal_id,
            now_ms=clock.now_ms,
            events=self._events,
        )
        self.membership = Membership(
            self._target,
            worker_group(settings.flow),
            setup.journal_topic,
            settings.lanes,
            settings.session_timeout_ms,
            self._on_assignment,
            self._on_membership,
            settings.mirrored_digest,
            setup.worker_id,
            self._on_differing,
        )
        self._context = LaneContext(
            self._source,
            self._target,
            self.membership,
            self._events,
            setup.memory,
            self._expiry,
            settings.source_loss_policy,
            settings.start,
            settings.source_rack,
            _reverse_journal(setup, self._source, self._target),
            settings.own_records_journal.lower(),
            len(setup.aliases) == 2 or setup.ring is not None,
            setup.stopped if isinstance(settings.policy, IdentityReplicationPolicy) else None,
            setup.appends,
        )
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def ready(self) -> bool:
        # Having joined is not enough: the assignment comes with the next response.
        if not self.membership.may_send():
            return False
        running = {number for number, lane in self._lanes.items() if lane.state is LaneState.RUNNING}
        return running >= self._with_relays(self.membership.owned)

    @property
    def owns_first_lane(self) -> bool:
        return 0 in self._lanes

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop`, then drain. Raises what cannot be waited out."""
        flow = self._settings.flow
        services: dict[str, Callable[[], Awaitable[None]]] = {
            "groups": self._groups.run,
            "topics": self._refresh,
            "heartbeats and offset syncs": self._emit_heartbeats,
            **self._sync_tasks().services(),
            "internal topics": self._internal_topics_watch().run,
            "lag": self._lag_monitor.run,
            "comparison": self._comparison.run,
            "own records": self._own_records.run,
            "transactions": TransactionRecorder(self._settings, self._source, lambda: self._lanes.get(0)).run,
            "producers": ProducerRecorder(self._source, self._own_lanes).run,
            "preflight": lambda: retract_when(lambda: self.ready, self._events, PREFLIGHT),
            "progress": lambda: watch_progress(self._live_lanes, self._lag_monitor, self._held_up, self._events),
            "way back": self._watch_way_back,
            "source watch": lambda: watch("Source", flow.source, self._source, self._events),
            "target watch": lambda: watch("Target", flow.target, self._target, self._events),
        }
        tasks = [
            asyncio.create_task(self.membership.run()),
            *(asyncio.create_task(keep_running(f"{flow} {n}", s, self._events)) for n, s in services.items()),
        ]
        stopping = asyncio.create_task(stop.wait())
        endings: set[asyncio.Future[Any]] = {*tasks, self._lost, stopping}
        try:
            done, _ = await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            for lane in self._lanes.values():
                lane.stop()
            if ending := [*self._tasks.values(), *self._draining.values()]:
                await asyncio.wait(ending, timeout=DRAIN_S)
            with contextlib.suppress(WriterFailed):
                self._groups.emit()
                self._syncs.commit()
                self._writer.offset_syncs(self._syncs.take_due())
        finally:
            stopping.cancel()
            self._lost.cancel()
            tasks += [*self._tasks.values(), *self._draining.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(self._writer.close, 5.0)

    def _held_up(self) -> str:
        """What the worker keeps in memory, and which cluster pauses it because of a quota."""
        return "; ".join(filter(None, (self._setup.memory.in_words(), self._source.throttled, self._target.throttled)))

    async def _watch_way_back(self) -> None:
        """Stop topics that another replicator began to copy back under the same name."""
        setup = self._setup
        looking = way_back(setup.settings, setup.reverse, self._source, self._target)
        while True:
            await asyncio.sleep(WAY_BACK_S)
            found = await looking.find() if looking is not None else {}
            for topic, why in found.items():
                reason = setup.stopped[topic] = reason_to_stop(topic, setup.stopped.get(topic, ""), why)
                for lane in self._lanes.values():
                    lane.stop_topic(topic, reason)

    # -- topics --------------------------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        failed_before = False
        pause = ASKED_REFRESH_S
        interval_s: float = self._settings.refresh_topics_s
        if self._setup.ring is not None:  # a new topic is created from cluster to cluster before any of it is copied
            interval_s = min(interval_s, LONGEST_ASKED_S)
        while True:
            if self._discovery.expects_topics:
                self._context.missing_mirrors.set()
            asked = await wait_for_refresh(self._context.missing_mirrors, pause, interval_s)
            if not self._settings.refresh_topics and not asked:
                continue
            pause = min(pause * 2, LONGEST_ASKED_S) if asked else ASKED_REFRESH_S
            try:
                if await self._discovery.refresh(only_known=not self._settings.refresh_topics):
                    for number, lane in self._lanes.items():
                        if lane.topics != self._discovery.share(number):
                            lane.reassign(self._discovery.share(number))
                    self._forget_streams()
                failed_before = False
                self._events.resolve("DiscoveryFailed", str(self._settings.flow))
            except (Unreachable, BrokerError, DrlibError, TimeoutError, OSError) as error:
                unreachable = isinstance(error, Unreachable | TimeoutError | OSError)
                if unreachable and not failed_before:
                    failed_before = True
                    continue  # the lanes report an unreachable cluster themselves
                if any(e.resolved_ms is None and e.name in SAME_CAUSE for e in self._events.snapshot()):
                    continue
                self._events.open("DiscoveryFailed", str(self._settings.flow), str(error))

    def _internal_topics_watch(self) -> InternalTopicsWatch:
        def rewrite() -> None:
            self._groups.rewrite()
            self._syncs.rewrite()

        source, target = (self._source, self._setup.source), (self._target, self._setup.target)
        return InternalTopicsWatch(self._settings, source, target, self._events, rewrite)

    def _sync_tasks(self) -> SyncTasks:
        shared = shared_topics(self._settings, self._setup.reverse, self._setup.flows)
        return SyncTasks(
            self._settings,
            (self._source, self._setup.source),
            (self._target, self._setup.target),
            self._events,
            self._discovery.one_way_ids,
            self._groups.positions,
            lambda: self._lanes.get(0),
            lambda: self.owns_first_lane and self.membership.may_send(),
            self._setup.reverse,
            self._setup.aliases,
            None if self._back is None or shared is None else BothWays(shared, self._back),
            self._discovery.topic_ids if self._setup.ring is None else self._discovery.one_way_ids,
        )

    # -- lanes ---------------------------------------------------------------------------------------------------

    def _own_lanes(self) -> list[Lane]:
        """Those that are no relays: each partition is in one of them."""
        return [lane for number, lane in self._lanes.items() if number < self._settings.lanes]

    def _with_relays(self, lanes: Collection[int]) -> set[int]:
        """The lanes that run where `lanes` of the flow are assigned to this worker."""
        return {number + hop * self._settings.lanes for number in lanes for hop in hops_of(self._setup.ring)}

    def _lane_streams(self) -> list[PartitionStream]:
        return [stream for lane in self._own_lanes() for stream in lane.streams]

    def _compared_partitions(self) -> Iterator[ComparedPartition]:
        """The partitions that this worker copies and another replicator began."""
        for lane in self._lanes.values():
            for stream in lane.streams if lane.state is LaneState.RUNNING else ():
                if stream.map.taken is not None and stream.target_id is not None and not stream.parked:
                    yield ComparedPartition(
                        key=stream.key,
                        source=stream.source,
                        target=stream.target,
                        target_id=stream.target_id,
                        map=stream.map,
                        journal=partial(self._journal_compared, lane, stream),
                        busy=self._records_wait,
                        shared=stream.shared,
                    )

    async def _journal_id(self) -> str:
        topic_id, _ = await locate(self._target, TopicPartition(self._setup.journal_topic, 0))
        return str(topic_id)

    async def _journal_compared(self, lane: Lane, stream: PartitionStream, entries: Sequence[Entry]) -> bool:
        # A later claim has another map, and may have gone further than the one that was compared with.
        return stream in lane.streams and await lane.journal_beside(entries)

    def _records_wait(self) -> bool:
        """Has the source more than was read, or were records read that are not sent?"""
        streams = (stream for stream in self._lane_streams() if not stream.parked)
        return any(stream.queue or stream.position < stream.high_watermark for stream in streams)

    def _live_lanes(self) -> list[Lane]:
        """Lanes that run, also those that claim; one that has ended is `LaneFailed`."""
        return [lane for number, lane in self._lanes.items() if not self._tasks[number].done()]

    def _on_membership(self, refused: BrokerError | UnsupportedRequest | None) -> None:
        """Report why this worker cannot be a member of the flow's group, or that it is one."""
        flow = str(self._settings.flow)
        if refused is None:
            self._events.resolve("MembershipRefused", flow)
            return
        explained = self._setup.grants.membership(refused)
        self._events.open("MembershipRefused", flow, f"{explained.what}: {explained.why}", remedy=explained.remedy)

    def _on_differing(self, members: Sequence[str]) -> None:
        """Report workers of the flow that mirror something else, or that there are none."""
        flow = str(self._settings.flow)
        if not members:
            self._events.resolve("WorkersDiffer", flow)
            return
        self._events.open(
            "WorkersDiffer", flow, f"they have other topics or names than this worker: {', '.join(members)}"
        )

    def _on_assignment(self, lanes: Collection[int]) -> None:
        """Stop the lanes that are no longer assigned to this worker and start the new ones."""
        lanes = self._with_relays(lanes)
        for number in [n for n in self._lanes if n not in lanes]:
            self._lanes.pop(number).stop()
            self._draining[number] = asyncio.create_task(self._drain(number, self._tasks.pop(number)))
        for number in sorted(lanes):
            if number not in self._lanes:
                self._start_lane(number)

    async def _drain(self, number: int, task: asyncio.Task[None]) -> None:
        with contextlib.suppress(Exception):  # `_on_lane_ended` reports it
            async with asyncio.timeout(DRAIN_S / 2):
                await task
        self._events.resolve("LaneFailed", f"{self._settings.flow} lane {number}")
        self._forget_streams()

    def _forget_streams(self) -> None:
        """Forget partitions that no lane of this worker mirrors now: another worker translates their groups' positions."""
        lanes = self._lanes.values()
        kept = {TopicPartition(t.source, n) for lane in lanes for t in lane.topics for n in t.partitions}
        for gone in self._streams.keys() - kept:
            del self._streams[gone]
            self._syncs.forget(gone)

    async def _run_lane(self, lane: Lane, former: asyncio.Task[None] | None) -> None:
        if former is not None:
            await asyncio.gather(former, return_exceptions=True)
        await lane.run()

    def _start_lane(self, number: int) -> None:
        setup, flow = self._setup, self._settings.flow
        hop, partition = divmod(number, self._settings.lanes)
        name = f"drlib.{flow.source}.{flow.target}.{f'relay{hop}.' if hop else ''}{partition}"
        lane = Lane(
            name=name,
            journal_partition=TopicPartition(self._settings.policy.journal_topic(flow.source, hop), partition),
            topics=self._discovery.share(number),
            context=replace(self._context, events=self._events.reporter(name)),  # what it reports ends with it
            observer=self,
            takeover=self._takeover,
            worker=setup.worker,
            housekeeping=setup.housekeeping,
            grants=setup.grants,
        )
        self._events.register_lane(lane.name, str(flow))
        self._lanes[number] = lane
        self._tasks[number] = asyncio.create_task(self._run_lane(lane, self._draining.get(number)))
        self._tasks[number].add_done_callback(partial(self._on_lane_ended, number=number))

    def _on_lane_ended(self, task: asyncio.Task[None], *, number: int) -> None:
        """Report a lane that ended with an error while assigned to this worker; `SourceLost` ends the flow."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, SourceLost) and not self._lost.done():
            self._lost.set_exception(error)
        elif error is not None:
            what = str(error) if isinstance(error, DrlibError) else f"unexpected {type(error).__name__}: {error}"
            self._events.open("LaneFailed", f"{self._settings.flow} lane {number}", what)
            log_traceback(error)

    # -- lane.produce_loop.Observer ------------------------------------------------------------------------------

    def progressed(self, stream: PartitionStream) -> None:
        if stream.shared and self._setup.ring is not None:  # no position of a group is known in a ring
            if not stream.hop:
                self._lag_monitor.progressed(stream)
            return
        if self._streams.get(stream.source) is not stream:
            self._streams[stream.source] = stream
            self._groups.assigned(stream.source)
        self._groups.progressed(stream.source)
        self._lag_monitor.progressed(stream)

    def acked(self, stream: PartitionStream, item: PlannedBatch) -> None:
        target = item.target
        for source, count in item.pieces if not stream.shared else ():
            self._syncs.acked_run(stream.source, source, target, count)
            target += count
        self._records += item.batch.count
        self._bytes += item.batch.size
        if not stream.hop:
            self._lag_monitor.acked(stream, item)
        self.progressed(stream)

    async def _emit_heartbeats(self) -> None:
        """Write MM2 heartbeats while lane 0 is ours, and the offset syncs of our own partitions."""
        beat_at = commit_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            if self._settings.emit_heartbeats and self.owns_first_lane and now >= beat_at:
                self._writer.heartbeat()
                beat_at = now + self._settings.emit_heartbeats_s
            if now >= commit_at:
                self._syncs.commit()
                commit_at = now + OFFSET_SYNC_COMMIT_S
            if self._settings.emit_offset_syncs:
                self._writer.offset_syncs(self._syncs.take_due())
            await asyncio.sleep(0.1)

    # -- status --------------------------------------------------------------------------------------------------

    def status(self) -> FlowStatus:
        settings, memory = self._settings, self._setup.memory
        if not self._lanes:
            return FlowStatus(str(settings.flow), (), (), self._records, self._bytes, lane_count=settings.lanes)
        counted = self._records, self._bytes
        return flow_status(settings, self._lanes, self._lag_monitor, self._comparison, self._expiry, *counted, memory)


def _followed_back(setup: FlowSetup, source: ClusterClient) -> FollowedBack | None:
    """The maps of the flow back, where there may be topics that both directions copy."""
    reverse = setup.reverse
    if reverse is None or shared_topics(setup.settings, reverse, setup.flows) is None:
        return None
    return FollowedBack(source, reverse, lambda topic, partition: lane_of(topic, partition, reverse.lanes))


def _reverse_journal(setup: FlowSetup, source: ClusterClient, target: ClusterClient) -> ReverseJournal | None:
    """What tells the reverse flow's copies, also where it was switched off since; None where names have a prefix."""
    reverse, settings = setup.reverse, setup.settings
    journals = journals_of(settings, setup.flows)
    if (ring := setup.ring) is not None:
        own = [JournalTopic(target, name, settings.lanes) for name in journals.own]
        first, *relays = journals.theirs
        return ReverseJournal(source, first, ring.incoming.lanes, own_lanes=settings.lanes, relays=relays, own=own)
    if reverse is None or not isinstance(settings.policy, IdentityReplicationPolicy):
        return None
    others = [
        JournalTopic(source, each.policy.journal_topic(each.flow.source), each.lanes)
        for each in setup.flows
        if each.flow.target == settings.flow.source and each.flow != reverse.flow
    ]
    topic = reverse.policy.journal_topic(reverse.flow.source)
    return ReverseJournal(source, topic, reverse.lanes, own_lanes=settings.lanes, others=others)
