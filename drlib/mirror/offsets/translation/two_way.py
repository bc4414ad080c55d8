"""Where groups stand when applications move from one cluster to another, over both flows between the two.

Rules: what the cluster they leave wrote itself is translated forward, through the map of the flow that mirrors it; what it has
as a mirror of the cluster they go to is translated back to its source, behind what of that one's tail was settled. So a group
that went over and comes back stands at the exact record of both. Positions come from the cluster that is left; nothing is
guessed: where a map is missing or refused, the answer is unknown. Partitions a group has no position in count as unread.
Not for: writing positions (`drlib.drill.actions.failback.actions`), failing over from a cluster that is gone (`translate`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.bulk_admin import BulkAdmin
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, TopicDescription
from drlib.mirror.journal.entries import SourcePartition, TopicNames
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.translation.failback_position import Returned, failback_position
from drlib.mirror.offsets.unreplicated.find import refuse_one_way
from drlib.mirror.offsets.unreplicated.settle import Ledger, read_ledger
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind

Positions = Mapping[TopicPartition, CommittedOffset]
Question = tuple[TopicPartition, int, int | None]


@dataclass(frozen=True, slots=True)
class FlowPairState:
    """What translating needs besides the groups' positions: maps of both flows, and what the clusters' logs say.

    `moving` is from the cluster that is left to the one gone to. As long as the mirrors of the flow back end at
    `mirror_ends`, its map is as true as when it was read.
    """

    moving: Flow
    forward: Maps  # of `moving`
    back: Maps  # of the flow back, whose mirrors stand on the cluster that is left
    ledger: Ledger  # of tails of the cluster gone to
    home_id: str  # the cluster ID of the one gone to
    home: Mapping[str, TopicDescription]  # its topics
    home_starts: Mapping[TopicPartition, int]
    mirror_starts: Mapping[TopicPartition, int]  # log starts of its mirrors, on the cluster that is left
    mirror_ends: Mapping[TopicPartition, int]  # their ends, as of the map


@dataclass(frozen=True, slots=True)
class Move:
    """One position. `unread`: records of the mirror it was in that the group has not read."""

    translation: GroupTranslation
    unread: int = 0

    @property
    def exact(self) -> bool:
        return self.translation.translation.exact


def read_known(settings: MirrorSettings, moving: Flow) -> FlowPairState:
    """Raises `UsageError` for flows that cannot be turned round, `Unreachable`, `BrokerError`."""
    refuse_one_way(settings.flow(moving.source, moving.target))
    with Cluster(settings.clusters[moving.source]) as here, Cluster(settings.clusters[moving.target]) as there:
        back = read_flow_maps(settings, moving.reverse)
        names = back.names.values()
        home = there.topics([n.source_topic for n in names])
        mirrors = here.topics([n.target_topic for n in names])
        every = [TopicPartition(t.name, n) for t in mirrors.values() for n in range(t.partitions)]
        ends = here.log_ends(every)
        forward, back = read_flow_maps(settings, moving), read_flow_maps(settings, moving.reverse)
        return FlowPairState(
            moving,
            forward,
            back,
            read_ledger(here),
            there.cluster_id(),
            home,
            there.log_starts(TopicPartition(t.name, n) for t in home.values() for n in range(t.partitions)),
            here.log_starts(every),
            ends,
        )


def group_positions(settings: MirrorSettings, alias: str, groups: Collection[str]) -> dict[str, Positions]:
    """The committed positions of each. Raises the first group's error."""
    with BulkAdmin(settings.clusters[alias]) as cluster:
        found = cluster.committed(groups)
    refused = next((answer for answer in found.values() if isinstance(answer, DrlibError)), None)
    if refused is not None:
        raise refused
    return {group: answer for group, answer in found.items() if not isinstance(answer, DrlibError)}


def groups_of(settings: MirrorSettings, moving: Flow, wanted: Collection[str] | None = None) -> tuple[str, ...]:
    """`wanted`, or every group of the cluster that is left which the flow's file chooses. Raises `UsageError` for a group
    that is not there."""
    chosen = settings.flow(moving.source, moving.target)
    with Cluster(settings.clusters[moving.source]) as cluster:
        there = [listing.group for listing in cluster.groups()]
    if wanted is None:
        return tuple(group for group in there if chosen.mirrors_group(group) and not group.startswith("drlib-"))
    if missing := sorted(set(wanted) - set(there)):
        raise UsageError(
            f"unknown group {', '.join(missing)}",
            f"{moving.source} has no such group",
            f"It has: {', '.join(there) or 'none'}.",
        )
    return tuple(sorted(wanted))


