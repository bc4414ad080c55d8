"""Plan what it means to mirror topics again from the source's start, and carry it out: `drlib remirror`.

Rules:
- Only a topic that is parked for good is mirrored again: its mirror topic is gone or another one, or its lane journaled that
  it contradicts the journal or that the source's log was truncated. What only this command sees, or cannot see because it lacks
  a right, is no reason: a healthy mirror is never deleted.
- Deleted is only the mirror topic that the journal names. One that holds records of another producer is refused: whether they
  matter is the operator's decision. A topic that both directions copy, or have copied, is not deleted here, and is mirrored
  again by one direction alone, which then copies also what the other one had brought.
- The request is journaled before the mirror topic is deleted: whenever the command dies, it can be repeated. A worker that
  runs continues within seconds, one that is started later does the same.
Not for: what a lane does with the request (`drlib.mirror.engine.lane.remirror`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from drlib.clock import now_ms
from drlib.config.both_ways.shared_topics import TopicsShared, refuse_ring, shared_between
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.admin.descriptions import GroupState
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION, raise_for
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.journal.entries import (
    MirrorRefused,
    RemirrorRequested,
    Shared,
    SourcePartition,
    SourceTruncated,
    TopicNames,
)
from drlib.mirror.offsets.map.flow_maps import OWN_GROUPS
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.read_batches import holds_data, locate
from drlib.model import TopicPartition


@dataclass(frozen=True, slots=True)
class AffectedGroup:
    """A group with committed offsets in a mirror topic, on the target, or in its source topic. `active`: it has members."""

    group: str
    cluster: str
    partitions: int
    active: bool


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What mirroring one topic again means. `why`: what parked it; `delete`: the mirror topic still exists and is deleted.

    `records`: source offsets that are copied again, at most; `deleted`: offsets in the mirror topic that is deleted.
    `unread`: groups whose committed offsets could not be read; `void`: the mirror topic's ID in the journal of each lane that
    begins again.
    """

    source: str
    mirror: str
    why: str
    delete: bool
    records: int
    deleted: int
    groups: tuple[AffectedGroup, ...]
    unread: tuple[str, ...]
    void: Mapping[int, UUID]


@dataclass(frozen=True, slots=True)
class _Journals:
    """All lanes' journals: the newest names of each mirror topic by lane, and why lanes parked partitions for good."""

    names: Mapping[int, Mapping[str, TopicNames]]
    parked: Mapping[SourcePartition, str]
    shared: Collection[UUID] = ()  # source topics that were read while both directions copied them

    @property
    def lanes(self) -> int:
        return len(self.names)


def plan(settings: MirrorSettings, flow: FlowSettings, topics: Collection[str]) -> tuple[TopicPlan, ...]:
    """What mirroring `topics` of `flow` again means; nothing is changed. Blocks.

    Raises `UsageError` for a topic that is not parked or that may not be filled again, `Unreachable`, `BrokerError`.
    """
    refuse_ring(settings, flow.flow, "a topic cannot be mirrored again")
    shared = shared_between(settings, flow.flow)
    for topic in topics:
        if not flow.mirrors_topic(topic):
            raise UsageError(
                f"{topic} is not mirrored by {flow.flow}",
                f"topics and topics.exclude of {settings.path} do not select it",
                "Correct the name, or give another flow: --flow.",
            )
        if shared is not None and shared(topic):
            raise TopicsShared(
                f"{topic} cannot be mirrored again while both directions copy it",
                f"{flow.flow} leaves out what was first written on {flow.flow.target}, so {flow.flow.target} would not get "
                "those records back",
                f"Set '{flow.flow.reverse}.enabled = false' and restart the workers; then this command has all that "
                f"{flow.flow.source} holds copied again. Enable {flow.flow.reverse} when it is: drlib status {settings.path}",
            )
    journals = blocking(_read_journals(settings, flow))
    clusters = settings.clusters[flow.flow.source], settings.clusters[flow.flow.target]
    with Cluster(clusters[0]) as source, Cluster(clusters[1]) as target:
        read = {flow.flow.source: _positions(source), flow.flow.target: _positions(target)}
        return tuple(_plan_topic(settings, flow, journals, topic, source, target, read) for topic in topics)


def carry_out(settings: MirrorSettings, flow: FlowSettings, plans: Iterable[TopicPlan]) -> None:
    """Write the requests to the journal, then delete the mirror topics that still exist. Blocks."""
    planned = list(plans)
    blocking(_request(settings, flow, planned))
    with Cluster(settings.clusters[flow.flow.target]) as target:
        for topic in planned:
            if topic.delete:
                target.delete_topic(topic.mirror)


