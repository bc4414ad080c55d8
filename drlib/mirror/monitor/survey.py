"""Read the state of a flow from its two clusters: from any machine, read-only, also when every worker is dead.

Rules:
- The target's group says which worker owns which lane; its journal and mirror topics say how far each partition was mirrored;
  the source says where its logs end. Nothing is subtracted across clusters: the map gives the mirrored source offset, and lag
  is counted on the source alone.
- A cluster that does not answer is an event, and what it would have said is unknown. So is a source that answers in part: what
  its silent brokers lead is unknown, the rest is not.
- Which brokers answer is asked first, with a short deadline; a survey of a cluster that is partly dead ends within
  `PARTLY_DEAD_S` after that.
- The age of the oldest unmirrored record is read for the `PROBES` partitions with the greatest lag: one batch each.
- Rates need two surveys by the same `Surveyor`; of topics that both directions copy they count what is copied.
- Positions in such topics take both maps (`groups.shared_positions`).
- Without a claim and a worker it is asked whether MirrorMaker 2 mirrors the flow: positions are then those that it leaves, and
  where they leave records open, these are counted on the source.
Longer than most modules: the questions of one survey, in their order.
Not for: what only a worker knows (state of its lanes, events as they happen); `drlib.mirror.monitor.flow_view` combines both.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, NoLeader, Unreachable
from drlib.formats import first_few
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S, wire_client
from drlib.kafka.admin.descriptions import GroupMember
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.admin.reachability import ClusterService, examine
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.protocol.error_codes import TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, BrokerError
from drlib.kafka.security.errors import CANNOT_USE, SecurityFault
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.journal.entries import Claim, Incarnation, Parked, SourceLoss, SourcePartition, SourceTruncated
from drlib.mirror.journal.partition_events import lost_text
from drlib.mirror.monitor.groups.shared_positions import SharedFound, SharedPositions
from drlib.mirror.monitor.lag_monitor import WINDOW_S, first_batch
from drlib.mirror.monitor.source_ends import PAUSES_S, SourceState, read_source
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.mirror.offsets.mirror_maker.maps import SyncedMap
from drlib.mirror.offsets.mirror_maker.mirrored_by import MirrorMakerFlow
from drlib.mirror.offsets.mirror_maker.read_flow import Mm2Flow, SourceSide, read_mm2_flow
from drlib.mirror.offsets.mirror_maker.source_tail import SourceLog, read_missing
from drlib.mirror.offsets.mirror_maker.sync_pairs import SyncedPartition
from drlib.mirror.offsets.translation.translate_groups import Positions, checkpointed_positions, source_positions
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.status.event_kinds import kind_of
from drlib.mirror.status.forecast import Retention, Sample, forecast, retention_in
from drlib.mirror.status.worker_status import Event, PartitionStatus
from drlib.mirror.threads import in_daemon
from drlib.model import TopicPartition, TranslationKind

PROBES = 32
CLUSTER_TIMEOUT_S = 15.0
THROTTLED_S = 25.0  # longer by what a quota pauses the reading of the journal, and within doctor's deadline of a survey
PARTLY_DEAD_S = 4.0  # for what is asked of a cluster of which not every broker answers
# How long a cluster that has just started may be without a group coordinator; below CLUSTER_TIMEOUT_S, so that its own error
# is reported.
COORDINATOR_TIMEOUT_S = 12.0
MISSING_S = 2.0  # for a coordinator, where some are known to be missing
CLUSTER_ERRORS = (DrlibError, TimeoutError, OSError)


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A committed offset on the source, and where it leads on the target. `end` and `lag` are of the source's log; `lag_s` is
    the age of the first unread record where it was asked for, `records` what would be read again; None is unknown."""

    at: TopicPartition
    offset: int
    end: int | None
    lag_s: float | None
    kind: TranslationKind
    target_offset: int | None
    records: int = 0

    @property
    def lag(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.offset)


