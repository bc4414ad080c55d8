"""When a group's translated position is written into the same group on the target, and when it is left alone.

Rules:
- Only groups that are ABSENT or EMPTY are written to. A consumer that assigns partitions itself leaves its group EMPTY, so
  a position that moved since our last look without us makes the group *live*: nothing of it is written until all its
  positions have stood still for `STILL_LOOKS` looks. A group whose positions we have never seen is first looked at twice.
- A position never goes back, unless it is the one we wrote and the source's own went back since. A write whose answer was
  lost may have been made: a position that stands where it would have put it is ours.
- Nothing is written past the log end, and nothing that is a guess: `WRITABLE` has the kinds of translation that skip no
  record on the target. What is not written is a `Finding`, except where there is nothing to do.
Source: `MirrorCheckpointTask.syncGroupOffset`, whose holes these rules close.
Not for: translating (`offset_map`), asking brokers (`drlib.mirror.sync.group_offsets`). The broker itself refuses commits to a
group that has members by the time they arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from drlib.kafka.admin.descriptions import GroupState
from drlib.model import TopicPartition, Translation, TranslationKind

STILL_LOOKS: Final = 10

WRITABLE: Final[Mapping[TranslationKind, bool]] = {
    TranslationKind.EXACT: True,
    TranslationKind.BEHIND: True,  # the mirrored end: raised as the mirror goes on
    TranslationKind.LOST: True,  # the next record that is there
    TranslationKind.NEVER_MIRRORED: True,  # the first record that is there
    TranslationKind.BOUNDED: True,  # at most some records again, none skipped
    TranslationKind.UNKNOWN: False,
}


class SyncDecision(Enum):
    """What becomes of one position; see `judge`."""

    FIRST = "there is none on the target yet"
    RAISE = "the target's is lower"
    LOWER = "the target's is ours, and the source's own went back"
    KEEP = "it stands already"
    AHEAD = "the target's is higher and not known to be ours"
    PAST_END = "the log on the target ends before it"
    NOT_TRANSLATED = "the journal cannot say where it is"


WRITES: Final = frozenset({SyncDecision.FIRST, SyncDecision.RAISE, SyncDecision.LOWER})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A group's committed position on the source, and what it is on the target."""

    source: int
    translation: Translation
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """A position of the target that stands for a position of the source."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """What is remembered of one group between two looks."""

    seen: Mapping[TopicPartition, int]  # every position it has on the target, of mirrored and other topics
    written: Mapping[TopicPartition, Written] = field(default_factory=dict)
    still: int | None = None  # looks since one moved by itself; None when the group is not live
    moved: str = ""  # which one did, for as long as the group is live
    doubted: Mapping[TopicPartition, Written] = field(
        default_factory=dict
    )  # writes that failed, and may have been made


@dataclass(frozen=True, slots=True)
class Write:
    offset: int
    metadata: str
    source: int


@dataclass(frozen=True, slots=True)
class Finding:
    """An event's name and what it says."""

    name: str
    detail: str


FINDINGS: Final = ("GroupLive", "GroupAhead", "GroupPastEnd", "GroupNotTranslated", "GroupRewound")


@dataclass(frozen=True, slots=True)
class Decision:
    """`memory` holds once the writes are done; `unwritten` is what to remember if they fail, in part or to our knowledge."""

    writes: Mapping[TopicPartition, Write]
    findings: tuple[Finding, ...]
    memory: GroupMemory | None
    unwritten: GroupMemory | None


def judge(wanted: Wanted, committed: int | None, log_end: int | None, written: Written | None) -> SyncDecision:
    """One position. `committed` on the target, None for none; `log_end` None for a partition that is not there."""
    there = wanted.translation.offset
    if there is None or log_end is None or not WRITABLE[wanted.translation.kind]:
        return SyncDecision.NOT_TRANSLATED
    if there > log_end:
        return SyncDecision.PAST_END
    if committed is None:
        return SyncDecision.FIRST
    if there == committed:
        return SyncDecision.KEEP
    if there > committed:
        return SyncDecision.RAISE
    ours = written is not None and written.target == committed
    return SyncDecision.LOWER if ours and written is not None and wanted.source < written.source else SyncDecision.AHEAD


