"""Where groups go on, worked out while applications still run, so that only what changed is worked out while they stand still.

Rules: what is decided when they stand still is what would be decided then of everything. A group's positions are read again; if
they are what they were, and every question asked of the maps has the answer it had, so has the group; any other is decided
anew. Nothing is written ahead: a position that was written for nothing would have to be put back.
Not for: reading and writing positions (`group_writing`), nor the answers themselves (`mirror.moving_groups`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from drlib.config.settings import MirrorSettings
from drlib.drill.actions.failback.actions import as_moves
from drlib.drill.actions.groups.rules import PositionMove
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.group_offsets import Positions
from drlib.mirror.offsets.translation.two_way import FlowPairState, Move, Translator
from drlib.model import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupAhead:
    """One group that stands at `here`: `found` as the maps say it, `moves` as decided, `wanted` as it is to be written."""

    here: Positions
    found: tuple[Move, ...]
    moves: tuple[PositionMove, ...]
    wanted: Positions


@dataclass(frozen=True, slots=True)
class PrecomputedMoves:
    """`stood`: where groups stand on the cluster gone to, before anything is written. `anew`: how many groups were decided
    when this was made."""

    told: Translator
    stood: Mapping[str, Positions]
    groups: Mapping[str, GroupAhead]
    recomputed: int

    @classmethod
    def decide(
        cls,
        settings: MirrorSettings,
        known: FlowPairState,
        here: Mapping[str, Positions],
        stood: Mapping[str, Positions],
    ) -> PrecomputedMoves:
        """Of all groups, which stand at `here` on the cluster that is left."""
        told = Translator(settings, known)
        groups = {group: _decided(told, group, at, stood.get(group, {})) for group, at in sorted(here.items())}
        return cls(told, stood, groups, len(groups))

    def refresh(
        self, settings: MirrorSettings, known: FlowPairState, here: Mapping[str, Positions]
    ) -> PrecomputedMoves:
        """The same by what is `known` now, of groups that stand at `here` now."""
        if known.reverse is not self.told.flow_pair.reverse:  # what was asked may be another question now
            return self.decide(settings, known, here, self.stood)
        told = Translator(settings, known)
        changed = [question for question, answer in self.told.answers.items() if told.answer(question) != answer]
        everybody = any(had_read is not None for _, _, had_read in changed)  # asked of groups without a position, too
        places = {(partition, position) for partition, position, _ in changed}
        groups: dict[str, GroupAhead] = {}
        recomputed = 0
        for group, at in sorted(here.items()):
            before = self.groups.get(group)
            same = before is not None and before.here == at and not everybody
            if before is not None and same and not (places and _stands_in(places, at)):
                groups[group] = before
                continue
            groups[group] = _decided(told, group, at, self.stood.get(group, {}))
            recomputed += 1
        return PrecomputedMoves(told, self.stood, groups, recomputed)

    @property
    def found(self) -> Iterator[Move]:
        return (move for one in self.groups.values() for move in one.found)

    @property
    def moves(self) -> tuple[PositionMove, ...]:
        return tuple(move for one in self.groups.values() for move in one.moves)

    @property
    def wanted(self) -> dict[str, Positions]:
        return {group: one.wanted for group, one in self.groups.items() if one.wanted}


def _decided(told: Translator, group: str, here: Positions, stood: Positions) -> GroupAhead:
    found = told.group(group, here, stood)
    moves = as_moves(found, {group: stood})
    wanted = {move.target: CommittedOffset(move.offset, move.metadata) for move in moves if move.offset is not None}
    return GroupAhead(here, found, moves, wanted)


def _stands_in(places: set[tuple[TopicPartition, int]], at: Positions) -> bool:
    return any((partition, position.offset) in places for partition, position in at.items())
