"""Committed positions in topics that the cluster that is left does not have any more: they hold up no move, and are named.

Rules: brokers remove such a position with its topic, unless its coordinator was down then. What its mirror misses will never
arrive, so that nothing is waited for: where the mirror is kept, the group is placed at what it has; else it is left out.
Not for: topics that were created again under the same name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, Self, TypeVar

from drlib.formats import first_few
from drlib.kafka.admin.cluster import Cluster
from drlib.model import Flow, GroupTranslation, TopicPartition
from drlib.runs.check import Check, Verdict

CHECK: Final = "no group has a position in a topic that does not exist"
_SHOWN: Final = 5


class Decided(Protocol):
    """What was decided of one position; without an offset it is left."""

    @property
    def group(self) -> str: ...
    @property
    def source(self) -> TopicPartition: ...
    @property
    def offset(self) -> int | None: ...


OneDecided = TypeVar("OneDecided", bound=Decided)


@dataclass(frozen=True, slots=True)
class GonePositions:
    """Those of one move that have no exact place on the other cluster."""

    positions: tuple[GroupTranslation, ...] = ()

    @classmethod
    def of(cls, source: Cluster, translations: Iterable[GroupTranslation]) -> Self:
        """Those in partitions that `source` does not have. Blocks."""
        inexact = [each for each in translations if not each.translation.exact]
        topics = source.topics({each.source.topic for each in inexact})
        counts = {name: topic.partitions for name, topic in topics.items()}
        return cls(tuple(each for each in inexact if each.source.partition >= counts.get(each.source.topic, 0)))

    def others(self, translations: Iterable[GroupTranslation]) -> tuple[GroupTranslation, ...]:
        """Those that have to be exact."""
        gone = {(each.group, each.source) for each in self.positions}
        return tuple(each for each in translations if (each.group, each.source) not in gone)

    def placed(self, translations: Iterable[GroupTranslation]) -> tuple[GroupTranslation, ...]:
        """Those that have a place, or have to have one."""
        return (*self.others(translations), *(each for each in self.positions if each.translation.offset is not None))

    def without_left(self, moves: Iterable[OneDecided]) -> tuple[OneDecided, ...]:
        """`moves` without the positions of gone topics that are left."""
        gone = {(each.group, each.source) for each in self.positions}
        return tuple(move for move in moves if move.offset is not None or (move.group, move.source) not in gone)

    def checks(self, moving: Flow) -> tuple[Check, ...]:
        """The condition that names them; none where there are none."""
        if not self.positions:
            return ()
        named = first_few([f"{each.group} in {each.source} at {each.source_offset}" for each in self.positions], _SHOWN)
        why = (
            f"{moving.source} has no such partition, so nothing there was waited for: {named}. Remove them: "
            "kafka-consumer-groups.sh --delete-offsets --group GROUP --topic TOPIC"
        )
        return (Check(CHECK, Verdict.CONDITIONS, why),)
