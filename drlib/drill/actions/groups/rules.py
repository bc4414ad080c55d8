"""What becomes of each position of a group that is moved to another cluster: committed there, or left and why.

Rules: what is committed is what the map says, and never a guess. A position that is there already and further on was read
there by somebody: it is left, unless going back is asked for. One past the log's end, or that the journal cannot say, is
left too. Where nothing was mirrored yet and the partition is there, the group begins at its log start. A group of which
anything is left is `held` unless somebody said that it may be.
Not for: translating (`offset_map`), and keeping groups in step while the source serves (`group_sync`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from drlib.mirror.sync.rules.group_offsets import SyncDecision, TranslatedPosition, decide_position
from drlib.model import GroupTranslation, TopicPartition, TranslationKind

_NOTHING_THERE: Final = "nothing of it is on the target"


@dataclass(frozen=True, slots=True)
class PositionMove:
    """One position. `offset` is what is committed, None where it is left and `why` says so; `before` is what stood there."""

    group: str
    source: TopicPartition
    source_offset: int
    target: TopicPartition
    offset: int | None
    kind: TranslationKind
    records: int  # read again, lost or bounded, as the kind says
    as_of_ms: int  # when the source position was last known to be the committed one
    metadata: str = ""
    before: int | None = None
    before_metadata: str = ""
    why: str = ""

    @property
    def harmless(self) -> bool:
        """Is nothing lost or read again by leaving it where it is?"""
        return self.offset is not None or self.why == _NOTHING_THERE


@dataclass(frozen=True, slots=True)
class There:
    """What the target says of one partition; None for one that is not there."""

    log_start: int | None
    log_end: int | None
    committed: int | None = None
    metadata: str = ""


def decide(item: GroupTranslation, there: There, *, rewind: bool = False) -> PositionMove:
    """What becomes of one translated position. `rewind`: one that stands further on may go back."""
    found = item.translation
    offset, why = found.offset, ""
    if found.kind is TranslationKind.NEVER_MIRRORED and offset is None:
        offset = there.log_start
        why = "" if offset is not None else _NOTHING_THERE
    else:
        wanted = TranslatedPosition(item.source_offset, found, item.metadata)
        verdict = decide_position(wanted, there.committed, there.log_end, None)
        if verdict is SyncDecision.AHEAD and not rewind:
            why = f"it stands at {there.committed} there, further on: somebody has read on"
        elif verdict is SyncDecision.PAST_END:
            why = f"the log ends at {there.log_end} there"
        elif verdict is SyncDecision.NOT_TRANSLATED:
            why = "the journal cannot say what it is there"
        if why:
            offset = None
    return PositionMove(
        item.group,
        item.source,
        item.source_offset,
        item.target,
        offset,
        found.kind,
        found.records,
        item.as_of_ms,
        item.metadata,
        there.committed,
        there.metadata,
        why,
    )


def held(moves: Iterable[PositionMove]) -> dict[str, tuple[PositionMove, ...]]:
    """By group: the positions that stand in the way of moving it."""
    found: dict[str, list[PositionMove]] = {}
    for move in moves:
        if not move.harmless:
            found.setdefault(move.group, []).append(move)
    return {group: tuple(those) for group, those in found.items()}
