"""Decide whether a group's translated offset is committed in the same group on the target.

Rules:
- Only groups that are ABSENT or EMPTY are written to. A consumer that assigns partitions itself leaves its group EMPTY, so a
  position that another client moved since the last run makes the group *live*: nothing of it is written until all its
  positions were unchanged for `UNCHANGED_RUNS` runs. A group with positions is first observed for one run. Only positions in
  topics that are written here count: those in others may be synchronized by another flow, which is no client.
- A position never goes back, unless it is the one written here and the source's own went back since. A write whose answer was
  lost may have been made: a position equal to it counts as ours.
- Nothing is written past the log end, and no guess is written: `WRITABLE` has the kinds of translation that skip no record on
  the target. A position that is not written is a `Finding`, except where there is nothing to do.
Source: `MirrorCheckpointTask.syncGroupOffset`, whose gaps these rules close.
Not for: translating (`offset_map`), asking brokers (`drlib.mirror.sync.group_offsets`). The broker itself refuses commits to a
group that has members by the time they arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from drlib.kafka.admin.descriptions import GroupState
from drlib.model import TopicPartition, Translation, TranslationKind

UNCHANGED_RUNS: Final = 10

WRITABLE: Final[Mapping[TranslationKind, bool]] = {
    TranslationKind.EXACT: True,
    TranslationKind.BEHIND: True,  # the mirrored end: raised as the mirror continues
    TranslationKind.LOST: True,  # the next record that is there
    TranslationKind.NEVER_MIRRORED: True,  # the first record that is there
    TranslationKind.BOUNDED: True,  # at most some records again, none skipped
    TranslationKind.UNKNOWN: False,
}


class SyncDecision(Enum):
    """What is done with one position; see `decide_position`."""

    FIRST = "the group has no position on the target yet"
    RAISE = "the target's position is lower"
    LOWER = "the target's position was written here, and the source's went back"
    KEEP = "the target has it already"
    AHEAD = "the target's position is higher, and was not written here"
    PAST_END = "the target's log ends before it"
    NOT_TRANSLATED = "it has no certain translation"


WRITES: Final = frozenset({SyncDecision.FIRST, SyncDecision.RAISE, SyncDecision.LOWER})


@dataclass(frozen=True, slots=True)
class TranslatedPosition:
    """A group's committed offset on the source, and its translation."""

    source: int
    translation: Translation
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """A committed offset on the target, and the source offset that it was translated from."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """What is remembered of one group between two runs."""

    seen: Mapping[TopicPartition, int]  # every position of the group on the target, of mirrored and other topics
    written: Mapping[TopicPartition, Written] = field(default_factory=dict)
    unchanged_runs: int | None = None  # since a position moved; None when the group is not live
    moved: str = ""  # which position moved, as long as the group is live
    doubted: Mapping[TopicPartition, Written] = field(
        default_factory=dict
    )  # writes that failed, but may have been made


@dataclass(frozen=True, slots=True)
class Write:
    offset: int
    metadata: str
    source: int


@dataclass(frozen=True, slots=True)
class Finding:
    """An event's name and detail."""

    name: str
    detail: str


FINDINGS: Final = ("GroupLive", "GroupAhead", "GroupPastEnd", "GroupNotTranslated", "GroupRewound")


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """`memory` applies once the writes are done; `unwritten` if they fail, or fail in part."""

    writes: Mapping[TopicPartition, Write]
    findings: tuple[Finding, ...]
    memory: GroupMemory | None
    unwritten: GroupMemory | None


def decide_position(
    wanted: TranslatedPosition, committed: int | None, log_end: int | None, written: Written | None
) -> SyncDecision:
    """Decide on one position. `committed` on the target, None for none; `log_end` None where the partition does not exist."""
    offset = wanted.translation.offset
    if offset is None or log_end is None or not WRITABLE[wanted.translation.kind]:
        return SyncDecision.NOT_TRANSLATED
    if offset > log_end:
        return SyncDecision.PAST_END
    if committed is None:
        return SyncDecision.FIRST
    if offset > committed:
        return SyncDecision.RAISE
    if offset == committed:
        return SyncDecision.KEEP
    ours = written is not None and written.target == committed
    return SyncDecision.LOWER if ours and written is not None and wanted.source < written.source else SyncDecision.AHEAD