def decide(
    state: GroupState,
    wanted: Mapping[TopicPartition, Wanted],
    committed: Mapping[TopicPartition, int],
    log_ends: Mapping[TopicPartition, int],
    memory: GroupMemory | None,
) -> Decision:
    """One look at one group. Keys are partitions of the target; `committed` has all positions the group has there."""
    if state in (GroupState.ACTIVE, GroupState.UNKNOWN):
        why = "it has members" if state is GroupState.ACTIVE else "its state is not known"
        return _nothing(None, f"{why} on the target, which own its positions there")
    if state is GroupState.ABSENT and committed:
        # As brokers describe a group that a consumer of KIP-848 is just turning into its own kind by joining it.
        return _nothing(memory, "its brokers call it absent and have positions of it, so somebody is about to join it")
    if state is GroupState.ABSENT:
        memory = GroupMemory({})  # whoever deleted it on the target gave its positions up
    if memory is None:
        memory = GroupMemory(dict(committed))
        if committed:
            return Decision({}, (), memory, memory)
    memory = _settled(memory, committed)
    moved = sorted(tp for tp, at in committed.items() if memory.seen.get(tp) != at)
    if moved:
        first = moved[0]
        before = memory.seen.get(first, "none")
        how = f"its position in {first} went from {before} to {committed[first]} by itself"
        return _nothing(GroupMemory(dict(committed), still=0, moved=how), how)
    if memory.still is not None and memory.still + 1 < STILL_LOOKS:
        live = GroupMemory(dict(committed), still=memory.still + 1, moved=memory.moved)
        return _nothing(live, f"{memory.moved} a short while ago")
    return _write(wanted, committed, log_ends, memory)


def _settled(memory: GroupMemory, committed: Mapping[TopicPartition, int]) -> GroupMemory:
    """`memory` with the doubted writes that turn out to have been made."""
    made = {tp: write for tp, write in memory.doubted.items() if committed.get(tp) == write.target}
    if not made:
        return memory
    seen = {**memory.seen, **{tp: write.target for tp, write in made.items()}}
    doubted = {tp: write for tp, write in memory.doubted.items() if tp not in made}
    return replace(memory, seen=seen, written={**memory.written, **made}, doubted=doubted)


def _nothing(memory: GroupMemory | None, why: str) -> Decision:
    detail = f"{why}; nothing is written to it. Stop its consumers on the target to have it follow the source again"
    return Decision({}, (Finding("GroupLive", detail),), memory, memory)


def _write(
    wanted: Mapping[TopicPartition, Wanted],
    committed: Mapping[TopicPartition, int],
    log_ends: Mapping[TopicPartition, int],
    memory: GroupMemory,
) -> Decision:
    writes: dict[TopicPartition, Write] = {}
    standing = {tp: w for tp, w in memory.written.items() if committed.get(tp) == w.target}
    after = dict(standing)
    told: dict[SyncDecision, list[str]] = {}
    for tp, item in sorted(wanted.items()):
        verdict = judge(item, committed.get(tp), log_ends.get(tp), memory.written.get(tp))
        there = item.translation.offset
        if verdict in WRITES and there is not None:
            writes[tp] = Write(there, item.metadata, item.source)
            after[tp] = Written(item.source, there)
        elif verdict is SyncDecision.KEEP and there is not None:
            after[tp] = standing[tp] = Written(item.source, there)
        told.setdefault(verdict, []).append(_told(verdict, tp, item, committed.get(tp), log_ends.get(tp)))
    findings = tuple(Finding(name, _list(told[verdict])) for verdict, name in _NAMES.items() if verdict in told)
    seen = {**committed, **{tp: write.offset for tp, write in writes.items()}}
    doubted = {**memory.doubted, **{tp: Written(write.source, write.offset) for tp, write in writes.items()}}
    unwritten = GroupMemory(dict(committed), standing, doubted=doubted)
    return Decision(writes, findings, GroupMemory(seen, after), unwritten)


_NAMES: Final[Mapping[SyncDecision, str]] = {
    SyncDecision.AHEAD: "GroupAhead",
    SyncDecision.PAST_END: "GroupPastEnd",
    SyncDecision.NOT_TRANSLATED: "GroupNotTranslated",
    SyncDecision.LOWER: "GroupRewound",
}


def _told(verdict: SyncDecision, tp: TopicPartition, item: Wanted, committed: int | None, log_end: int | None) -> str:
    there = item.translation.offset
    match verdict:
        case SyncDecision.AHEAD:
            return f"{tp} stands at {committed}, the source's position {item.source} is {there} there"
        case SyncDecision.PAST_END:
            return f"{tp} ends at {log_end}, the source's position {item.source} should be {there} there"
        case SyncDecision.NOT_TRANSLATED:
            return f"the source's position {item.source} has no certain counterpart in {tp}"
        case SyncDecision.LOWER:
            return f"{tp} from {committed} back to {there}, as the source went back to {item.source}"
        case _:
            return ""


def _list(texts: list[str], most: int = 3) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more
