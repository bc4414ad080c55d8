"""Positions of groups that move between two clusters, translated while everything is held: `positions_of` chooses how.

Rules: where both directions copy every topic, each position takes both maps, and a group continues at the first record that it
has not read (`drlib.mirror.offsets.translation.shared_position`), behind what it had read on the target before. How many
records it reads again is known then, and none is skipped. Other flows are translated ahead, by both maps of the pair.
Not for: a source that does not answer (`drlib.drill.actions.groups.translate`), deciding and writing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from drlib import clock
from drlib.config.both_ways.shared_topics import all_shared
from drlib.config.settings import MirrorSettings
from drlib.drill.actions.moving.precompute import PrecomputedMoves
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.group_offsets import Positions
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.translation.translate_groups import KnownPosition, translate_known
from drlib.mirror.offsets.translation.two_way import FlowPairState, read_flow_pair
from drlib.model import Flow, GroupTranslation, TopicPartition

OfGroups = Mapping[str, Positions]


class MovedPositions(Protocol):
    """`bounded`: may a position have a bound on what is read again? `mirrors`: mirrors on the cluster that is left."""

    @property
    def bounded(self) -> bool: ...
    @property
    def mirrors(self) -> Sequence[TopicPartition]: ...

    def translate(self, source: Cluster, maps: Maps, positions: OfGroups) -> tuple[GroupTranslation, ...]:
        """`positions` of groups on `source`, which are final; `maps`: of the flow, read when it had copied all."""


def positions_of(settings: MirrorSettings, moving: Flow, positions: OfGroups, previous: OfGroups) -> MovedPositions:
    """Ready to translate. `previous`: the groups' positions on the target, before anything is written. Blocks."""
    if all_shared(settings, moving):
        return SharedPositions(settings, moving, previous)
    return PairPositions(settings, read_flow_pair(settings, moving), positions, previous)


class PairPositions:
    """Of topics that have another name as copies. They are translated ahead, so that only what changed is translated again."""

    def __init__(self, settings: MirrorSettings, known: FlowPairState, positions: OfGroups, previous: OfGroups) -> None:
        self._settings, self._known = settings, known
        self._ahead = PrecomputedMoves.compute(settings, known, positions, previous)

    @property
    def bounded(self) -> bool:
        return self._known.bounded

    @property
    def mirrors(self) -> Sequence[TopicPartition]:
        return tuple(self._known.mirror_ends)

    def translate(self, source: Cluster, maps: Maps, positions: OfGroups) -> tuple[GroupTranslation, ...]:
        if source.log_ends(self._known.mirror_ends) != self._known.mirror_ends:  # others still write there
            self._known = read_flow_pair(self._settings, self._known.moving)
        self._ahead = self._ahead.refresh(self._settings, replace(self._known, forward=maps), positions)
        return self._ahead.translations


class SharedPositions:
    """Of topics that both directions copy."""

    def __init__(self, settings: MirrorSettings, moving: Flow, previous: OfGroups) -> None:
        self._settings, self._moving, self._previous = settings, moving, previous

    @property
    def bounded(self) -> bool:
        return True

    @property
    def mirrors(self) -> Sequence[TopicPartition]:
        return ()  # the topics themselves

    def translate(self, source: Cluster, maps: Maps, positions: OfGroups) -> tuple[GroupTranslation, ...]:
        return self.translated(positions)

    def translated(self, positions: OfGroups) -> tuple[GroupTranslation, ...]:
        """The same; both maps are read now."""
        now_ms = clock.now_ms()
        chosen = self._settings.flow(self._moving.source, self._moving.target)
        known = {
            (group, partition): KnownPosition(at.offset, now_ms, at.metadata)
            for group, each in positions.items()
            for partition, at in each.items()
            if chosen.mirrors_topic(partition.topic)
        }
        found = translate_known(
            self._settings, self._moving, source_alive=True, positions=known, read_there=self._previous
        )
        return found.translations