@dataclass(frozen=True)
class GroupStatus:
    """A consumer group of the source: its lag there, and how many of its committed offsets translate how.

    `other`: neither exact nor behind the mirror; `lag` None is unknown. `bounded`: those of `other` behind which records are
    read again, `bounded_records` in all and at most.
    """

    group: str
    partitions: int
    lag: int | None
    exact: int
    behind: int
    other: int
    read_again: int  # records that the group would read again, or would miss, if it failed over now
    positions: tuple[GroupPosition, ...] = field(default=(), repr=False)
    bounded: int = 0
    bounded_records: int = 0


@dataclass(frozen=True)
class Survey:
    """The state at `at_ms`. `target_error` and `source_error` are empty where the cluster answered."""

    flow: str
    at_ms: int
    lanes: int
    members: tuple[GroupMember, ...] | None = ()  # None: their coordinator is down
    claims: Mapping[int, Claim] = field(default_factory=dict)
    partitions: tuple[PartitionStatus, ...] = ()
    events: tuple[Event, ...] = ()
    groups: tuple[GroupStatus, ...] | None = None
    source_error: str = ""
    target_error: str = ""
    source_partly: str = ""  # why some log ends of a source that answers are unknown; empty where all are known
    maps: Maps = field(default_factory=Maps, repr=False)  # from the journal and the mirror topics
    mirror_maker: MirrorMakerFlow | None = None  # where MirrorMaker 2 mirrors the flow

    @property
    def without_leader(self) -> dict[TopicPartition, NoLeader]:
        """By partition of the source, those whose mirror or whose part of the journal has no leader: how far they are mirrored
        is not known."""
        unread = {TopicPartition(p.topic, p.partition): self.maps.unread.get(p.lane) for p in self.partitions}
        return {**self.maps.without_leader, **{at: why for at, why in unread.items() if why is not None}}

    @property
    def target_partly(self) -> str:
        """Which mirrors have no leader, and whether the workers' group has no coordinator; empty where none lacks one."""
        texts = []
        if named := sorted(why.partition for why in self.maps.without_leader.values()):
            texts.append(
                f"mirror partitions without a leader, of which nothing is known: {len(named)}, {first_few(named)}"
            )
        if named := [why.partition for why in self.maps.unread.values()]:
            lanes = f"{len(named)} of {self.lanes} lanes, whose part of the journal has no leader: {first_few(named)}"
            texts.append(f"nothing is known of the partitions of {lanes}")
        if self.members is None:
            texts.append("the group of the workers has no coordinator, so that their number is not known")
        return "; ".join(texts)

    @property
    def ends_known(self) -> frozenset[TopicPartition]:
        """The partitions whose log end the source itself has just said."""
        return frozenset(TopicPartition(p.topic, p.partition) for p in self.partitions if p.known)


