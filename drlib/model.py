"""The value objects that all packages share: frozen, typed, without I/O.

Rules: terms are Kafka's, except *flow* (A->B), *segment* (a stretch where source and target offsets advance together) and
*translation* (what a position on one cluster means on the other). Offsets are record offsets; a *position* is the next
offset to consume. Times are milliseconds since the epoch (`_ms`) unless a name says seconds.
Not for: anything that one package alone uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from drlib.errors import UsageError


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """One direction of replication between two cluster aliases."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @classmethod
    def parse(cls, text: str) -> Flow:
        """Parse `A->B`. Raises `UsageError`."""
        source, arrow, target = (part.strip() for part in text.partition("->"))
        if not (source and arrow and target):
            raise UsageError(
                f"'{text}' is not a flow", "a flow is two cluster aliases with an arrow", "Write it as 'LEFT->RIGHT'."
            )
        return cls(source, target)

    @property
    def reverse(self) -> Flow:
        return Flow(self.target, self.source)


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """`count` records whose source and target offsets advance together from (`source`, `target`)."""

    source: int
    target: int
    count: int

    @property
    def source_end(self) -> int:
        return self.source + self.count

    @property
    def target_end(self) -> int:
        return self.target + self.count


class TranslationKind(StrEnum):
    EXACT = "exact"
    BEHIND = "behind"  # the mirror had not reached the position: at most `records` are read again
    LOST = "lost"  # `records` of the source at and after the position are not on the target, or not any more
    NEVER_MIRRORED = "never-mirrored"  # before the first mirrored record, or nothing mirrored at all
    BOUNDED = "bounded"  # at most `records` are read again: MirrorMaker 2 copied it, or the map is thinned out there
    UNKNOWN = "unknown"  # the journal does not determine it, and drlib does not guess


@dataclass(frozen=True, slots=True)
class Translation:
    """A position of one cluster as a position of the other. `offset` is None only where there is nothing to resume at.
    `expired`: of the `records` that are lost, how many had arrived, and have expired."""

    offset: int | None
    kind: TranslationKind
    records: int = 0
    expired: int = 0

    @property
    def exact(self) -> bool:
        return self.kind is TranslationKind.EXACT


@dataclass(frozen=True, slots=True)
class GroupTranslation:
    """One committed position of a group and its counterpart on the other cluster.

    `unread`: records of its mirror partition that a group has not read on the cluster it leaves (failback, switchover).
    `both_maps`: of a topic that both directions copy, whether both maps were known; None for other topics. `why`: what bounds
    such a translation, or makes it unknown.
    """

    group: str
    source: TopicPartition
    source_offset: int
    target: TopicPartition
    translation: Translation
    as_of_ms: int  # when the source position was last known to be the committed one
    metadata: str = ""
    unread: int = 0
    both_maps: bool | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class OffsetTranslation:
    """One position that an application stores itself, and its counterpart on the other cluster.

    `target` is None where the other cluster has no counterpart of the topic; `why` explains an unknown translation.
    """

    source: TopicPartition
    source_offset: int
    target: TopicPartition | None
    translation: Translation
    why: str = ""

    @property
    def known(self) -> bool:
        """Whether there is a position to resume at that is not a guess."""
        kind, offset = self.translation.kind, self.translation.offset
        return self.target is not None and offset is not None and kind is not TranslationKind.UNKNOWN
