"""Translate what share groups have read to the other cluster: start offsets, and the intervals that are complete behind them.

Rules: each boundary is translated as a position of a group is, so that every flow is translated by its own rules, with one or
two maps. An interval only ever gets smaller: a record of which it is not certain that it was complete is delivered again. What
was not mirrored, or has no certain translation, is left out.
Not for: deciding what is written (`drlib.drill.actions.groups.share_groups.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from drlib.kafka.share_groups.state import Interval, above
from drlib.mirror.offsets.translation.translate_groups import KnownPosition
from drlib.mirror.share_groups.known import Key, KnownShare
from drlib.model import GroupTranslation, TopicPartition, Translation, TranslationKind

Boundaries = Mapping[tuple[str, TopicPartition], KnownPosition]
"""Positions to translate, by a name made for each boundary and by source partition."""


@dataclass(frozen=True, slots=True)
class ShareTranslation:
    """`known` on `source`, and `translation` of its start. `complete`: the intervals on the target; None where it is not known
    which records are complete. `why`: what bounds the translation, or makes it unknown."""

    group: str
    source: TopicPartition
    known: KnownShare
    target: TopicPartition
    translation: Translation
    complete: tuple[Interval, ...] | None
    why: str = ""

    @property
    def behind(self) -> tuple[Interval, ...] | None:
        """Those that lie behind the start offset on the target; None where they, or the start offset, are not known."""
        start = self.translation.offset
        return None if self.complete is None or start is None else above(self.complete, start)


def boundaries(positions: Mapping[Key, KnownShare]) -> dict[tuple[str, TopicPartition], KnownPosition]:
    """What is to be translated: of each position its start, and both ends of every interval."""
    asked = {}
    for (group, partition), known in positions.items():
        offsets = [known.state.start, *(offset for each in known.state.complete or () for offset in each)]
        for number, offset in enumerate(offsets):
            asked[_name(group, number), partition] = KnownPosition(offset, known.as_of_ms, "")
    return asked


def translated(positions: Mapping[Key, KnownShare], found: Iterable[GroupTranslation]) -> tuple[ShareTranslation, ...]:
    """`found`: the translations of `boundaries`. Positions in topics without a translation are left out."""
    by_name = {(item.group, item.source): item for item in found}
    answer = []
    for (group, partition), known in sorted(positions.items()):
        first = by_name.get((_name(group, 0), partition))
        if first is None:
            continue
        complete: list[Interval] = []
        for number in range(len(known.state.complete or ())):
            ends = [by_name.get((_name(group, at), partition)) for at in (2 * number + 1, 2 * number + 2)]
            low, high = (None if end is None else end.translation for end in ends)
            interval = None if low is None or high is None else _inside(low, high)
            if interval is not None:
                complete.append(interval)
        kept = None if known.state.complete is None else tuple(complete)
        answer.append(ShareTranslation(group, partition, known, first.target, first.translation, kept, first.why))
    return tuple(answer)


def translate_shares(
    positions: Mapping[Key, KnownShare], translate: Callable[[Boundaries], Iterable[GroupTranslation]]
) -> tuple[ShareTranslation, ...]:
    """`translate`: of positions of groups, as the move's own ones are translated."""
    return translated(positions, translate(boundaries(positions))) if positions else ()


def _inside(low: Translation, high: Translation) -> Interval | None:
    """The interval on the target that has nothing but what lies between both on the source."""
    begin = _at_least(low)
    end = high.offset if high.kind is not TranslationKind.UNKNOWN else None
    return None if begin is None or end is None or end <= begin else (begin, end)


def _at_least(low: Translation) -> int | None:
    """The first offset that is certainly not before the boundary."""
    if low.offset is None or low.kind in (TranslationKind.UNKNOWN, TranslationKind.BEHIND):
        return None  # behind: nothing from here on was mirrored
    return low.offset + (low.records if low.kind is TranslationKind.BOUNDED else 0)


def group_of(name: str) -> str:
    """The group of a name in `Boundaries`."""
    return name.rpartition("\0")[0]


def _name(group: str, number: int) -> str:
    return f"{group}\0{number}"