class Surveyor:
    """Surveys one flow, any number of times; keeps samples for rates and the topics' retention between surveys."""

    def __init__(self, settings: MirrorSettings, flow: FlowSettings) -> None:
        self._settings = settings
        self._flow = flow
        self._samples: dict[TopicPartition, deque[Sample]] = {}
        self._retention: dict[str, Retention] = {}
        self._shared = SharedPositions(settings, flow.flow)

    async def survey(
        self, *, groups: bool = False, ages: bool = False, source_error: str = "", answer_s: float = ANSWER_S
    ) -> Survey:
        """Ask both clusters at the same time. A cluster's fault is part of the result and is not raised.

        `ages`: read how old the first unread records of groups are, unless the source is partly dead, which takes long.
        `source_error`: why the source is known not to answer; it is then not asked. `answer_s`: how long its brokers may take
        to give a sign of life; the target, which everything is read from, has `ANSWER_S`.
        """
        flow = self._flow.flow
        source_cluster = self._settings.clusters[flow.source]
        if source_error:  # it is not connected to, and what it lacks may be a key store
            source_cluster = replace(source_cluster, security={})
        source_client = wire_client(source_cluster, client_id="drlib-status")
        target_client = wire_client(self._settings.clusters[flow.target], client_id="drlib-status")
        try:
            source_answer, target_answer = await asyncio.gather(
                self._read_source(source_client, source_error, answer_s), self._read_target(target_client, groups)
            )
            source = None if isinstance(source_answer, str) else source_answer
            silence = source_answer if isinstance(source_answer, str) else ""
            mm2: Mm2Flow | None = None
            if not isinstance(target_answer, str) and target_answer[0].never_ran and not target_answer[1]:
                side = SourceSide(source_client if source else None, silence, source.ends if source else None)
                found = await self._mirror_maker(target_client, side)
                mm2, target_answer = (None, found) if isinstance(found, str) else (found, target_answer)
            now_ms = clock.now_ms()
            events: list[Event] = []
            for name, answer in (("SourceUnreachable", source_answer), ("TargetUnreachable", target_answer)):
                if isinstance(answer, str):
                    events.append(_event(name, str(flow), answer, 0, str(flow)))
            if isinstance(source_answer, SourceState) and source_answer.partly:
                events.append(_event("SourceUnreachable", str(flow), source_answer.partly, 0, str(flow)))
            maps, members = (Maps(), ()) if isinstance(target_answer, str) else target_answer
            maps = maps if mm2 is None else mm2.maps
            known = not isinstance(target_answer, str)
            partitions, unread = await self._partitions(source_client, maps, source, now_ms, known=known)
            events += _journal_events(maps, str(flow))
            events += [
                _event("RetentionAhead", f"{p.topic}-{p.partition}", p.outlook.warning, now_ms, str(flow))
                for p in partitions
                if p.outlook.warning
            ]
            group_statuses: tuple[GroupStatus, ...] | None = None
            if groups:
                group_answer, why = await self._groups(
                    maps, source, source_client, target_client, mirror_maker=mm2 is not None
                )
                if why:
                    detail = f"positions in topics that both directions copy are not translated: {why}"
                    events.append(_event("GroupsUnseen", str(flow), detail, now_ms, str(flow)))
                if not isinstance(group_answer, str):
                    group_statuses = group_answer
                    if ages and source is not None and not source.silent:
                        group_statuses = await self._ages(group_answer, source, source_client, now_ms)
                elif source is not None and not isinstance(target_answer, str):
                    # Otherwise the cluster's own event explains it.
                    events.append(_event("GroupsUnseen", str(flow), group_answer, now_ms, str(flow)))
            found_now = Survey(
                flow=str(flow),
                at_ms=now_ms,
                lanes=self._flow.lanes,
                members=members,
                claims=maps.claims,
                partitions=partitions,
                events=tuple(events),
                groups=group_statuses,
                source_error=source_answer if isinstance(source_answer, str) else "",
                target_error=target_answer if isinstance(target_answer, str) else "",
                source_partly=source.partly if source is not None else "",
                maps=maps,
                mirror_maker=None if mm2 is None else replace(mm2.found, unread=(*mm2.found.unread, *unread)),
            )
            if in_part := found_now.target_partly:
                of_target = _event("TargetUnreachable", str(flow), in_part, 0, str(flow))
                return replace(found_now, events=(of_target, *found_now.events))
            return found_now
        finally:
            await asyncio.gather(source_client.close(), target_client.close())

    # -- the two clusters ----------------------------------------------------------------------------------------

    async def _read_target(
        self, client: ClusterClient, groups: bool
    ) -> tuple[Maps, tuple[GroupMember, ...] | None] | str:
        journal = self._flow.policy.journal_topic(self._flow.flow.source)
        timeout_s = CLUSTER_TIMEOUT_S
        try:
            service = await self._examine(self._flow.flow.target, client, ANSWER_S)
            timeout_s = PARTLY_DEAD_S if service.silent else CLUSTER_TIMEOUT_S
            async with client.within(timeout_s, THROTTLED_S):
                members = await in_daemon(partial(self._members, service, min(COORDINATOR_TIMEOUT_S, timeout_s)))
                if groups:
                    await self._shared.look(client, service)
                pauses = iter(PAUSES_S)
                pause_s = next(pauses, None)
                while True:
                    try:
                        return await read_maps(client, journal, partly=pause_s is None), members
                    except BrokerError as error:
                        if error.code == UNKNOWN_TOPIC_OR_PARTITION:  # the flow never ran
                            return Maps(), members
                        if not error.retriable or pause_s is None:
                            raise
                    await asyncio.sleep(pause_s)
                    pause_s = next(pauses, None)
        except CLUSTER_ERRORS as error:
            return _explain(error, timeout_s, self._missing_right(error))

    def _missing_right(self, error: BaseException) -> Right | None:
        """What the target refuses this user of what a survey reads there; None where that is not why it failed."""
        flow = self._flow.flow
        if isinstance(error, ClusterRefused) and error.unauthorized:  # only the flow's group is asked by librdkafka
            return Right("group", worker_group(flow), ("DESCRIBE",))
        if isinstance(error, BrokerError) and error.code == TOPIC_AUTHORIZATION_FAILED:
            return Right("topic", min(error.topics, default=self._flow.policy.journal_topic(flow.source)), ("READ",))
        return None

    async def _mirror_maker(self, client: ClusterClient, source: SourceSide) -> Mm2Flow | str | None:
        """What MirrorMaker 2 leaves about the flow, None where it does not mirror it, or why that is unknown."""
        try:
            async with asyncio.timeout(CLUSTER_TIMEOUT_S):
                return await read_mm2_flow(self._flow, client, source)
        except CLUSTER_ERRORS as error:
            return _explain(error)

    async def _examine(self, alias: str, client: ClusterClient, answer_s: float) -> ClusterService:
        """Which brokers of the cluster answer; `client` asks these first from then on."""
        found = (await in_daemon(partial(examine, [self._settings.clusters[alias]], {}, answer_s)))[alias]
        if isinstance(found, Unreachable):
            raise found
        client.brokers = {node: each for node, each in found.metadata.brokers.items() if node not in found.silent}
        return found

    def _members(self, service: ClusterService, timeout_s: float) -> tuple[GroupMember, ...] | None:
        """None where the coordinator does not answer, and some are known to be missing."""
        flow, (missing, _) = self._flow.flow, service.coordinators_missing
        with Cluster(self._settings.clusters[flow.target], timeout_s=MISSING_S if missing else timeout_s) as cluster:
            try:
                return cluster.group_members(worker_group(flow))
            except Unreachable:
                if missing:
                    return None
                raise

    async def _read_source(self, client: ClusterClient, source_error: str, answer_s: float) -> SourceState | str:
        if source_error:
            return source_error
        timeout_s = CLUSTER_TIMEOUT_S
        try:
            service = await self._examine(self._flow.flow.source, client, answer_s)
            timeout_s = PARTLY_DEAD_S if service.silent else CLUSTER_TIMEOUT_S
            state = await read_source(client, service, self._flow.mirrors_topic, timeout_s)
            new_topics = {partition.topic for partition in state.ends} - set(self._retention)
            if new_topics and not state.silent:
                async with asyncio.timeout(timeout_s):
                    self._retention |= await in_daemon(partial(self._read_retention, frozenset(new_topics)))
        except CLUSTER_ERRORS as error:
            return _explain(error, timeout_s)
        return state

    def _read_retention(self, topics: frozenset[str]) -> dict[str, Retention]:
        """The retention of each topic; a topic whose configuration may not be described is left out."""
        with Cluster(self._settings.clusters[self._flow.flow.source], timeout_s=CLUSTER_TIMEOUT_S) as cluster:
            answers = cluster.topic_settings(topics)
        return {name: retention_in(answer) for name, answer in answers.items() if not isinstance(answer, DrlibError)}

    # -- partitions ----------------------------------------------------------------------------------------------

    async def _partitions(
        self, client: ClusterClient, maps: Maps, source: SourceState | None, now_ms: int, *, known: bool
    ) -> tuple[tuple[PartitionStatus, ...], Sequence[str]]:
        """The partitions, and what could not be read of those that MirrorMaker 2 mirrors. `known`: the target was read."""
        policy, flow = self._flow.policy, self._flow.flow
        current_keys = _current_keys(maps, source)
        now = time.monotonic()
        statuses: list[PartitionStatus] = []
        synced: dict[TopicPartition, SyncedPartition] = {}
        copied: dict[tuple[str, int], int] = {}
        partitions = {*current_keys, *maps.without_leader} | (source.ends.keys() | source.unknown if source else set())
        # what was mirrored, and the file does not select any more, has no end that would be known
        selected = {topic for topic in {at.topic for at in partitions} if self._flow.mirrors_topic(topic)}
        for partition in sorted(at for at in partitions if at.topic in selected):
            key = current_keys.get(partition)
            if key is None and self._flow.mirrors_unasked(partition.topic):
                continue  # where they may not be mirrored, no record that an application reads is missing
            lane = lane_of(partition.topic, partition.partition, self._flow.lanes)
            offsets = maps.by_partition[key] if key is not None else None
            log_start = source.starts.get(partition, -1) if source else -1
            position = offsets.reached if offsets is not None else None
            mirrored = furthest = max(0, log_start) if position is None else position
            end = source.ends.get(partition, -1) if source else -1
            if isinstance(offsets, SyncedMap):
                furthest = max(mirrored, min(offsets.furthest or mirrored, max(end, mirrored)))
                end = -1 if position is None else end  # how far it is mirrored is not known, and so is the lag
                synced[partition] = offsets.synced
            elif not known or partition in maps.without_leader or lane in maps.unread:
                end = -1  # as above
            elif offsets is not None and self._shared.includes(partition.topic):
                copied[partition.topic, partition.partition] = offsets.segments().mirrored_at_least(0, mirrored)
            statuses.append(
                PartitionStatus(
                    topic=partition.topic,
                    partition=partition.partition,
                    target_topic=policy.remote_topic(flow.source, partition.topic),
                    lane=lane,
                    position=furthest,
                    mirrored=mirrored,
                    high_watermark=end,
                    target_end=(offsets.target_end or 0) if offsets is not None else 0,
                    last_stable=source.stable.get(partition, -1) if source else -1,
                    log_start=log_start,
                    as_of_ms=now_ms if source else 0,
                )
            )
        unread: list[str] = []
        if source is not None and synced:
            statuses, unread = await _count_missing(client, source.metadata, synced, statuses)
        probes = await self._probe(client, source, statuses)
        return tuple(
            self._with_outlook(p, probes.get((p.topic, p.partition)), copied.get((p.topic, p.partition)), now, now_ms)
            for p in statuses
        ), unread

    async def _probe(
        self, client: ClusterClient, source: SourceState | None, statuses: Sequence[PartitionStatus]
    ) -> dict[tuple[str, int], tuple[int, float]]:
        """Timestamp of the oldest unmirrored record and mean bytes of a record there, for the greatest lags."""
        if source is None:
            return {}
        lagging = sorted((p for p in statuses if p.known and p.lag), key=lambda p: -p.lag)
        wanted = [(TopicPartition(p.topic, p.partition), max(p.mirrored, p.log_start)) for p in lagging]
        found = await _first_batches(client, source, wanted)
        return {(at.topic, at.partition): batch for (at, _), batch in found.items()}

    def _with_outlook(
        self, status: PartitionStatus, probe: tuple[int, float] | None, copied: int | None, now: float, now_ms: int
    ) -> PartitionStatus:
        if not status.known:
            return status
        timestamp_ms, record_bytes = probe if probe is not None else (None, None)
        outlook = forecast(
            self._samples.setdefault(TopicPartition(status.topic, status.partition), deque()),
            Sample(now, max(status.mirrored, status.log_start), status.high_watermark, copied=copied),
            window_s=WINDOW_S,
            now_ms=now_ms,
            oldest_ms=timestamp_ms,
            record_bytes=record_bytes,
            retention=self._retention.get(status.topic),
            warning_s=self._flow.retention_warning_s,
        )
        return replace(status, outlook=outlook)

    # -- groups --------------------------------------------------------------------------------------------------

    async def _groups(
        self,
        maps: Maps,
        source: SourceState | None,
        source_client: ClusterClient,
        target_client: ClusterClient,
        *,
        mirror_maker: bool,
    ) -> tuple[tuple[GroupStatus, ...] | str, str]:
        """The groups, or why they are unknown, which is not the same as no group; and why those of shared topics are."""
        whole = source is not None and not source.silent
        shared = SharedFound({})
        ids = {} if source is None else {name: each.topic_id for name, each in source.metadata.topics.items()}
        try:
            positions = await in_daemon(partial(self._positions, whole))
        except CLUSTER_ERRORS as error:
            return _explain(error), ""
        if self._shared.any and not mirror_maker:
            asked, timeout_s = (source_client, CLUSTER_TIMEOUT_S) if whole else (None, PARTLY_DEAD_S)
            shared = await self._shared.translate(target_client, asked, maps, positions, timeout_s)
        rows: dict[str, list[GroupPosition]] = {}
        for (group, partition), position in sorted(positions.items()):
            translation = (
                shared.at((group, partition))
                if self._shared.includes(partition.topic)
                else maps.forward(
                    group, partition, position.offset, there=position.there, topic_id=ids.get(partition.topic)
                )
            )
            if translation is None or not (maps.newest(partition.topic) or self._flow.mirrors_topic(partition.topic)):
                continue
            end = source.ends.get(partition) if source else None
            found = translation.offset, translation.records
            rows.setdefault(group, []).append(
                GroupPosition(partition, position.offset, end, None, translation.kind, *found)
            )
        return tuple(_group_status(group, of_group) for group, of_group in rows.items()), shared.why

    async def _ages(
        self, groups: Sequence[GroupStatus], source: SourceState, client: ClusterClient, now_ms: int
    ) -> tuple[GroupStatus, ...]:
        """`groups` with the ages of their first unread records, for the greatest lags."""
        behind = sorted((p for each in groups for p in each.positions if p.lag), key=lambda p: -(p.lag or 0))
        found = await _first_batches(client, source, list(dict.fromkeys(_first_unread(p, source) for p in behind)))

        def aged(position: GroupPosition) -> GroupPosition:
            batch = found.get(_first_unread(position, source))
            return replace(position, lag_s=_age_s(position.lag, None if batch is None else batch[0], now_ms))

        return tuple(replace(each, positions=tuple(map(aged, each.positions))) for each in groups)

    def _positions(self, source_alive: bool) -> Positions:
        read = source_positions if source_alive else checkpointed_positions
        return read(self._settings, self._flow.flow)


