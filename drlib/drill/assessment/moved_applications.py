"""What each application has to change once the pointer has moved, in the words of its own configuration. Pure.

Rules: with mirrors under prefixed names a group reads the mirror topic first, then the local topic of the same name, which
producers write to from now on; where mirrors keep their names nothing of a topic's name changes. On the way back it is the
same: the mirror of what was written meanwhile, then the local topic, also where a group had a position in its mirror alone. A
group that follows the pointer needs none of this.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.actions.groups.share_groups.rules import ShareMove
from drlib.model import TranslationKind


@dataclass(frozen=True, slots=True)
class GroupChange:
    """`subscribe`: the topics in their order. `re_reads`: at most, also of what was committed after the positions were last
    known; `left`: positions not committed."""

    group: str
    bootstrap: str
    subscribe: tuple[str, ...]
    re_reads: int
    left: int


@dataclass(frozen=True, slots=True)
class ProducerChange:
    """Who writes to `topic` writes to it at `bootstrap`."""

    topic: str
    bootstrap: str


def changes(
    moves: Sequence[PositionMove],
    bootstrap: str,
    mirror_of: Callable[[str], str] | None = None,
    *,
    shares: Sequence[ShareMove] = (),
    written: Collection[str] = (),
) -> tuple[tuple[GroupChange, ...], tuple[ProducerChange, ...]]:
    """One change for each group and share group, and one for each topic that they read or that is in `written`, both sorted by
    name. `mirror_of`: the name of a topic's mirror on the cluster moved to; needed on the way back."""
    every: list[PositionMove | ShareMove] = [*moves, *shares]
    groups = []
    for group in sorted({move.group for move in every}):
        own = [move for move in every if move.group == group]
        topics: dict[str, None] = {}
        for source, target in sorted({(move.source.topic, move.target.topic) for move in own}):
            topics |= dict.fromkeys(_read(source, target, mirror_of))
        again = sum(_again(move) for move in own if isinstance(move, PositionMove))
        groups.append(GroupChange(group, bootstrap, tuple(topics), again, sum(not move.harmless for move in own)))
    local = {*written, *(_read(move.source.topic, move.target.topic, mirror_of)[-1] for move in every)}
    return tuple(groups), tuple(ProducerChange(topic, bootstrap) for topic in sorted(local))


def _again(move: PositionMove) -> int:
    """How many records it reads again at most; of a position that is final there is no prediction."""
    behind = move.records if move.kind in (TranslationKind.BEHIND, TranslationKind.BOUNDED) else 0
    return max(behind, move.re_reads or 0)


def _read(source: str, target: str, mirror_of: Callable[[str], str] | None) -> tuple[str, ...]:
    """What is read, in this order, by a group that moved from topic `source` to topic `target`; the local topic is the last."""
    home = source.endswith(target) and source != target  # from a mirror back to its source
    if home:
        return (mirror_of(target), target) if mirror_of is not None else (target,)
    return target, source
