"""How far MirrorMaker 2 has mirrored a flow, found by comparing both logs: for a way back, where both clusters answer.

Rules: each partition's map is the one that a takeover at this moment would begin with (`drlib.mirror.mm2.takeover`), kept in
memory: where the copy continues, by the content of the records behind the newest offset sync, and of the last `ALIGNED` offsets
which record is whose copy. Markers and aborted records behind the last copy are passed: nothing of them is copied. What the
contents do not decide is a bound. Below that, positions come from the offset syncs. A partition whose offset syncs and logs
contradict each other is refused with the reason. Nothing is written.
MirrorMaker 2 continues to copy: where it is not known to the record how far it came, a position at the end of the mirror would
skip records, so the offset syncs decide there too.
Not for: a failover (`maps`), where the source does not answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from drlib.config.both_ways.shared_topics import all_shared
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.errors import UsageError
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.mirror.journal.entries import SourcePartition, Takeover, TopicNames
from drlib.mirror.mm2.takeover import (
    MirrorMakerRunning,
    MirrorTooLong,
    Mm2Progress,
    TakeoverContradiction,
    TakeoverReader,
)
from drlib.mirror.offsets.comparison.compare_logs import align_now
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.mirror_maker.maps import SyncedMap, id_of
from drlib.mirror.offsets.mirror_maker.mirrored_by import MirrorMakerFlow
from drlib.mirror.offsets.mirror_maker.read_flow import Mm2Flow, SourceSide, read_mm2_flow
from drlib.mirror.offsets.mirror_maker.source_tail import next_record
from drlib.mirror.offsets.mirror_maker.sync_pairs import SyncedPartition
from drlib.mirror.read_batches import concurrently, log_ends, stable_ends
from drlib.mirror.status.worker_status import EventLog
from drlib.model import Flow, TopicPartition, Translation, TranslationKind

ALIGNED: Final = 1000  # offsets of both logs, below the end of the mirror
_MOVES_S, _AGAIN_S = 5.0, 0.1  # for which the leader of a partition may be another one than its metadata say


class ComparedMap(PartitionMap):
    """The map of a partition that MirrorMaker 2 mirrors, as of `takeover`: where both logs were compared."""

    def __init__(self, synced: SyncedPartition, takeover: Takeover) -> None:
        super().__init__()
        self.apply(takeover)
        self._synced = synced
        self._takeover = takeover

    @property
    def doubtful(self) -> int:
        return self._takeover.doubtful

    def _target_next(self) -> int | None:
        return self._takeover.target_offset

    def _forward(self, g: int) -> Translation:
        assert self.taken is not None
        if self.doubtful or g < self.taken.cursor[0]:
            return self._synced.forward(g)
        return super()._forward(g)

    def _backward(self, t: int) -> Translation:
        if self.doubtful and t >= self._takeover.target_offset:
            return Translation(self._takeover.source_offset, TranslationKind.BOUNDED, self.doubtful)
        return super()._backward(t)


@dataclass
class ComparedMaps(Maps):
    """Its `by_partition` are `ComparedMap`; topics have the IDs that they have on the source now. There are no claims."""

    found: MirrorMakerFlow = field(default_factory=lambda: MirrorMakerFlow(()))


def read_known_maps(settings: MirrorSettings, flow: Flow, *, partly: bool = False) -> Maps:
    """The maps of the flow's journal, or `ComparedMaps` where MirrorMaker 2 mirrors it. Blocks.

    Where both directions copy every topic, they say what was copied, and no position (`shared_logs`). Raises `UsageError` for
    clusters that the file does not have, and for other flows with topics that both copy, `Unreachable`, `BrokerError`.
    `partly`: as of `read_flow_maps`.
    """
    shared = all_shared(settings, flow)
    maps = read_flow_maps(settings, flow, shared=shared, partly=partly)
    if not maps.never_ran or shared:
        return maps
    end = time.monotonic() + _MOVES_S
    while True:
        try:
            return blocking(_read(settings, flow)) or maps
        except BrokerError as error:
            if not error.retriable or time.monotonic() > end:
                raise
        time.sleep(_AGAIN_S)


def refuse_copying(settings: MirrorSettings, flow: Flow) -> None:
    """Raises `UsageError` while MirrorMaker 2 copies records of the flow. Blocks."""

    async def ask() -> None:
        target = settings.clusters[flow.target]
        async with wire_client(target, client_id="drlib-compare") as client:
            await client.connect()
            chosen = settings.flow(flow.source, flow.target)
            await TakeoverReader(chosen, client, client, EventLog(str(flow))).refuse_running(0.0)

    try:
        blocking(ask())
    except MirrorMakerRunning as error:
        raise UsageError(
            f"MirrorMaker 2 copies {flow}",
            f"{error.why}: it appends what only {flow.source} has to mirror topics that applications have read",
            f"Until {flow.source} serves, run it with a copy of {settings.path.name} that has {flow}.enabled = false and "
            f"{flow}.emit.heartbeats.enabled = false: with the first alone it copies for some seconds when it starts.",
        ) from error


async def _read(settings: MirrorSettings, flow: Flow) -> ComparedMaps | None:
    chosen = settings.flow(flow.source, flow.target)
    async with (
        wire_client(settings.clusters[flow.target], client_id="drlib-compare") as target,
        wire_client(settings.clusters[flow.source], client_id="drlib-compare") as source,
    ):
        await target.connect()
        await source.connect()
        read = await read_mm2_flow(chosen, target, SourceSide(source))
        return None if read is None else await compare(chosen, source, target, read)


async def compare(chosen: FlowSettings, source: ClusterClient, target: ClusterClient, read: Mm2Flow) -> ComparedMaps:
    """The maps of a flow that was `read`. Raises what the clusters answer."""
    maps = ComparedMaps(found=read.found)
    there = await source.metadata([names.source_topic for names in read.maps.names.values()])
    for names in read.maps.names.values():
        topic = names.source_topic
        if not chosen.policy.is_heartbeats(topic):
            described = there.topics[topic]
            key = id_of(topic) if described.error_code else described.topic_id
            maps.names[key] = TopicNames(key, topic, names.target_topic, names.target_topic_id)
            for refused, why in read.maps.refused.items():
                if refused.topic_id == names.topic_id:
                    maps.refuse(SourcePartition(key, refused.partition), why)
    wanted = [
        (names, number)
        for names in maps.names.values()
        for number in there.topics[names.source_topic].partitions
        if not there.topics[names.source_topic].error_code
        and SourcePartition(id_of(names.source_topic), number) in read.maps.by_partition
    ]
    mirrors = [TopicPartition(names.target_topic, number) for names, number in wanted]
    ends = await stable_ends(target, (await log_ends(target, mirrors)).leaders) if mirrors else {}
    comparing = _Comparing(chosen, source, target, read)

    async def one(item: tuple[TopicNames, int]) -> None:
        names, number = item
        key = SourcePartition(names.topic_id, number)
        try:
            found = await comparing.partition(key, names, ends[TopicPartition(names.target_topic, number)])
        except (MirrorTooLong, TakeoverContradiction) as error:
            maps.refuse(key, error)
        else:
            if found is not None:
                maps.by_partition[key] = found

    await concurrently(wanted, one)
    return maps


@dataclass(frozen=True)
class _Comparing:
    flow: FlowSettings
    source: ClusterClient
    target: ClusterClient
    read: Mm2Flow

    async def partition(self, key: SourcePartition, names: TopicNames, end: int) -> ComparedMap | None:
        """The map of one partition whose mirror ends at `end`; None where nothing of it was copied.

        Raises `MirrorTooLong`, `TakeoverContradiction`, and what the clusters answer.
        """
        at = TopicPartition(names.source_topic, key.partition)
        mirror = TopicPartition(names.target_topic, key.partition)
        known = self.read.maps.by_partition[SourcePartition(id_of(at.topic), at.partition)]
        assert isinstance(known, SyncedMap)
        synced, written = known.synced, list(self.read.written.get(at, ()))
        least = synced.least
        if written and synced.newest is None:
            raise TakeoverContradiction(mirror, written[-1][0], synced.why)
        copied = {} if least is None else {at: least - 1}
        events = EventLog(str(self.flow.flow))
        reader = TakeoverReader(self.flow, self.source, self.target, events)
        found = await reader.examine(Mm2Progress(copied, {at: written}), key, at, mirror, end, recreated=False)
        if least is not None and (found is None or found.committed < 0):
            why = "; ".join(_stale(events)) or "nothing of it is there"
            raise TakeoverContradiction(mirror, least - 1, why)
        if found is None:
            return None
        compared = ComparedMap(synced, found)
        if not found.doubtful and compared.taken is not None:
            compared.cover(await next_record(self.source, at, found.source_offset))
            cursor = compared.taken.cursor
            ids = names.topic_id, names.target_topic_id
            aligned = await align_now(self.source, self.target, (at, ids[0]), (mirror, ids[1]), cursor, ALIGNED)
            if aligned is not None and (aligned.source, aligned.target) != cursor:
                for entry in compared.taken.extended(aligned.source, aligned.target, aligned.segments):
                    compared.apply(entry)
        return compared


def _stale(events: EventLog) -> Iterator[str]:
    return (event.detail for event in events.snapshot() if event.name == "TakeoverStale")