async def _first_batches(
    client: ClusterClient, source: SourceState, wanted: Sequence[tuple[TopicPartition, int]]
) -> dict[tuple[TopicPartition, int], tuple[int, float]]:
    """`first_batch` of the first `PROBES` of `wanted`; what could not be read is unknown, and left out."""
    found: dict[tuple[TopicPartition, int], tuple[int, float]] = {}
    try:
        async with asyncio.timeout(PARTLY_DEAD_S if source.silent else CLUSTER_TIMEOUT_S):
            for at, offset in wanted[:PROBES]:
                topic = source.metadata.topics[at.topic]
                leader = topic.partitions[at.partition].leader
                if leader < 0:
                    continue  # it was lost since its end was read
                connection = await client.connection(leader)
                batch = await first_batch(connection, topic.topic_id, at, offset)
                if batch is not None:
                    found[at, offset] = batch
    except CLUSTER_ERRORS:
        pass
    return found


def _first_unread(position: GroupPosition, source: SourceState) -> tuple[TopicPartition, int]:
    """Where the first record is that the group has not read and that has not expired."""
    return position.at, max(position.offset, source.starts.get(position.at, 0))


def _age_s(lag: int | None, timestamp_ms: int | None, now_ms: int) -> float | None:
    """0 where all is read, None where it could not be read."""
    if not lag:
        return None if lag is None else 0.0
    return None if timestamp_ms is None else max(0.0, (now_ms - timestamp_ms) / 1000)


