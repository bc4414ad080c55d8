"""Translate committed offsets of consumer groups to the target, from the journal and the logs; read-only.

Rules: positions come from the source as far as its coordinators answer in time, else from the newest checkpoints on the target
and the position in their headers (how old such a position is stands in `as_of_ms`). The map includes the records that mirror
topics hold beyond the last Ack, so a killed worker loses nothing. Committing refuses groups with members.
- In a topic that both directions copy, a position takes both maps (`shared_logs`); without that of the flow back, checkpoints
  say what groups had read on the target as well, and the rest is a bound.
Not for: failback and planned switchover (`two_way`), positions outside Kafka (`external_offsets`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from drlib import clock, decoding
from drlib.config.both_ways.shared_topics import refuse_ring, shared_between
from drlib.config.replication_policy import ReplicationPolicy
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, NoLeader, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S, blocking, refuse_silence, who_answers, wire_client
from drlib.kafka.admin.descriptions import CommittedOffset, Record
from drlib.kafka.admin.group_offsets import committed
from drlib.kafka.admin.reachability import Askable, examine
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION, BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.mm2.checkpoint_log import checkpoints, read_checkpoints
from drlib.mirror.mm2.writer import GONE_HEADER, SHARE_HEADER, TOPICS_HEADER, TRANSACTION_HEADER
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.mirror.offsets.mirror_maker.maps import SyncedMaps
from drlib.mirror.offsets.mirror_maker.mirrored_by import MirrorMakerFlow
from drlib.mirror.offsets.mirror_maker.read_flow import SourceSide, read_mm2_flow
from drlib.mirror.offsets.translation.shared_logs import (
    Asked,
    KnownRead,
    SharedAnswer,
    SharedLogs,
    read_back,
    shared_bounds,
)
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind

COMMITTED_OFFSETS_TIMEOUT_S = 15.0  # for the positions of all groups
PARTLY_DEAD_S = 3.0  # for those whose coordinators answer, where others are missing

_UNKNOWN = Translation(None, TranslationKind.UNKNOWN)


@dataclass(frozen=True, slots=True)
class KnownPosition:
    """A committed offset on the source, as of `as_of_ms`. `read`: what the checkpoint says that is read by then on the target,
    of a topic that both directions copy. `there`: its offset in the mirror, by the checkpoint; None of the source.
    `transaction`: producer ID and epoch of the one that committed it, where the checkpoint says so."""

    offset: int
    as_of_ms: int
    metadata: str
    read: KnownRead | None = None
    there: int | None = None
    transaction: tuple[int, int] | None = None


Positions = Mapping[tuple[str, TopicPartition], KnownPosition]  # (group, source partition)


@dataclass(frozen=True, slots=True)
class PositionsFound:
    """Positions, and the groups of the source whose positions are neither there nor on the target, with the reason."""

    positions: Positions
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupsTranslated:
    """`mirror_maker`: how the flow stands where MirrorMaker 2 mirrors it; else the translations are by drlib's journal."""

    translations: tuple[GroupTranslation, ...]
    mirror_maker: MirrorMakerFlow | None = None


def source_positions(
    settings: MirrorSettings,
    flow: Flow,
    wanted: Callable[[str], bool] = lambda group: True,
    timeout_s: float = COMMITTED_OFFSETS_TIMEOUT_S,
) -> Positions:
    """Read the committed offsets of the flow's groups from the source: of those that are `wanted`, or of all where none is.

    So a group that is not wanted, and whose open transaction has positions, holds up no other. Raises `Unreachable`.
    """
    listed = _listed(settings, flow, timeout_s)
    groups = [group for group in listed if wanted(group)] or listed
    known, refused = _answered(settings.clusters[flow.source], groups, timeout_s)
    for error in refused.values():
        raise error
    return known


def _listed(settings: MirrorSettings, flow: Flow, timeout_s: float) -> list[str]:
    """The flow's groups, as the source lists them."""
    flow_settings = settings.flow(flow.source, flow.target)
    with Cluster(settings.clusters[flow.source], timeout_s=timeout_s) as cluster:
        return [listing.group for listing in cluster.groups() if flow_settings.mirrors_group(listing.group)]


