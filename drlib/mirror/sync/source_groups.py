"""Follow the committed offsets of the source's consumer groups, and write checkpoints to the target.

Rules:
- Committed offsets come from the source's `__consumer_offsets`, consumed like any topic, so that a commit is known within
  milliseconds; a full poll at start and at every interval makes up for missed ones. Without the right to read that topic only
  the polls run, and an event says so.
- For a committed offset that the mirror has not reached, the checkpoint has the mirrored end, which is exact; the committed
  offset itself is in a header, so that "behind by n" is known when the source does not answer.
- A checkpoint is written by MM2's rule, when only that header changed, or when the last one did not arrive.
- In a topic that both directions copy the position takes both maps (`shared_followed`). While it is unknown, or lower than one
  that was written for an earlier position, the checkpoint keeps that one: it skips nothing either. Whenever the map back
  advanced the position is looked up again, because one that was exact by a map that lacks the newest copies is too low.
- Only for partitions of this worker's lanes; other workers write those of theirs.
- A position that is gone on the source (`rules.gone_positions`) is marked in the checkpoints, with the last one once more, so
  that an emergency does not bring its group back. The next commit is an ordinary checkpoint again. What went while no worker
  ran is found by the log of checkpoints, which is read once.
- Share groups have another protocol, and a follower of their own (`drlib.mirror.share_groups.follow`), which this one runs.
- A group that may not be described is an event with the missing right (`GroupUnreadable`); the others are followed. An empty
  list means no groups only where the cluster may be described; else brokers omit groups (`GroupsUnlisted`).
Longer than most modules: following, polling and writing share the state of one flow's positions.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Record
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.net import requests
from drlib.kafka.net.api_versions import UnsupportedRequest
from drlib.kafka.net.cluster_client import ClusterClient, WrongCluster
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.aborted_transactions import AbortedFilter
from drlib.kafka.protocol.batch import iter_batches
from drlib.kafka.protocol.error_codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, BrokerError, raise_for
from drlib.kafka.protocol.fetch import FetchedPartition, FetchPartition, TopicId
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.fetch.round_trip_time import wait_for_response
from drlib.mirror.errors import no_answer
from drlib.mirror.mm2 import consumer_offsets
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.mm2.writer import Mm2Writer
from drlib.mirror.offsets.translation.shared_followed import FollowedBack, SharedTopic
from drlib.mirror.preflight.checks import not_authorized
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.share_groups.follow import SharePositions
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.rules.gone_positions import GonePositions, Kept, checkpointed
from drlib.mirror.threads import in_daemon
from drlib.model import TopicPartition, TranslationKind

OFFSETS_TOPIC = "__consumer_offsets"
TICK_S = 0.05
POLL_TIMEOUT_S = 5.0
LOOK_BACK_S = 10.0
MOST_ASKED = 64  # groups that are not listed, in one poll
LEADER_POLL_S = 1.0
AGAIN_S = 5.0  # before what did not arrive on the target is written again
STABLE_S = 30.0  # after following for this long, a failure is retried at once
MAY_LIST = Right("cluster", "", ("DESCRIBE",))
UNREADABLE, UNLISTED = "GroupUnreadable", "GroupsUnlisted"


@dataclass(frozen=True, slots=True)
class Position:
    """A committed offset, as of `as_of_ms`. `transaction`: the producer ID and the epoch of the one that committed it, if one
    did and its commit was read."""

    offset: int
    metadata: str
    as_of_ms: int
    transaction: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """One full poll. `complete`: False where no group was listed and a right is missing, None where that is unknown.
    Of positions that may be gone: the groups that are not listed and may not be read, those whose coordinators said what they
    have, and the topics that may be described."""

    positions: Sequence[tuple[str, TopicPartition, Position]]
    refused: Mapping[str, ClusterRefused]
    complete: bool | None
    unreadable: Collection[str] = ()
    answered: Collection[str] = ()
    topics: Collection[str] = ()


class GroupPositions:
    """Follows the groups of one flow's source and writes their checkpoints."""

    def __init__(
        self,
        settings: FlowSettings,
        cluster: ClusterSettings,
        source: ClusterClient,
        writer: Mm2Writer,
        events: EventLog,
        stream_of: Callable[[TopicPartition], PartitionStream | None],
        back: FollowedBack | None = None,
        kept: Callable[[], Iterable[Record]] = tuple,
    ) -> None:
        """`kept`: reads the log of checkpoints; blocks, and raises what the target says."""
        self._settings = settings
        self._cluster = cluster
        self._source = source
        self._writer = writer
        self._events = events
        self._stream_of = stream_of
        self._back = back  # where there may be topics that both directions copy
        self._back_reached: dict[TopicPartition, int | None] = {}
        self._positions: dict[tuple[str, TopicPartition], Position] = {}
        self._groups_of: dict[TopicPartition, set[str]] = defaultdict(set)
        self._dirty: set[tuple[str, TopicPartition]] = set()
        self._behind: dict[TopicPartition, set[str]] = defaultdict(set)
        self._written: dict[tuple[str, TopicPartition], Checkpoint] = {}
        self._said: dict[
            tuple[str, TopicPartition], tuple[int, tuple[int, int] | None]
        ] = {}  # by headers of checkpoints
        self._topic_ids: dict[tuple[str, TopicPartition], str] = {}  # of topics that both directions copy
        self._lost: dict[tuple[str, TopicPartition], Checkpoint | Kept] = {}  # what did not arrive
        self._lost_at = 0.0  # the first of them
        self._kept = kept
        self._gone = GonePositions()
        self._following_broke = False
        self._refused: set[str] = set()
        self._shares = SharePositions(settings, cluster, source, writer, events, stream_of)

    def positions(self) -> Mapping[tuple[str, TopicPartition], Position]:
        """A copy of the committed offsets known now, by (group, source partition), of all partitions of the source."""
        return dict(self._positions)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            if self._settings.groups:  # a flow without groups has nothing to follow
                tasks.create_task(self._follow())
                tasks.create_task(self._polls())
            tasks.create_task(self._emit_loop())
            if self._settings.groups and self._settings.emit_checkpoints:
                tasks.create_task(self._shares.run())
                tasks.create_task(self._look_back())
            if self._back is not None and self._settings.groups and self._settings.emit_checkpoints:
                tasks.create_task(self._back.run(self._look_again))

    def _look_again(self) -> None:
        """The maps of the flow back were read again."""
        assert self._back is not None
        for partition, groups in self._groups_of.items():
            stream = self._stream_of(partition)
            if stream is None or not stream.shared or (topic := _shared(stream)) is None:
                continue
            reached = self._back.reached(topic)
            if reached != self._back_reached.get(partition):
                self._back_reached[partition] = reached
                self._dirty |= {(group, partition) for group in groups}
        for partition in list(self._behind):
            self.progressed(partition)

    def progressed(self, partition: TopicPartition) -> None:
        """The mirror of `partition` advanced: checkpoints of groups that were ahead of it may be exact now."""
        for group in self._behind.pop(partition, ()):
            self._dirty.add((group, partition))

    def assigned(self, partition: TopicPartition) -> None:
        """A lane of this worker started to mirror `partition`: write the checkpoints of its groups."""
        self._shares.rewrite(partition)
        for group in self._groups_of.get(partition, ()):
            self._dirty.add((group, partition))

    def rewrite(self) -> None:
        """Write every checkpoint again: their topic was deleted."""
        self._shares.rewrite()
        self._written.clear()
        self._said.clear()
        self._dirty |= self._positions.keys()

    def emit(self) -> None:
        """Write the checkpoints that are due."""
        dirty, self._dirty = self._dirty, set()
        for group, partition in dirty:
            stream = self._stream_of(partition)
            position = self._positions.get((group, partition))
            if stream is None or position is None:
                continue
            if stream.shared:
                self._emit_shared(group, stream, position)
                continue
            translation = stream.map.forward(position.offset)
            # Also where nothing was mirrored yet: the translation improves as the mirror advances.
            if translation.kind is not TranslationKind.EXACT:
                self._behind[partition].add(group)
            if translation.offset is None:
                continue
            upstream = position.offset
            if translation.kind is TranslationKind.BEHIND:
                upstream -= translation.records
            checkpoint = Checkpoint(group, stream.target, upstream, translation.offset, position.metadata)
            key = (group, stream.target)
            last = self._written.get(key)
            now = (position.offset, position.transaction)
            moved = self._said.get(key) != now and (last is None or checkpoint.offset >= last.offset)
            if checkpoint.follows(last) or moved:
                lost = partial(self._lose, (group, partition), checkpoint)
                self._writer.checkpoint(
                    checkpoint, position.offset, position.as_of_ms, transaction=position.transaction, lost=lost
                )
                self._written[key] = checkpoint
                self._said[key] = now

    def _emit_shared(self, group: str, stream: PartitionStream, position: Position) -> None:
        """Write the checkpoint of a position in a topic that both directions copy."""
        assert self._back is not None, f"{stream.source} is shared, and the flow back is not followed"
        if (topic := _shared(stream)) is None:
            return  # it is known once the claim has begun, which marks the groups again
        answer = self._back.there(stream.map, topic, position.offset)
        if answer is None or not answer.translation.exact:
            self._behind[stream.source].add(group)
        if answer is None:
            return
        key = (group, stream.target)
        last = self._written.get(key) if self._topic_ids.get(key) == topic.ids else None
        offset, before = answer.translation.offset or 0, self._said.get(key, (-1, None))[0]
        if last is not None and before <= position.offset:
            offset = max(offset, last.offset)
        if last is not None and (before, last.offset) == (position.offset, offset):
            return
        checkpoint = Checkpoint(group, stream.target, position.offset, offset, position.metadata)
        lost = partial(self._lose, (group, stream.source), checkpoint)
        self._writer.checkpoint(
            checkpoint, position.offset, position.as_of_ms, topic.ids, position.transaction, lost=lost
        )
        self._written[key], self._topic_ids[key] = checkpoint, topic.ids
        self._said[key] = (position.offset, position.transaction)

    async def _emit_loop(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._lost and time.monotonic() >= self._lost_at + AGAIN_S:
                self._write_lost_again()
            if self._settings.emit_checkpoints:
                self.emit()
            self._writer.poll()

    def _lose(self, key: tuple[str, TopicPartition], what: Checkpoint | Kept) -> None:
        """What was written last of a position did not arrive; `Kept`: that it is gone."""
        if not self._lost:
            self._lost_at = time.monotonic()
        self._lost[key] = what

    def _write_lost_again(self) -> None:
        """A group may commit nothing more: what did not arrive is not superseded by itself."""
        lost, self._lost = self._lost, {}
        for key, what in lost.items():
            there = self._mirror_of(key)
            if isinstance(what, Kept):
                if key not in self._positions:
                    self._mark(key, what, clock.now_ms())
            elif self._written.get(there) == what:
                del self._written[there]
                self._said.pop(there, None)
                self._dirty.add(key)

    def _learn(self, group: str, partition: TopicPartition, position: Position | None) -> None:
        if not self._settings.mirrors_group(group):
            return
        key = (group, partition)
        if position is None:
            known = self._positions.get(key)
            self._gone.deleted(key, None if known is None else self._as_kept(key, known), clock.now_ms())
            self._forget(key)
            return
        known = self._positions.get(key)
        if known is not None and known.as_of_ms > position.as_of_ms:
            if (known.offset, known.transaction) == (position.offset, None) and position.transaction is not None:
                self._positions[key] = replace(known, transaction=position.transaction)  # a poll had found it first
                self._dirty.add(key)
            return
        if known is None or (known.offset, known.metadata) != (position.offset, position.metadata):
            self._gone.there(key)
            self._positions[key] = position
            self._groups_of[partition].add(group)
            self._dirty.add(key)

    # -- positions that are gone -----------------------------------------------------------------------------------

    def _mirror_of(self, key: tuple[str, TopicPartition]) -> tuple[str, TopicPartition]:
        group, at = key
        topic = self._settings.policy.remote_topic(self._settings.flow.source, at.topic)
        return group, TopicPartition(topic, at.partition)

    def _as_kept(self, key: tuple[str, TopicPartition], position: Position) -> Kept:
        there = self._mirror_of(key)
        return Kept(position.offset, position.as_of_ms, self._written.get(there), self._topic_ids.get(there, ""))

    def _forget(self, key: tuple[str, TopicPartition]) -> None:
        there = self._mirror_of(key)
        self._positions.pop(key, None)
        self._groups_of[key[1]].discard(key[0])
        self._written.pop(there, None)  # the next commit is written whatever it is
        self._said.pop(there, None)
        self._topic_ids.pop(there, None)

    def _mark(self, key: tuple[str, TopicPartition], kept: Kept, now_ms: int) -> None:
        """Write that a position is gone, where it has a checkpoint."""
        stream, checkpoint = self._stream_of(key[1]), kept.checkpoint
        if stream is None:
            return  # another worker's by now
        if checkpoint is None and not stream.shared and (there := stream.map.forward(kept.offset).offset) is not None:
            checkpoint = Checkpoint(key[0], stream.target, kept.offset, there)  # it was another worker's
        of_share_group = self._shares.has_written(key[0], stream.target)  # it has the name now, and the same key
        if checkpoint is not None and self._settings.emit_checkpoints and not of_share_group:
            lost = partial(self._lose, key, kept)
            self._writer.gone(checkpoint, kept.offset, now_ms, kept.topic_ids, lost=lost)
        self._gone.there(key)
        self._forget(key)

    async def _look_back(self) -> None:
        """Read once what the checkpoints have, as groups may have gone while no worker ran."""
        policy, chosen = self._settings.policy, self._settings.mirrors_group
        while True:
            try:
                found = await in_daemon(lambda: checkpointed(self._kept(), policy, chosen))
            except ClusterRefused:
                return  # an optional right: those groups stay as they are
            except (DrlibError, TimeoutError, OSError):
                await asyncio.sleep(LOOK_BACK_S)
                continue
            self._gone.add(found, self._positions)
            return

    # -- polling -------------------------------------------------------------------------------------------------

    async def _polls(self) -> None:
        interval = max(0.2, self._settings.group_positions_poll_ms / 1000)
        while True:
            if (
                not self._following_broke
            ):  # a source that does not answer is not asked: every request would take its time-out
                with contextlib.suppress(DrlibError):
                    await self._poll_once()
            await asyncio.sleep(interval)

    async def _poll_once(self) -> None:
        entity = str(self._settings.flow)
        now_ms = clock.now_ms()
        doubtful = self._gone.doubtful(lambda at: self._stream_of(at) is not None, now_ms)
        try:
            polled = await in_daemon(lambda: self._poll(doubtful))
        except ClusterRefused as error:
            needed = not_authorized(MAY_LIST, self._cluster) if error.unauthorized else ""
            self._events.open(UNLISTED, entity, f"{error} {needed}".rstrip())
            return
        if polled.complete:
            self._events.resolve(UNLISTED, entity)
        elif polled.complete is False:
            self._events.open(
                UNLISTED,
                entity,
                f"{self._settings.flow.source} lists no group; it omits groups that the worker may not describe, so there "
                f"may be some. {not_authorized(MAY_LIST, self._cluster)}",
            )
        for group, partition, position in polled.positions:
            if not self._gone.outdates((group, partition), position.as_of_ms):
                self._learn(group, partition, position)
        found = {(group, partition) for group, partition, _ in polled.positions}
        refused = {*polled.refused, *polled.unreadable}
        for key, kept in self._gone.gone(found, polled.answered, refused, polled.topics).items():
            self._mark(key, kept, now_ms)
        for group, refusal in polled.refused.items():
            right = Right("group", group, ("DESCRIBE",))
            needed = f" {not_authorized(right, self._cluster)}" if refusal.unauthorized else ""
            self._events.open(UNREADABLE, group, f"{refusal.why}.{needed}")
        for group in self._refused - set(polled.refused):
            self._events.resolve(UNREADABLE, group)
        self._refused = set(polled.refused)

    def _poll(self, doubtful: Collection[tuple[str, TopicPartition]] = ()) -> Polled:
        """`doubtful`: positions that may be gone, whose groups are asked for also where they are not listed."""
        positions = []
        refused: dict[str, ClusterRefused] = {}
        unlisted: dict[str, ClusterRefused] = {}
        with Cluster(self._cluster, timeout_s=POLL_TIMEOUT_S) as cluster:
            listed = dict.fromkeys(g.group for g in cluster.groups() if self._settings.mirrors_group(g.group))
            asked = [*listed, *sorted({group for group, _ in doubtful}.difference(listed))[:MOST_ASKED]]
            asked_ms = clock.now_ms()
            # their coordinator is not available, or an open transaction holds them back
            unknown: dict[str, DrlibError] = {}
            for group, answer in cluster.committed(asked).items():
                if isinstance(answer, ClusterRefused):
                    (refused if group in listed else unlisted)[group] = answer
                elif isinstance(answer, DrlibError):
                    unknown[group] = answer
                else:
                    for partition, committed in answer.items():
                        positions.append((group, partition, Position(committed.offset, committed.metadata, asked_ms)))
            if unknown and len(unknown) == len(asked):
                raise next(iter(unknown.values()))
            missing = set(doubtful).difference((group, partition) for group, partition, _ in positions)
            topics = cluster.topics({at.topic for _, at in missing}, in_sight=True)
            cluster_id = cluster.cluster_id()  # asked last, so that it vouches for all answers above
            if self._source.cluster_id not in ("", cluster_id):
                raise WrongCluster(", ".join(self._cluster.bootstrap_servers), self._source.cluster_id, cluster_id)
            complete = bool(listed) or cluster.lists_every_group()
            answered = set(asked).difference(refused, unlisted, unknown)
            return Polled(positions, refused, complete, set(unlisted), answered, set(topics))

    # -- following -----------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Consume commits; start over at the end of the log after the source was unreachable."""
        delay = 0.05
        while True:
            started = time.monotonic()
            try:
                await asyncio.create_task(self._follow_leaders())
            except* WrongCluster:  # reported by `cluster_watch`; its groups are not polled
                self._following_broke = True
            except* (Unreachable, UnsupportedRequest, SecurityFault, BrokerError, TimeoutError, OSError) as errors:
                unreachable = [e for e in errors.exceptions if not isinstance(e, BrokerError)]
                self._following_broke = bool(unreachable)
                # An unreachable source is one event, whichever task notices; a missing right is another.
                name = "SourceUnreachable" if unreachable else "GroupTailUnavailable"
                detail, remedy = no_answer(unreachable[0]) if unreachable else (str(errors.exceptions[0]), "")
                self._events.open(name, str(self._settings.flow), detail, remedy=remedy, by="groups")
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # a task group that has errors forgets that it was cancelled
                raise asyncio.CancelledError
            delay = 0.1 if time.monotonic() - started > STABLE_S else min(2.0, delay * 2)
            await asyncio.sleep(delay)

    async def _follow_leaders(self) -> None:
        """Consume commits until a leader moves or does not answer; runs in a task of its own, for its task group's sake."""
        metadata = await self._source.metadata([OFFSETS_TOPIC])
        self._following_broke = False
        topic = metadata.topics[OFFSETS_TOPIC]
        by_node: dict[int, list[int]] = defaultdict(list)
        for number, partition in topic.partitions.items():
            by_node[partition.leader].append(number)
        offline = by_node.pop(-1, [])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._check_answers(by_node or metadata.brokers, topic.error_code, offline))
            tasks.create_task(self._wait_for_election(offline))
            for node, numbers in by_node.items():
                tasks.create_task(self._follow_node(node, topic.topic_id, numbers))

    async def _wait_for_election(self, offline: Collection[int]) -> None:
        """Raises `BrokerError` once one of the partitions that had no leader has one."""
        while offline:
            await asyncio.sleep(LEADER_POLL_S)
            found = (await self._source.metadata([OFFSETS_TOPIC])).topics[OFFSETS_TOPIC].partitions
            if any(number in found and found[number].leader >= 0 for number in offline):
                raise BrokerError(LEADER_NOT_AVAILABLE, f"following {OFFSETS_TOPIC}")

    async def _check_answers(self, nodes: Iterable[int], error_code: int, offline: Collection[int] = ()) -> None:
        """Resolve `SourceUnreachable` once all brokers answer, whether or not there is anything to follow.

        Partitions that are `offline` are reported: positions of their groups are not known, those of others are. Before the
        first commit the topic does not exist, which is no error. Raises `BrokerError` for other codes.
        """
        for node in nodes:
            if node >= 0:
                await wait_for_response(self._source, node)
        self._events.resolve("SourceUnreachable", str(self._settings.flow), by="groups")
        if error_code != UNKNOWN_TOPIC_OR_PARTITION:
            raise_for(error_code, f"following {OFFSETS_TOPIC}")
        flow = str(self._settings.flow)
        if offline:
            detail = f"{len(offline)} partitions of {OFFSETS_TOPIC} have no leader; the positions of their groups are not known"
            self._events.open(
                "GroupTailUnavailable", flow, detail, remedy="Start the brokers that have them.", by="groups"
            )
        else:
            self._events.resolve("GroupTailUnavailable", flow, by="groups")

    async def _follow_node(self, node: int, topic_id: TopicId, numbers: list[int]) -> None:
        connection = await self._source.connection(node, "groups")
        partitions = [TopicPartition(OFFSETS_TOPIC, n) for n in numbers]
        ends = await requests.list_offsets(connection, partitions, requests.LATEST)
        positions = {p.partition: ends[p] for p in partitions}
        while True:
            answers = await requests.fetch(
                connection,
                [FetchPartition(OFFSETS_TOPIC, topic_id, n, offset, 128 << 10) for n, offset in positions.items()],
                max_wait_ms=500,
                min_bytes=1,
                max_bytes=256 << 10,  # small, because it shares the link with the records
                read_committed=True,
            )
            for answer in answers:
                raise_for(answer.error_code, f"following {OFFSETS_TOPIC}")
                positions[answer.partition] = self._read(answer, positions[answer.partition])

    def _read(self, answer: FetchedPartition, position: int) -> int:
        keep = AbortedFilter(answer.aborted)
        for header, view in iter_batches(answer.records):
            if header.last_offset < position:
                continue
            position = header.next_offset
            if not keep.keep(header, view) or header.count == 0:
                continue
            for record in recode.records(view):
                commit = consumer_offsets.decode(record.key, record.value)
                if commit is None:
                    continue
                partition = TopicPartition(commit.topic, commit.partition)
                if commit.offset is None:
                    self._learn(commit.group, partition, None)
                else:
                    of = (header.producer_id, header.producer_epoch) if header.is_transactional else None
                    committed = Position(commit.offset, commit.metadata, commit.commit_timestamp_ms, of)
                    self._learn(commit.group, partition, committed)
        return position


def _shared(stream: PartitionStream) -> SharedTopic | None:
    """None while the ID of the target's topic is not known."""
    return None if stream.target_id is None else SharedTopic(stream.source, stream.key.topic_id, stream.target_id)