def decide(
    state: GroupState,
    wanted: Mapping[TopicPartition, TranslatedPosition],
    committed: Mapping[TopicPartition, int],
    log_ends: Mapping[TopicPartition, int],
    memory: GroupMemory | None,
    *,
    may_lower: bool = True,
    ours: Callable[[str], bool] = lambda topic: True,
) -> GroupDecision:
    """Decide on one group. Keys are partitions of the target; `committed` has all positions of the group there.

    `may_lower`: False where a position never goes back, also one that was written here. `ours`: is a topic written here?
    """
    if state in (GroupState.ACTIVE, GroupState.UNKNOWN):
        why = "it has members on the target" if state is GroupState.ACTIVE else "its state on the target is unknown"
        return _write_nothing(None, why)
    if state is GroupState.ABSENT and committed:
        # Brokers describe a group so while a consumer of KIP-848 converts it to its own protocol by joining it.
        return _write_nothing(memory, "a consumer is about to join it (brokers report no group, but committed offsets)")
    if state is GroupState.ABSENT:
        memory = GroupMemory({})  # its positions were deleted with it
    if memory is None:
        memory = GroupMemory(dict(committed))
        if committed:
            return GroupDecision({}, (), memory, memory)
    memory = _confirm_doubted(memory, committed)
    moved = sorted(tp for tp, offset in committed.items() if ours(tp.topic) and memory.seen.get(tp) != offset)
    if moved:
        first = moved[0]
        before = memory.seen.get(first, "none")
        how = f"another client moved its position in {first} from {before} to {committed[first]}"
        return _write_nothing(GroupMemory(dict(committed), unchanged_runs=0, moved=how), how)
    if memory.unchanged_runs is not None and memory.unchanged_runs + 1 < UNCHANGED_RUNS:
        live = GroupMemory(dict(committed), unchanged_runs=memory.unchanged_runs + 1, moved=memory.moved)
        return _write_nothing(live, f"{memory.moved} a short while ago")
    return _write(wanted, committed, log_ends, memory, may_lower=may_lower)


def _confirm_doubted(memory: GroupMemory, committed: Mapping[TopicPartition, int]) -> GroupMemory:
    """`memory` with those doubted writes confirmed that `committed` shows."""
    made = {tp: write for tp, write in memory.doubted.items() if committed.get(tp) == write.target}
    if not made:
        return memory
    positions = {**memory.seen, **{tp: write.target for tp, write in made.items()}}
    doubted = {tp: write for tp, write in memory.doubted.items() if tp not in made}
    return replace(memory, seen=positions, written={**memory.written, **made}, doubted=doubted)


def _write_nothing(memory: GroupMemory | None, why: str) -> GroupDecision:
    detail = f"{why}; its offsets are not synchronized. Stop its consumers on the target to synchronize them again"
    return GroupDecision({}, (Finding("GroupLive", detail),), memory, memory)


def _write(
    wanted: Mapping[TopicPartition, TranslatedPosition],
    committed: Mapping[TopicPartition, int],
    log_ends: Mapping[TopicPartition, int],
    memory: GroupMemory,
    *,
    may_lower: bool,
) -> GroupDecision:
    writes: dict[TopicPartition, Write] = {}
    unchanged = {tp: w for tp, w in memory.written.items() if committed.get(tp) == w.target}
    after = dict(unchanged)
    details: dict[SyncDecision, list[str]] = {}
    for tp, item in sorted(wanted.items()):
        written = memory.written.get(tp) if may_lower else None
        decision = decide_position(item, committed.get(tp), log_ends.get(tp), written)
        offset = item.translation.offset
        if decision in WRITES and offset is not None:
            writes[tp] = Write(offset, item.metadata, item.source)
            after[tp] = Written(item.source, offset)
        elif decision is SyncDecision.KEEP and offset is not None:
            after[tp] = unchanged[tp] = Written(item.source, offset)
        details.setdefault(decision, []).append(_detail(decision, tp, item, committed.get(tp), log_ends.get(tp)))
    findings = tuple(
        Finding(name, _list(details[decision])) for decision, name in _NAMES.items() if decision in details
    )
    positions = {**committed, **{tp: write.offset for tp, write in writes.items()}}
    doubted = {**memory.doubted, **{tp: Written(write.source, write.offset) for tp, write in writes.items()}}
    unwritten = GroupMemory(dict(committed), unchanged, doubted=doubted)
    return GroupDecision(writes, findings, GroupMemory(positions, after), unwritten)


_NAMES: Final[Mapping[SyncDecision, str]] = {
    SyncDecision.AHEAD: "GroupAhead",
    SyncDecision.PAST_END: "GroupPastEnd",
    SyncDecision.NOT_TRANSLATED: "GroupNotTranslated",
    SyncDecision.LOWER: "GroupRewound",
}


def _detail(
    decision: SyncDecision, tp: TopicPartition, item: TranslatedPosition, committed: int | None, log_end: int | None
) -> str:
    offset = item.translation.offset
    match decision:
        case SyncDecision.AHEAD:
            assert committed is not None
            assert offset is not None
            ahead = committed - offset
            return f"{tp}: committed offset {committed} is {ahead} ahead of {offset}, the source's offset {item.source}"
        case SyncDecision.PAST_END:
            return f"{tp}: the log ends at {log_end}, before {offset}, which is {item.source} on the other cluster"
        case SyncDecision.NOT_TRANSLATED if log_end is None and offset is not None:
            return f"{tp}: the partition does not exist there, or has no leader"
        case SyncDecision.NOT_TRANSLATED:
            return f"{tp}: the offset {item.source} of the other cluster has no certain translation"
        case SyncDecision.LOWER:
            return f"{tp}: set back from {committed} to {offset}, as the source went back to {item.source}"
        case _:
            return ""


def _list(texts: list[str], most: int = 3) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more