def _answered(
    source: ClusterSettings, groups: Sequence[str], timeout_s: float, silent: Collection[int] = ()
) -> tuple[Positions, dict[str, DrlibError]]:
    """The positions of the groups whose coordinator answers, and why there are none of the others. `silent`: node IDs."""
    known: dict[tuple[str, TopicPartition], KnownPosition] = {}
    refused: dict[str, DrlibError] = {}
    now_ms = clock.now_ms()
    for group, positions in committed(source, groups, timeout_s, silent).items():
        if isinstance(positions, DrlibError):
            refused[group] = positions
            continue
        for partition, position in positions.items():
            known[group, partition] = KnownPosition(position.offset, now_ms, position.metadata)
    return known, refused


def newest_positions(
    settings: MirrorSettings, flow: Flow, timeout_s: float = COMMITTED_OFFSETS_TIMEOUT_S
) -> PositionsFound:
    """Every group's newest known position: of the source as far as it answers within about `timeout_s`, else of the target.

    A group that the source refuses to describe is one for which it does not answer. Raises `Unreachable` where the target does
    not answer.
    """
    source, end = settings.clusters[flow.source], time.monotonic() + timeout_s
    service = examine([source], {}, min(ANSWER_S, timeout_s))[flow.source]
    if isinstance(service, Unreachable):
        return PositionsFound(checkpointed_positions(settings, flow))
    asked = service.groups_askable
    answered: Positions = {}
    refused: Mapping[str, DrlibError] = {}
    if asked is Askable.EVERY_GROUP:
        try:
            answered, refused = _answered(source, _listed(settings, flow, timeout_s), timeout_s)
        except Unreachable:
            pass
        else:
            if not refused:
                return PositionsFound(answered)
    known: Positions = {}
    without: tuple[type[NoLeader], ...] = (NoLeader,) if answered else ()  # else nothing is known of any group
    with contextlib.suppress(*without):
        known = checkpointed_positions(settings, flow)
    if not answered and asked is not Askable.NO_GROUP:
        groups = sorted({group for group, _ in known})
        left_s = max(1.0, min(PARTLY_DEAD_S, end - time.monotonic()))
        try:
            answered, refused = _answered(source, groups, left_s, service.silent)
        except Unreachable:
            return PositionsFound(known)
    of_source = {group for group, _ in answered}
    known = {key: at for key, at in known.items() if key[0] not in of_source} | dict(answered)
    have = {group for group, _ in known}
    return PositionsFound(known, {group: error.why for group, error in refused.items() if group not in have})


def checkpointed_positions(settings: MirrorSettings, flow: Flow) -> Positions:
    """Read the last known committed offsets from the checkpoints topic on the target; none where there is no such topic."""
    return last_known(read_checkpoints(settings, flow), settings.flow(flow.source, flow.target).policy)


def last_known(records: Iterable[Record], policy: ReplicationPolicy, *, with_gone: bool = False) -> Positions:
    """The newest position of each consumer group and partition in a log of checkpoints; other records are skipped. Pure.

    `with_gone`: also those that the source no longer has.
    """
    known: dict[tuple[str, TopicPartition], KnownPosition] = {}
    for each in checkpoints(records, policy):
        if SHARE_HEADER in each.headers or (GONE_HEADER in each.headers and not with_gone):
            known.pop(each.key, None)  # the group of that name is a share group by now, or gone
            continue
        known[each.key] = KnownPosition(
            each.position,
            each.as_of_ms,
            each.checkpoint.metadata,
            _known_read(each.position, each.checkpoint.offset, each.headers.get(TOPICS_HEADER, b"")),
            each.checkpoint.offset,
            _transaction(each.headers.get(TRANSACTION_HEADER, b"")),
        )
    return known


def _transaction(header: bytes) -> tuple[int, int] | None:
    producer, _, epoch = header.partition(b"/")
    found = decoding.integer_or(-1, producer), decoding.integer_or(-1, epoch)
    return found if min(found) >= 0 else None


def _known_read(position: int, there: int, topic_ids: bytes) -> KnownRead | None:
    """None where the checkpoint is of a topic that one direction copies, or says nothing that can be read."""
    try:
        here, _, target = topic_ids.decode("ascii").partition("/")
        return KnownRead(position, there, UUID(here), UUID(target)) if there >= 0 else None
    except ValueError:
        return None


def translate_groups(
    settings: MirrorSettings,
    flow: Flow,
    groups: Sequence[str] | None = None,
    *,
    source_alive: bool | None = None,
    positions: Positions | None = None,
) -> tuple[GroupTranslation, ...]:
    """`translate_known`, without what it found of MirrorMaker 2."""
    return translate_known(settings, flow, groups, source_alive=source_alive, positions=positions).translations


