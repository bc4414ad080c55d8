"""One flow: finds what to mirror, makes the mirror topics, and runs the lanes the group gives this worker.

Rules: topics are found anew at every refresh; a lane whose partitions changed drains and claims again over the new set.
A topic that is deleted on the source, or refused by the target, is an event of its own and the others go on
(`mirror_topics`). Settings, ACL rules and group positions are kept in step by the owner of lane 0 (`duty`, `sync_*`). The
source is only read (MM2's offset-syncs topic apart, where the file asks for it).
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from drlib.config.patterns.missing_topics import missing_topics
from drlib.config.settings import FlowSettings
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.connect import wire_client
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.engine.fencing.membership import Membership
from drlib.mirror.engine.fencing.producer_expiration import Expiry
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import Outgoing, PartitionStream
from drlib.mirror.engine.lane.lane import Housekeeping, Lane
from drlib.mirror.engine.lane.state import LaneState
from drlib.mirror.engine.lane.topics import LaneTopic
from drlib.mirror.errors import SourceLost
from drlib.mirror.mm2.offset_syncs import OffsetSyncWriter
from drlib.mirror.mm2.takeover import TakeoverReader
from drlib.mirror.mm2.writer import Mm2Writer
from drlib.mirror.monitor.cluster_watch import watch
from drlib.mirror.monitor.flow_status import flow_status
from drlib.mirror.monitor.lag_monitor import Forecasts
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.preflight.checks import Grants, Preflight
from drlib.mirror.preflight.cycles import find_cycle
from drlib.mirror.read_batches import until_listed
from drlib.mirror.status.worker_status import EventLog, FlowStatus
from drlib.mirror.sync.create_topics import MirrorTopics
from drlib.mirror.sync.internal_topics import internal_topics, make, read_expiry
from drlib.mirror.sync.source_groups import GroupPositions
from drlib.mirror.sync.tasks import SyncTasks
from drlib.model import TopicPartition

WORKER = "worker"  # who reports what outlives a flow that is begun anew
DRAIN_S = 10.0
OFFSET_SYNC_COMMIT_S = 1.0
# What says already why topics can neither be listed nor made.
SAME_FAULT = frozenset({"SourceUnreachable", "TargetUnreachable", "SourceSlow", "TargetSlow", "LaneFault"})


def _partitions(metadata: ClusterMetadata, topic: str) -> int:
    found = metadata.topics.get(topic)
    return len(found.partitions) if found else 0


@dataclass
class FlowRunner:
    """Runs until `stop`; `run` raises what cannot be waited out."""

    settings: FlowSettings
    source_settings: ClusterSettings
    target_settings: ClusterSettings
    worker: str
    events: EventLog
    memory: Memory = field(default_factory=Memory)
    keeping: Sequence[FlowSettings] = ()  # every flow of this worker that keeps names, to see rings
    housekeeping: Housekeeping = field(default_factory=Housekeeping)
    _expiry: Expiry = field(default_factory=Expiry)
    _lanes: dict[int, Lane] = field(default_factory=dict)
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    _streams: dict[TopicPartition, PartitionStream] = field(default_factory=dict)
    _topics: dict[int, tuple[LaneTopic, ...]] = field(default_factory=dict)
    _member: Membership | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _absent: set[str] = field(default_factory=set)
    _lost: asyncio.Future[None] = field(init=False)
    _records: int = 0
    _bytes: int = 0

    def stop(self) -> None:
        self._stop.set()

    async def stopped(self) -> None:
        """Return when `stop` was called."""
        await self._stop.wait()

    @property
    def ready(self) -> bool:
        """A member of the group whose lanes all run; a worker more than there are lanes stands by and is ready too."""
        if (
            self._member is None or not self._member.may_send()
        ):  # joined is not enough: the lanes come with the answer after
            return False
        running = [number for number, lane in self._lanes.items() if lane.state is LaneState.RUNNING]
        return frozenset(running) >= self._member.owned

    async def run(self) -> None:
        """Connect, then mirror until stopped; what was fetched is then sent, acknowledged and journaled."""
        flow = self.settings.flow
        self._source = wire_client(self.source_settings, client_id=self.settings.client_id(flow.source))
        self._target = wire_client(self.target_settings, client_id=self.settings.client_id(flow.target))
        try:
            await self._preflight()
            self.events.resolve("FlowUnreachable", str(flow), by=WORKER)
            self._takeover = TakeoverReader(self.settings, self._source, self._target, self.events)
            await self._takeover.refuse_running()
            self._mirrors = MirrorTopics(self.settings, self.source_settings, self.target_settings, self.events)
            on_target, on_source = internal_topics(self.settings)
            admin_s = self.settings.admin_timeout_ms / 1000
            _, _, _, self._expiry = await asyncio.gather(  # over a long link each of these is many round trips
                self._discover(),
                asyncio.to_thread(make, self.target_settings, on_target, admin_s),
                asyncio.to_thread(make, self.source_settings, on_source, admin_s),
                asyncio.to_thread(read_expiry, self.target_settings, admin_s, self.events),
            )
            if self._mirrors.refused and not any(self._topics.values()):
                raise next(iter(self._mirrors.refused.values()))  # nothing at all can be mirrored: say so and end
            await until_listed(self._target, {self.journal_topic: self.settings.lanes})
            self._writer = Mm2Writer(self.settings, self.source_settings, self.target_settings)
            self._syncs = OffsetSyncWriter(self.settings.offset_lag_max)
            self._groups = GroupPositions(
                self.settings, self.source_settings, self._source, self._writer, self.events, self._streams.get
            )
            self._forecasts = Forecasts(
                self.settings,
                self.source_settings,
                self._source,
                self.events,
                lambda: [stream for lane in self._lanes.values() for stream in lane.streams],
            )
            self.membership = self._member = Membership(
                self._target,
                worker_group(flow),
                self.journal_topic,
                self.settings.lanes,
                self.settings.session_timeout_ms,
                self._on_assignment,
            )
            await self._until_stopped()
        finally:
            self.events.retract_others(WORKER)  # whoever reported for this flow has ended with it
            await self._source.close()
            await self._target.close()

    async def _preflight(self) -> None:
        checks = Preflight(self.settings, self.source_settings, self.target_settings, self._source, self._target)
        for notice in await checks.run():
            self.events.open(notice.event, notice.entity, f"{notice.detail}. {notice.remedy}")

    @property
    def journal_topic(self) -> str:
        return self.settings.policy.journal_topic(self.settings.flow.source)

    async def _until_stopped(self) -> None:
        duties = [
            asyncio.create_task(self.membership.run()),
            asyncio.create_task(self._groups.run()),
            asyncio.create_task(self._refresh()),
            asyncio.create_task(self._emit_heartbeats()),
            *(asyncio.create_task(duty) for duty in self._in_step().duties()),
            asyncio.create_task(self._forecasts.run()),
            asyncio.create_task(watch("Source", self.settings.flow.source, self._source, self.events)),
            asyncio.create_task(watch("Target", self.settings.flow.target, self._target, self.events)),
        ]
        stopping = asyncio.create_task(self._stop.wait())
        self._lost = asyncio.get_running_loop().create_future()
        ends: set[asyncio.Future[Any]] = {*duties, self._lost, stopping}
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            for lane in self._lanes.values():
                lane.stop()
            if self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=DRAIN_S)
            self._groups.emit()
            self._syncs.commit()
            self._writer.offset_syncs(self._syncs.take_due())
        finally:
            stopping.cancel()
            self._lost.cancel()
            for task in (*duties, *self._tasks.values()):
                task.cancel()
            await asyncio.gather(*duties, *self._tasks.values(), return_exceptions=True)
            await asyncio.to_thread(self._writer.close, 5.0)

    # -- topics --------------------------------------------------------------------------------------------------

    async def _discover(self) -> bool:
        """Look for topics and partitions; True when a lane's share changed."""
        policy, flow = self.settings.policy, self.settings.flow
        metadata, there = await asyncio.gather(self._source.metadata(None), self._target.metadata(None))
        found = {
            name: topic
            for name, topic in metadata.topics.items()
            if topic.error_code == 0 and self.settings.mirrors_topic(name) and not self._is_in_cycle(name)
        }
        self._tell_absent(metadata)
        known = {topic.source for topics in self._topics.values() for topic in topics}
        gone = await self._mirrors.gone(self._source, known - found.keys())
        self._mirrors.found(found)
        have = {name: _partitions(there, policy.remote_topic(flow.source, name)) for name in found}
        have |= await self._hidden_mirrors([name for name, count in have.items() if not count])
        missing = {n: len(topic.partitions) for n, topic in found.items() if len(topic.partitions) > have[n]}
        self._mirrors.lacking(missing)
        if missing:
            have = await asyncio.to_thread(self._mirrors.make, missing, have)
            made = {policy.remote_topic(flow.source, name): have[name] for name in missing if have[name]}
            await until_listed(self._target, made)  # what is not by then is told by whoever needs it
        shares: dict[int, list[LaneTopic]] = defaultdict(list)
        for lane, topics in self._topics.items():
            for old in topics:
                if (
                    old.source not in found and old.source not in gone
                ):  # left out of the list, and there when asked for by name
                    shares[lane].append(old)
        for name, topic in sorted(found.items()):
            numbers: dict[int, list[int]] = defaultdict(list)
            for number in sorted(n for n in topic.partitions if n < have[name]):
                numbers[lane_of(name, number, self.settings.lanes)].append(number)
            for lane, mine in numbers.items():
                shares[lane].append(
                    LaneTopic(
                        name,
                        topic.topic_id,
                        policy.remote_topic(flow.source, name),
                        tuple(mine),
                        self.settings.remirrors_topic(name),
                    )
                )
        shared = {lane: tuple(sorted(shares[lane], key=lambda t: t.source)) for lane in range(self.settings.lanes)}
        changed = shared != self._topics
        self._topics = shared
        return changed

    async def _hidden_mirrors(self, names: Collection[str]) -> dict[str, int]:
        """Partitions, as they were, of the mirror topics we copied to and that the target does not show us any more."""
        before: dict[str, int] = defaultdict(int)
        for topic in (topic for topics in self._topics.values() for topic in topics):
            before[topic.source] += len(topic.partitions)
        closed = await self._mirrors.closed(self._target, [name for name in names if before[name]])
        return {name: before[name] for name in closed}

    def _tell_absent(self, metadata: ClusterMetadata) -> None:
        """Topics the file names one by one and that are not there, as far as we may see."""
        now = missing_topics(self.settings.topics, metadata.topics)
        for entry, meant in now.items():
            detail = f"{self.settings.flow.source} has no topic {entry} that we may see"
            remedy = f"Did you mean {meant}? " if meant else ""
            remedy += f"Correct topics, create {entry} or grant Describe on it; it is then picked up by itself."
            self.events.open("TopicNotFound", entry, detail, remedy=remedy)
        for entry in self._absent - now.keys():
            self.events.resolve("TopicNotFound", entry)
        self._absent = set(now)

    def _is_in_cycle(self, topic: str) -> bool:
        """True, and told, for a topic made since the start that flows of ours would copy in a ring."""
        found = find_cycle([(f.flow, f.mirrors_topic) for f in self.keeping], topic)
        if found:
            self.events.open("TopicLoop", topic, f"not mirrored: it would go round {' -> '.join(found)}")
        return bool(found)

    async def _refresh(self) -> None:
        failed_before = False
        while True:
            await asyncio.sleep(self.settings.refresh_topics_s)
            if not self.settings.refresh_topics:
                continue
            try:
                if await self._discover():
                    for number, lane in self._lanes.items():
                        if lane.topics != self._topics[number]:
                            lane.reassign(self._topics[number])
                failed_before = False
                self.events.resolve("DiscoveryFailed", str(self.settings.flow))
            except (Unreachable, BrokerError, DrlibError, TimeoutError, OSError) as error:
                gone = isinstance(error, Unreachable | TimeoutError | OSError)
                if gone and not failed_before:
                    failed_before = True
                    continue  # a cluster that is gone is told by whoever reads or writes
                if any(e.resolved_ms is None and e.name in SAME_FAULT for e in self.events.snapshot()):
                    continue
                self.events.open("DiscoveryFailed", str(self.settings.flow), str(error))

    def _in_step(self) -> SyncTasks:
        return SyncTasks(
            self.settings,
            (self._source, self.source_settings),
            (self._target, self.target_settings),
            self.events,
            self._topic_ids,
            self._groups.positions,
            lambda: self._lanes.get(0),
            lambda: 0 in self._lanes and self.membership.may_send(),
        )

    def _topic_ids(self) -> dict[str, uuid.UUID]:
        """The source topics that are mirrored now."""
        return {topic.source: topic.topic_id for topics in self._topics.values() for topic in topics}

    # -- lanes ---------------------------------------------------------------------------------------------------

    async def _on_assignment(self, lanes: Collection[int]) -> None:
        """The group gave us these lanes: end the others, begin the new ones."""
        for number in [n for n in self._lanes if n not in lanes]:
            lane = self._lanes.pop(number)
            lane.stop()
            task = self._tasks.pop(number)
            with contextlib.suppress(DrlibError, TimeoutError):
                async with asyncio.timeout(DRAIN_S / 2):
                    await task
            self.events.resolve("LaneFailed", f"{self.settings.flow} lane {number}")
        for number in sorted(lanes):
            if number in self._lanes:
                continue
            flow = self.settings.flow
            lane = Lane(
                number,
                f"drlib.{flow.source}.{flow.target}.{number}",
                self._source,
                self._target,
                TopicPartition(self.journal_topic, number),
                self._topics.get(number, ()),
                self.membership,
                self.events,
                self.worker,
                self,
                self._takeover,
                self.memory,
                self._expiry,
                self.housekeeping,
                loss_policy=self.settings.source_loss_policy,
                grants=Grants(self.settings, self.source_settings, self.target_settings),
            )
            self.events.register_lane(lane.name, str(flow))
            self._lanes[number] = lane
            self._tasks[number] = asyncio.create_task(lane.run())
            self._tasks[number].add_done_callback(partial(self._ended, number=number))

    def _ended(self, task: asyncio.Task[None], *, number: int) -> None:
        """A lane that ended while we own it: by an error nobody foresaw, or lost to another claimant."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, SourceLost) and not self._lost.done():
            self._lost.set_exception(error)
        elif error is not None:
            self.events.open("LaneFailed", f"{self.settings.flow} lane {number}", str(error))

    # -- what the lanes tell (pump.Observer) -----------------------------------------------------------------------

    def progressed(self, stream: PartitionStream) -> None:
        if self._streams.get(stream.source) is not stream:
            self._streams[stream.source] = stream
            self._groups.known(stream.source)
        self._groups.progressed(stream.source)
        self._forecasts.progressed(stream)

    def acked(self, stream: PartitionStream, item: Outgoing) -> None:
        target = item.target
        for source, count in item.pieces:
            self._syncs.acked_run(stream.source, source, target, count)
            target += count
        self._records += item.batch.count
        self._bytes += item.batch.size
        self._forecasts.acked(stream, item)
        self.progressed(stream)

    async def _emit_heartbeats(self) -> None:
        """Heartbeats by the owner of lane 0; offset syncs by everybody for their own partitions."""
        beat_at = commit_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            if self.settings.emit_heartbeats and 0 in self._lanes and now >= beat_at:
                self._writer.heartbeat()
                beat_at = now + self.settings.emit_heartbeats_s
            if now >= commit_at:
                self._syncs.commit()
                commit_at = now + OFFSET_SYNC_COMMIT_S
            if self.settings.emit_offset_syncs:
                self._writer.offset_syncs(self._syncs.take_due())
            await asyncio.sleep(0.1)

    # -- status --------------------------------------------------------------------------------------------------

    @property
    def started(self) -> bool:
        """Has the group given us lanes?"""
        return bool(self._lanes)

    def status(self) -> FlowStatus:
        if not self.started:  # nor is anything known yet
            return FlowStatus(str(self.settings.flow), (), (), self._records, self._bytes)
        return flow_status(self.settings.flow, self._lanes, self._forecasts, self._expiry, self._records, self._bytes)