def translate(
    settings: MirrorSettings, known: FlowPairState, here: Mapping[str, Positions], before: Mapping[str, Positions]
) -> tuple[Move, ...]:
    """The positions `here`, on the cluster that is left, as positions on the one gone to; `before`: where the same groups
    stand there already. Positions in topics that neither flow mirrors are left out."""
    told = Translator(settings, known)
    return tuple(move for group, at in sorted(here.items()) for move in told.group(group, at, before.get(group, {})))


class Translator:
    """Answers over one `Known`, each different question once: groups are many, and most of them stand where others do.

    `answers`: what was asked and told; a question is a partition, a position in it, and in a mirror what the group had read of
    its source before, None elsewhere. An answer of None is a position that need not be written.
    """

    def __init__(self, settings: MirrorSettings, known: FlowPairState) -> None:
        self.known = known
        self.answers: dict[Question, Returned | None] = {}
        self._chosen = settings.flow(known.moving.source, known.moving.target)
        self._names: dict[str, tuple[TopicNames | None, str | None]] = {}

    def group(self, group: str, positions: Positions, home: Positions) -> tuple[Move, ...]:
        """The moves of one group that stands at `positions`, and at `home` on the cluster gone to."""
        now, found = int(time.time() * 1000), list[Move]()
        mirrors = {n.target_topic: n for p in positions if (n := self._topic(p.topic)[0]) is not None}
        for names in mirrors.values():
            for partition, position in _readable(self.known, names, positions):
                source = TopicPartition(names.source_topic, partition.partition)
                had_read = home[source].offset if source in home else 0
                if (answer := self.answer((partition, position.offset, had_read))) is not None:
                    told = GroupTranslation(
                        group, partition, position.offset, source, answer.translation, now, position.metadata
                    )
                    found.append(Move(told, answer.unread))
        for partition, position in sorted(positions.items()):
            names_back, remote = self._topic(partition.topic)
            if names_back is not None or remote is None:
                continue
            if (answer := self.answer((partition, position.offset, None))) is not None:
                target = TopicPartition(remote, partition.partition)
                told = GroupTranslation(
                    group, partition, position.offset, target, answer.translation, now, position.metadata
                )
                found.append(Move(told))
        return tuple(found)

    def answer(self, question: Question) -> Returned | None:
        try:
            return self.answers[question]
        except KeyError:
            partition, position, had_read = question
            names, _ = self._topic(partition.topic)
            if had_read is None:
                found = _forward(self.known, partition, position)
            else:
                assert names is not None  # only such topics are asked about so
                found = _back(self.known, names, partition, position, had_read)
            self.answers[question] = found
            return found

    def _topic(self, topic: str) -> tuple[TopicNames | None, str | None]:
        """Of a mirror of the flow back what its journal says; of a topic the flow mirrors its name on the cluster gone to."""
        if topic not in self._names:
            chosen, names = self._chosen, self.known.back.of_target(topic)
            remote = chosen.policy.remote_topic(chosen.flow.source, topic) if chosen.mirrors_topic(topic) else None
            self._names[topic] = (names, remote)
        return self._names[topic]


def _readable(
    known: FlowPairState, names: TopicNames, positions: Positions
) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
    """Every partition of a mirror that a group reads, also those it has no position in: there it would begin at the start."""
    for number in range(known.home[names.source_topic].partitions if names.source_topic in known.home else 0):
        partition = TopicPartition(names.target_topic, number)
        start = known.mirror_starts.get(partition)
        if partition in positions:
            yield partition, positions[partition]
        elif start is not None:
            yield partition, CommittedOffset(start)


def _back(
    known: FlowPairState, names: TopicNames, partition: TopicPartition, position: int, had_read: int
) -> Returned | None:
    home = known.home.get(names.source_topic)
    key = SourcePartition(names.topic_id, partition.partition)
    if home is None or home.topic_id != names.topic_id or key in known.back.refused:
        return Returned(Translation(None, TranslationKind.UNKNOWN))
    found = failback_position(
        known.back.by_partition.get(key),
        position,
        settled=known.ledger.next(known.home_id, names.topic_id, partition.partition),
        had_read=had_read,
        source_log_start=known.home_starts[TopicPartition(names.source_topic, partition.partition)],
    )
    begins = found.translation.offset == 0 and found.translation.exact  # where every group begins that has no position
    return None if begins else found


def _forward(known: FlowPairState, partition: TopicPartition, position: int) -> Returned | None:
    offsets = known.forward.source(partition.topic, partition.partition)
    if offsets is not None:
        there = offsets.forward(position)
    elif known.forward.refusal(partition.topic, partition.partition) is not None:
        there = Translation(None, TranslationKind.UNKNOWN)
    else:
        there = Translation(None, TranslationKind.NEVER_MIRRORED)
    if there.offset is None and there.kind is TranslationKind.NEVER_MIRRORED and position == 0:
        return None
    return Returned(there)