def _plan_topic(
    settings: MirrorSettings,
    flow: FlowSettings,
    journals: _Journals,
    topic: str,
    source: Cluster,
    target: Cluster,
    read: Mapping[str, _Positions],
) -> TopicPlan:
    mirror = flow.policy.remote_topic(flow.flow.source, topic)
    names = {lane: named[mirror] for lane, named in journals.names.items() if mirror in named}
    described = source.topics([topic]).get(topic)
    if not names or described is None:
        missing = f"the journal on {flow.flow.target}" if not names else flow.flow.source
        raise UsageError(
            f"{topic} cannot be mirrored again",
            f"{missing} does not have it",
            "Look for a misspelt name: drlib status.",
        )
    now = target.topics([mirror]).get(mirror)
    gone = {lane for lane, named in names.items() if now is None or named.target_topic_id != now.topic_id}
    ids = {named.topic_id for named in names.values()}
    parked = {key: why for key, why in journals.parked.items() if key.topic_id in ids}
    reasons = {lane_of(topic, key.partition, journals.lanes): why for key, why in parked.items()}
    delete = now is not None and bool(reasons.keys() - gone)
    lanes = set(names) if delete else gone
    if delete and ids & {*journals.shared}:
        raise TopicsShared(
            f"{mirror} on {flow.flow.target} is not deleted",
            f"both directions have copied it, so it may hold records that were first written on {flow.flow.target} and that "
            f"{flow.flow.source} never got",
            f"Compare first, with {flow.flow.reverse} enabled: drlib run nightly-audit {settings.path} -p "
            f"'flow={flow.flow.reverse}'. If nothing is missing, delete {mirror} on {flow.flow.target} and repeat this.",
        )
    if not lanes:
        raise UsageError(
            f"{topic} is mirrored to {mirror}",
            "its journal has no reason to copy it again",
            f"To copy it again all the same: delete {mirror} on {flow.flow.target}, then repeat this command.",
        )
    numbers = [n for n in range(described.partitions) if lane_of(topic, n, journals.lanes) in lanes]
    copies = [TopicPartition(mirror, n) for n in range(now.partitions)] if now is not None else []
    if now is not None and not delete:
        filled = [copy for copy in copies if copy.partition in numbers]
        if blocking(_any_data(settings, flow, filled)):
            raise UsageError(
                f"{mirror} holds records that the mirror did not write",
                "it was re-created and filled by another producer, and behind those records it would be no copy of the source",
                f"If they do not matter: delete {mirror} on {flow.flow.target}, then repeat this command.",
            )
    originals = [TopicPartition(topic, n) for n in numbers]
    groups: dict[tuple[str, str], list[bool]] = {}
    for alias, wanted in ((flow.flow.source, topic), (flow.flow.target, mirror)):
        for group, partition, active in read[alias].found:
            if partition.topic == wanted:
                groups.setdefault((group, alias), []).append(active)
    return TopicPlan(
        source=topic,
        mirror=mirror,
        why=_why(reasons, now is None, mirror),
        delete=delete,
        records=_offsets(source, originals),
        deleted=_offsets(target, copies) if delete else 0,
        groups=tuple(AffectedGroup(g, alias, len(found), any(found)) for (g, alias), found in sorted(groups.items())),
        unread=tuple(f"{group} on {alias}" for alias in read for group in read[alias].unread),
        void={lane: names[lane].target_topic_id for lane in sorted(lanes)},
    )


def _why(reasons: Mapping[int, str], gone: bool, mirror: str) -> str:
    if gone:
        return f"{mirror} was deleted"
    return next(iter(reasons.values()), f"{mirror} was re-created")


def _offsets(cluster: Cluster, partitions: Collection[TopicPartition]) -> int:
    starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
    return sum(ends[partition] - starts[partition] for partition in partitions)


@dataclass(frozen=True, slots=True)
class _Positions:
    """Group, partition of each committed offset on a cluster and whether the group has members; groups that cannot be read."""

    found: Sequence[tuple[str, TopicPartition, bool]]
    unread: Sequence[str]


def _positions(cluster: Cluster) -> _Positions:
    groups = [listing.group for listing in cluster.groups() if not listing.group.startswith(OWN_GROUPS)]
    states, committed = cluster.group_states(groups), cluster.committed(groups)
    found: list[tuple[str, TopicPartition, bool]] = []
    unread: list[str] = []
    for group, offsets in committed.items():
        if isinstance(offsets, DrlibError):
            unread.append(group)
        else:
            found += [(group, partition, states.get(group) is GroupState.ACTIVE) for partition in offsets]
    return _Positions(found, unread)


async def _read_journals(settings: MirrorSettings, flow: FlowSettings) -> _Journals:
    journal = flow.policy.journal_topic(flow.flow.source)
    names: dict[int, Mapping[str, TopicNames]] = {}
    parked: dict[SourcePartition, str] = {}
    shared: set[UUID] = set()
    async with _client(settings, flow) as client:
        metadata = await client.metadata([journal])
        if metadata.topics[journal].error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return _Journals(names, parked)
        for lane in sorted(metadata.topics[journal].partitions):
            entries = await read_journal(client, TopicPartition(journal, lane))
            names[lane] = {entry.target_topic: entry for entry in entries if isinstance(entry, TopicNames)}
            shared |= {entry.topic_id for entry in entries if isinstance(entry, Shared)}
            for entry in entries:
                if isinstance(entry, MirrorRefused):
                    parked[entry.partition] = entry.reason
                elif isinstance(entry, SourceTruncated):
                    parked[entry.partition] = f"the source's log went back to offset {entry.first}"
    return _Journals(names, parked, shared)


async def _any_data(settings: MirrorSettings, flow: FlowSettings, partitions: Iterable[TopicPartition]) -> bool:
    async with _client(settings, flow) as client:
        return any([await holds_data(client, partition) for partition in partitions])


async def _request(settings: MirrorSettings, flow: FlowSettings, plans: Iterable[TopicPlan]) -> None:
    journal, now = flow.policy.journal_topic(flow.flow.source), now_ms()
    async with _client(settings, flow) as client:
        for topic in plans:
            for lane, void in topic.void.items():
                entry = RemirrorRequested(topic.mirror, void, now)
                record = recode.Record(offset=0, timestamp=now, key=entry.key(), value=entry.value(), headers=())
                batch = recode.rebuild([record], codec=0, producer_id=-1, producer_epoch=-1, base_sequence=-1)
                _, leader = await locate(client, TopicPartition(journal, lane))
                connection = await client.connection(leader)
                for result in await connection.produce(journal, [(lane, batch)]):
                    raise_for(result.error_code, f"writing the request to {journal}-{lane}", topics=[journal])


def _client(settings: MirrorSettings, flow: FlowSettings) -> ClusterClient:
    return wire_client(settings.clusters[flow.flow.target], client_id="drlib-remirror")
