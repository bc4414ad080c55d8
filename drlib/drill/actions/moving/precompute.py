"""Translate groups' positions while applications still run, so that only what changed is translated while they are held.

Rules: the result is what translating everything at that moment would give. Each group's positions are read again; where they
are unchanged and every query of the offset maps has the same result, so has the group; any other is translated again.
Nothing is written ahead: an offset that was committed too early would have to be undone.
Not for: deciding and writing (`drlib.drill.actions.groups`), nor the queries (`drlib.mirror.offsets.translation.two_way`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from drlib.config.settings import MirrorSettings
from drlib.kafka.admin.group_offsets import Positions
from drlib.mirror.offsets.translation.two_way import FlowPairState, Translator
from drlib.model import GroupTranslation, TopicPartition


@dataclass(frozen=True, slots=True)
class PrecomputedGroup:
    """One group's positions on the cluster it leaves, and their translations."""

    positions: Positions
    translations: tuple[GroupTranslation, ...]


@dataclass(frozen=True, slots=True)
class PrecomputedMoves:
    """`previous`: the groups' positions on the target before anything is written. `recomputed`: how many groups were
    translated when this was made."""

    translator: Translator
    previous: Mapping[str, Positions]
    groups: Mapping[str, PrecomputedGroup]
    recomputed: int

    @classmethod
    def compute(
        cls,
        settings: MirrorSettings,
        flow_pair: FlowPairState,
        positions: Mapping[str, Positions],
        previous: Mapping[str, Positions],
    ) -> "PrecomputedMoves":
        """Translate `positions` of all groups on the cluster they leave."""
        translator = Translator(settings, flow_pair)
        groups = {
            group: PrecomputedGroup(at, translator.group(group, at, previous.get(group, {})))
            for group, at in sorted(positions.items())
        }
        return cls(translator, previous, groups, len(groups))

    def refresh(
        self, settings: MirrorSettings, flow_pair: FlowPairState, positions: Mapping[str, Positions]
    ) -> "PrecomputedMoves":
        """The same by the maps in `flow_pair`, of groups that have `positions` now."""
        if flow_pair.reverse is not self.translator.flow_pair.reverse:  # the same query may mean something else now
            return self.compute(settings, flow_pair, positions, self.previous)
        translator = Translator(settings, flow_pair)
        changed = [query for query, answer in self.translator.answers.items() if translator.answer(query) != answer]
        every_group = any(previously_read is not None for _, _, previously_read in changed)  # also without a position
        changed_positions = {(partition, position) for partition, position, _ in changed}
        groups: dict[str, PrecomputedGroup] = {}
        recomputed = 0
        for group, at in sorted(positions.items()):
            before = self.groups.get(group)
            if (
                before is not None
                and before.positions == at
                and not every_group
                and not _touches(changed_positions, at)
            ):
                groups[group] = before
                continue
            groups[group] = PrecomputedGroup(at, translator.group(group, at, self.previous.get(group, {})))
            recomputed += 1
        return PrecomputedMoves(translator, self.previous, groups, recomputed)

    @property
    def translations(self) -> tuple[GroupTranslation, ...]:
        return tuple(item for group in self.groups.values() for item in group.translations)


def _touches(changed: set[tuple[TopicPartition, int]], positions: Positions) -> bool:
    return bool(changed) and any((partition, at.offset) in changed for partition, at in positions.items())