def translate_known(
    settings: MirrorSettings,
    flow: Flow,
    groups: Sequence[str] | None = None,
    *,
    source_alive: bool | None = None,
    positions: Positions | None = None,
    read_there: Mapping[str, Mapping[TopicPartition, CommittedOffset]] | None = None,
    wanted: Callable[[str], bool] = lambda group: True,
) -> GroupsTranslated:
    """Translate every committed offset of `groups` (all when None) on a mirrored topic.

    `source_alive`: False reads the target only; True requires the source; None tries the source first. `wanted`: the groups
    that are read of a source that is required, all where it has none of them. `positions`: those
    that were read already. `read_there`: by group, what it has read on the target before, of topics that both directions copy:
    it continues behind that. Raises `UsageError` for a group without any known position, `Unreachable` naming every cluster
    that is needed and does not answer.
    """
    settings.flow(flow.source, flow.target)
    refuse_ring(settings, flow, "positions cannot be translated")
    if positions is None:
        positions = _positions(settings, flow, source_alive, wanted)
    unknown = set(groups or ()) - {group for group, _ in positions}
    if unknown:
        raise UsageError(
            f"unknown group {', '.join(sorted(unknown))}",
            f"no committed offset of it is known for {flow}",
            f"Known groups: {', '.join(sorted({group for group, _ in positions})) or 'none'}.",
        )
    chosen = settings.flow(flow.source, flow.target)
    both_ways = shared_between(settings, flow) or (lambda _: False)

    def query(group: str, source: TopicPartition, position: int) -> Asked:
        before = (read_there or {}).get(group, {}).get(source)
        return source, position, 0 if before is None else before.offset

    asked = {
        query(group, source, position.offset)
        for (group, source), position in positions.items()
        if both_ways(source.topic) and (groups is None or group in groups)
    }
    own = {at.topic for (_, at), position in positions.items() if position.there is None}  # as the source has them now
    found = blocking(_read_maps(settings, flow, source_alive, asked, own))
    maps, mirror_maker = found.maps, found.mirror_maker
    translations = []
    for (group, source), position in sorted(positions.items()):
        if groups is not None and group not in groups:
            continue
        target = TopicPartition(chosen.policy.remote_topic(flow.source, source.topic), source.partition)
        known = position.as_of_ms, position.metadata
        topic_id = found.topic_ids.get(source.topic) if position.there is None else None
        if maps.replaced(source.topic, topic_id):
            why = f"{source.topic} was created again, and {flow} has mirrored nothing of the new topic yet"
            translations.append(GroupTranslation(group, source, position.offset, target, _UNKNOWN, *known, why=why))
            continue
        if both_ways(source.topic):
            one = found.shared[query(group, source, position.offset)]
            moved = one.translation, *known, 0, one.both_maps, one.why
            translations.append(GroupTranslation(group, source, position.offset, target, *moved))
            continue
        translation = maps.forward(
            group, source, position.offset, target_log_start=found.starts.get(target, 0), there=position.there
        )
        if translation is None and isinstance(maps, SyncedMaps) and chosen.mirrors_topic(source.topic):
            translation = Translation(None, TranslationKind.NEVER_MIRRORED)
        if translation is None or not (maps.newest(source.topic) or chosen.mirrors_topic(source.topic)):
            continue  # a topic this flow does not mirror
        refused = maps.refusal(source.topic, source.partition) if translation.kind is TranslationKind.UNKNOWN else None
        why = "" if refused is None else refused.why
        translations.append(GroupTranslation(group, source, position.offset, target, translation, *known, why=why))
    return GroupsTranslated(tuple(translations), mirror_maker)


def _positions(
    settings: MirrorSettings, flow: Flow, source_alive: bool | None, wanted: Callable[[str], bool]
) -> Positions:
    silent = _silent(settings, [flow.target, flow.source] if source_alive else [flow.target])
    if silent and source_alive is None:
        silent |= _silent(settings, [flow.source])
    refuse_silence(silent)
    if source_alive is None:
        return newest_positions(settings, flow).positions
    return source_positions(settings, flow, wanted) if source_alive else checkpointed_positions(settings, flow)


def _silent(settings: MirrorSettings, aliases: Sequence[str]) -> dict[str, Unreachable]:
    answers = who_answers([settings.clusters[alias] for alias in aliases])
    return {alias: answer for alias, answer in answers.items() if isinstance(answer, Unreachable)}