async def _count_missing(
    client: ClusterClient,
    there: ClusterMetadata,
    synced: Mapping[TopicPartition, SyncedPartition],
    statuses: Sequence[PartitionStatus],
) -> tuple[list[PartitionStatus], list[str]]:
    """Count the records that are missing where by its offsets a partition has some; what could not be read, too."""
    by_partition = {TopicPartition(status.topic, status.partition): status for status in statuses}
    wanted = {
        at: (synced[at], SourceLog(status.log_start, status.last_stable, status.high_watermark))
        for at, status in by_partition.items()
        if at in synced and status.known and status.lag_at_least
    }
    found, unread = await read_missing(client, there, wanted)
    return [replace(status, missing=found.get(at)) for at, status in by_partition.items()], unread


def _group_status(group: str, rows: Sequence[GroupPosition]) -> GroupStatus:
    lags = [row.lag for row in rows if row.lag is not None]
    kinds = [row.kind for row in rows]
    exact, behind = kinds.count(TranslationKind.EXACT), kinds.count(TranslationKind.BEHIND)
    return GroupStatus(
        group,
        len(rows),
        sum(lags) if len(lags) == len(rows) else None,
        exact,
        behind,
        len(rows) - exact - behind,
        sum(row.records for row in rows),
        tuple(rows),
        kinds.count(TranslationKind.BOUNDED),
        sum(row.records for row in rows if row.kind is TranslationKind.BOUNDED),
    )