@dataclass(frozen=True, slots=True)
class _FlowRead:
    """The flow's maps, the log starts of its mirror partitions, and the answers for topics that both directions copy."""

    maps: Maps
    starts: Mapping[TopicPartition, int]
    mirror_maker: MirrorMakerFlow | None = None
    shared: Mapping[Asked, SharedAnswer] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)  # of the source's topics, as far as it says them


async def _read_maps(
    settings: MirrorSettings, flow: Flow, alive: bool | None, asked: Collection[Asked], own: Collection[str] = ()
) -> _FlowRead:
    """The flow's maps, from its journal or from what MirrorMaker 2 leaves. `asked`: positions in topics copied both ways;
    `own`: topics of which positions are those of the source. `alive`: as `source_alive` of `translate_known`."""
    target, chosen = settings.clusters[flow.target], settings.flow(flow.source, flow.target)
    async with wire_client(target, client_id="drlib-translate") as client:
        await client.connect()
        missing, maps = None, Maps()
        bounds = await shared_bounds(client, {one[0] for one in asked})
        try:
            maps = await read_maps(client, chosen.policy.journal_topic(flow.source), partly=True)
        except BrokerError as error:
            if error.code != UNKNOWN_TOPIC_OR_PARTITION:
                raise
            missing = error
        if maps.never_ran:
            async with wire_client(settings.clusters[flow.source], client_id="drlib-translate") as source:
                side = await _source_side(source) if alive is not False else SourceSide(None, "it was not asked")
                mm2 = await read_mm2_flow(chosen, client, side)
            if mm2 is not None:
                why = "MirrorMaker 2 mirrors it, and which records are copies is not known"
                unknown = SharedAnswer(_UNKNOWN, False, why)
                return _FlowRead(mm2.maps, {}, mm2.found, dict.fromkeys(asked, unknown))
            if missing is not None:
                raise missing
        shared: Mapping[Asked, SharedAnswer] = {}
        if asked:
            back = await read_back(settings, flow, alive)
            known: Mapping[TopicPartition, list[KnownRead]] = {}
            if not isinstance(back, Maps):
                with contextlib.suppress(NoLeader):  # then all that lies on the target may be unread
                    known = await asyncio.to_thread(known_reads, settings, flow)
            shared = await SharedLogs(maps, back, bounds, known).answer(client, asked)
    mirrors = [
        TopicPartition(maps.names[key.topic_id].target_topic, key.partition)
        for key in maps.by_partition
        if key.topic_id in maps.names
    ]
    ids = await _topic_ids(settings.clusters[flow.source], own) if own and alive is not False else {}
    with Cluster(target) as cluster:
        return _FlowRead(maps, cluster.log_starts(mirrors), None, shared, ids)


def translate_shared(
    settings: MirrorSettings, flow: Flow, asked: Collection[Asked], *, source_alive: bool
) -> Mapping[Asked, SharedAnswer]:
    """Positions in topics that both directions copy, of groups or kept elsewhere. Raises as `translate_known` does."""
    return blocking(_read_maps(settings, flow, source_alive, asked)).shared if asked else {}


def known_reads(settings: MirrorSettings, flow: Flow) -> dict[TopicPartition, list[KnownRead]]:
    """What groups had read on the target, as the checkpoints there have it: also groups that are gone, as it holds for any."""
    found: dict[TopicPartition, list[KnownRead]] = {}
    policy = settings.flow(flow.source, flow.target).policy
    for (_, partition), position in last_known(read_checkpoints(settings, flow), policy, with_gone=True).items():
        if position.read is not None:
            found.setdefault(partition, []).append(position.read)
    return found


async def _topic_ids(source: ClusterSettings, topics: Collection[str]) -> dict[str, UUID]:
    with contextlib.suppress(DrlibError, TimeoutError, OSError):
        async with asyncio.timeout(ANSWER_S), wire_client(source, client_id="drlib-translate") as client:
            await client.connect()
            return {name: each.topic_id for name, each in (await client.metadata(sorted(topics))).topics.items()}
    return {}


async def _source_side(client: ClusterClient) -> SourceSide:
    """The source as far as it answers, for offset syncs that MirrorMaker 2 keeps there."""
    try:
        async with asyncio.timeout(ANSWER_S):
            await client.connect()
    except (DrlibError, TimeoutError, OSError) as error:
        return SourceSide(None, str(error) or f"no answer within {ANSWER_S:g} s")
    return SourceSide(client)