def _current_keys(maps: Maps, source: SourceState | None) -> dict[TopicPartition, SourcePartition]:
    """The map key of each partition's current topic ID: the source's where it answers, else the journal's newest."""
    keys: dict[TopicPartition, SourcePartition] = {}
    for key in maps.by_partition:
        names = maps.names.get(key.topic_id)
        if names is None:
            continue
        topic = source.metadata.topics.get(names.source_topic) if source else None
        if source is not None and not maps.is_current(key, None if topic is None else topic.topic_id):
            continue
        keys[TopicPartition(names.source_topic, key.partition)] = key
    return keys


def _journal_events(maps: Maps, flow: str) -> list[Event]:
    """Events from the journal: a parked record until a later one was mirrored, a loss for as long as its kind says."""
    events: list[Event] = []
    now_ms = clock.now_ms()
    newest = {names.source_topic: topic_id for topic_id, names in maps.names.items()}
    truncated = {entry.partition for entry in maps.ledger if isinstance(entry, SourceTruncated)}  # parked for good
    for entry in maps.ledger:
        if isinstance(entry, Incarnation):
            detail = f"topic ID {entry.old_topic_id} became {entry.new_topic_id}"
            events.append(_expiring_event("TopicRecreated", entry.source_topic, detail, entry.at_ms, flow, now_ms))
            continue
        if not isinstance(entry, SourceLoss | SourceTruncated | Parked):
            continue
        names = maps.names.get(entry.partition.topic_id)
        entity = f"{names.source_topic if names else entry.partition.topic_id}-{entry.partition.partition}"
        if isinstance(entry, SourceLoss):
            detail = lost_text(names.source_topic if names else "", entry.first, entry.next_offset)
            events.append(_expiring_event("SourceLoss", entity, detail, entry.at_ms, flow, now_ms))
        elif names is not None and newest[names.source_topic] != entry.partition.topic_id:
            continue  # the topic was re-created since, so nothing of this one is blocked
        elif isinstance(entry, SourceTruncated):
            detail = (
                f"its log went back to offset {entry.first} after it had been read up to offset {entry.next_offset}"
            )
            events.append(_event("SourceTruncated", entity, detail, entry.at_ms, flow))
        elif isinstance(entry, Parked) and entry.partition not in truncated:
            position = maps.get(entry.partition).position
            if position is None or position <= entry.source_offset:
                detail = f"at source offset {entry.source_offset}: {entry.reason}"
                events.append(_event("Parked", entity, detail, entry.at_ms, flow))
    return events


def _expiring_event(name: str, entity: str, detail: str, at_ms: int, flow: str, now_ms: int) -> Event:
    """An event that counts as resolved once it has been open for as long as its kind says."""
    event = _event(name, entity, detail, at_ms, flow)
    lasts_s = kind_of(name).lasts_s
    if lasts_s is None or (resolved_ms := at_ms + int(lasts_s * 1000)) > now_ms:
        return event
    return replace(event, resolved_ms=resolved_ms)


def _event(name: str, entity: str, detail: str, at_ms: int, flow: str) -> Event:
    remedy = "Correct that, then run it again." if CANNOT_USE in detail else kind_of(name).remedy
    return Event(name, entity, detail, at_ms, None, remedy, 1, flow)


def _explain(error: BaseException, timeout_s: float = CLUSTER_TIMEOUT_S, missing: Right | None = None) -> str:
    if isinstance(error, SecurityFault):
        return f"{CANNOT_USE}: {error}"
    if isinstance(error, DrlibError):
        return f"{f'this user may not {missing}; ' if missing else ''}{error.what}: {error.why}"
    return f"no answer within {timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
