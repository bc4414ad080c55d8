"""Decide for each position of a group that moves to another cluster whether it is committed there, or left, and why.

Every move decides here: failover, rehearsal, failback and planned switchover.
Rules: what is committed is what the offset map gives, never a guess, never past the end of the log, and never below its start,
where a client would begin by its own `auto.offset.reset`. A position that is further ahead on the target was read there: it is
left, unless `rewind` allows going back. One that is ahead within the bound
of its translation is kept: MirrorMaker 2 put it there, or the group read on there. So is one that is ahead by markers of
transactions alone, behind which clients commit, too: no record lies between. In a topic that both directions copy that
holds for every one ahead where a map is missing, and the bound stays. Where nothing was mirrored yet and the partition
exists, the group begins at its log start. A position that is left blocks its group, except where nothing of the partition is
on the target, or in an emergency where its partition there has no leader: that is unknown, and named with its remedy.
A group that has members on the target, or that others moved there meanwhile, is left as a whole: its
application reads there already; an emergency leaves one that is blocked, too. That is a condition of the verdict, and where no
group is moved a failure.
Not for: translating (`drlib.mirror.offsets.translation`), writing (`commit`), and synchronizing groups while the source
serves (`drlib.mirror.sync.rules.group_offsets`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from drlib.errors import NoLeader, UsageError
from drlib.formats import first_few, second
from drlib.kafka.admin.descriptions import CommittedOffset, Range, Stretch
from drlib.mirror.sync.rules.group_offsets import SyncDecision, TranslatedPosition, decide_position
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind
from drlib.runs.check import Check, Verdict

GroupPositions = Mapping[str, Mapping[TopicPartition, CommittedOffset]]
"""Committed offsets, by group and partition."""


CHECK: Final = "consumer groups continue where they were"
BY_HAND: Final = "Stop the consumers of a group that was left and set its offsets as drlib translate shows them"
OF_NO_LEADER: Final = (
    "Start the brokers that hold these partitions while the consumers of these groups are stopped, and set their offsets there "
    "as drlib translate shows them then"
)
BEFORE_TRANSACTION: Final = "placed before a transaction of which the target has a part"


class Left(StrEnum):
    """Why a position is not committed."""

    AHEAD = "ahead"
    PAST_END = "past-end"
    UNKNOWN = "unknown"
    NO_LEADER = "no-leader"  # its partition there has none, so that nothing says where its log begins and ends
    NOT_MIRRORED = "not-mirrored"  # nothing of the partition is on the target, so nothing is lost by leaving it
    GROUP = "group"  # its group is left as a whole, as it is used there, or blocked


_GROUP_LEFT: Final = "its group is left: "
_PLACED_BY_OTHERS: Final = frozenset(
    {Left.PAST_END, Left.UNKNOWN, Left.NO_LEADER, Left.GROUP}
)  # where the group continues is not known


@dataclass(frozen=True, slots=True)
class PositionMove:
    """One position: as committed on the source, as translated, and as decided for the target.

    `offset` is what is committed, None where it is left: `left` and `why` say the reason. `before` is what was committed on
    the target before.
    """

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
    left: Left | None = None
    re_reads: int | None = None  # at most, as predicted when it was decided; None is unknown

    @property
    def harmless(self) -> bool:
        """Is nothing lost or read again by leaving it where it is?"""
        return self.offset is not None or self.left is Left.NOT_MIRRORED

    @property
    def translation(self) -> GroupTranslation:
        """The translation it was decided from, without an offset where none is committed."""
        translation = Translation(self.offset, self.kind, self.records)
        return GroupTranslation(
            self.group, self.source, self.source_offset, self.target, translation, self.as_of_ms, self.metadata
        )


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The log start and log end offset of a partition of the target."""

    start: int
    end: int


Bounds = LogBounds | NoLeader | None
"""None of a partition that does not exist on the target."""


def decide(
    item: GroupTranslation,
    bounds: Bounds,
    committed: CommittedOffset | None = None,
    *,
    rewind: bool = False,
    markers: Collection[Stretch] = (),
) -> PositionMove:
    """Decide one translated position.

    `committed` is the group's offset on the target. `rewind`: a group that is further ahead there may go back. `markers`:
    stretches that have no record.
    """
    leaderless = ""
    if isinstance(bounds, NoLeader):
        leaderless, bounds = bounds.why, None
        item = replace(item, translation=Translation(None, TranslationKind.UNKNOWN))
    item = _from_log_start(item, bounds)
    translation = item.translation
    if committed is not None and not rewind:
        translation = _kept_within_bound(item, committed.offset)
        if ahead(item, bounds, committed) in markers:
            bounded = translation.kind is TranslationKind.BOUNDED and item.both_maps is None
            translation = replace(translation, offset=committed.offset, records=0 if bounded else translation.records)
    offset, left, why = translation.offset, None, ""
    if leaderless:
        left, why = Left.NO_LEADER, leaderless
    elif translation.kind is TranslationKind.NEVER_MIRRORED and offset is None:
        if bounds is None:
            left, why = Left.NOT_MIRRORED, "nothing of it is on the target"
        elif committed is not None and committed.offset > bounds.start and not rewind:
            left, why = Left.AHEAD, _ahead(committed)
        else:
            offset = bounds.start
    else:
        wanted = TranslatedPosition(item.source_offset, translation, item.metadata)
        log_end = None if bounds is None else bounds.end
        decision = decide_position(wanted, None if committed is None else committed.offset, log_end, None)
        if decision is SyncDecision.AHEAD and committed is not None and not rewind:
            left, why = Left.AHEAD, _ahead(committed)
        elif decision is SyncDecision.PAST_END:
            left, why = Left.PAST_END, f"its log ends at {log_end} there, before {offset}"
        elif decision is SyncDecision.NOT_TRANSLATED:
            why = (
                item.why or "the journal does not determine its offset there"
                if bounds is not None
                else "the partition does not exist there"
            )
            left = Left.UNKNOWN
    return PositionMove(
        group=item.group,
        source=item.source,
        source_offset=item.source_offset,
        target=item.target,
        offset=None if left is not None else offset,
        kind=translation.kind,
        records=translation.records,
        as_of_ms=item.as_of_ms,
        metadata=item.metadata,
        before=None if committed is None else committed.offset,
        before_metadata="" if committed is None else committed.metadata,
        why=why,
        left=left,
    )


def _from_log_start(item: GroupTranslation, bounds: LogBounds | None) -> GroupTranslation:
    """`item` with what lies below the log start moved up to it: MirrorMaker 2's positions are translated without the log."""
    found = item.translation
    if bounds is None or found.offset is None or found.offset >= bounds.start:
        return item
    gone = bounds.start - found.offset if found.kind is TranslationKind.BOUNDED else 0
    return replace(item, translation=replace(found, offset=bounds.start, records=max(0, found.records - gone)))


def ahead(item: GroupTranslation, bounds: Bounds, committed: CommittedOffset | None) -> Stretch | None:
    """What lies between the translated position and that of the group on the target, if that is further ahead."""
    found = item.translation
    if not isinstance(bounds, LogBounds) or committed is None or found.kind is TranslationKind.UNKNOWN:
        return None
    begin = found.offset
    if begin is None:
        begin = bounds.start if found.kind is TranslationKind.NEVER_MIRRORED else committed.offset
    elif found.kind is TranslationKind.BOUNDED and item.both_maps is None:
        begin += found.records
    return (item.target, Range(begin, committed.offset)) if begin < committed.offset else None


def _kept_within_bound(item: GroupTranslation, committed: int) -> Translation:
    """The position on the target itself, where it is as good a translation as the item's."""
    translation = item.translation
    offset = translation.offset
    if translation.kind is not TranslationKind.BOUNDED or offset is None or committed < offset:
        return translation
    end = offset + translation.records
    if item.both_maps is False:  # it was synchronized while both maps were known, or the group read there
        return Translation(committed, TranslationKind.BOUNDED, translation.records)
    if item.both_maps or committed > end:
        return translation
    return Translation(committed, TranslationKind.BOUNDED, end - committed)


def decide_all(
    items: Iterable[GroupTranslation],
    bounds: Mapping[TopicPartition, LogBounds | NoLeader],
    committed: GroupPositions,
    *,
    rewind: bool = False,
    ours: GroupPositions | None = None,
    markers: Collection[Stretch] = (),
) -> tuple[PositionMove, ...]:
    """Decide every translated position; `ours` are offsets that this very step committed before. `markers`: as in `decide`."""
    moves = []
    for item in items:
        now = committed.get(item.group, {}).get(item.target)
        own = ours is not None and now is not None and ours.get(item.group, {}).get(item.target) == now
        moves.append(decide(item, bounds.get(item.target), now, rewind=rewind or own, markers=markers))
    return tuple(moves)


def before_transactions(move: PositionMove, first: int | None) -> PositionMove:
    """The move with its position at or before `first`, where a transaction begins that the target has in part.

    Only a position that is committed is moved, and only back: the records up to where it was are read again.
    """
    if first is None or move.offset is None or move.offset <= first:
        return move
    back = move.offset - first
    known = move.records if move.kind is TranslationKind.BOUNDED else 0
    return replace(move, offset=first, kind=TranslationKind.BOUNDED, records=known + back, why=BEFORE_TRANSACTION)


@dataclass(frozen=True, slots=True)
class AsOf:
    """The time a position is of, in words, and how many records the group may read again at most; None is unknown."""

    words: str
    re_reads: int | None


def as_of(
    move: PositionMove, log_end: int | None, fault_ms: tuple[int, int] | None, ahead_ms: tuple[int, int] | None
) -> AsOf:
    """What `move.as_of_ms` means: commits on the source after it are not known, and lead to records that are read again.

    `log_end` is of the target: what lies behind the position there can be read again, nothing else. `fault_ms`: the fault by
    this machine's clock, with bounds; `ahead_ms`: the mirror's clock minus this one's, with bounds, None where it is unknown.
    """
    if move.offset is None:
        return AsOf("", None if move.left in _PLACED_BY_OTHERS else 0)
    words = f"{move.kind.value} as of {second(move.as_of_ms)} UTC"
    known = read_again(move)
    if fault_ms is None:
        return AsOf(words, None)
    most = None if log_end is None else max(0, log_end - move.offset)
    if ahead_ms is not None:
        age_ms = fault_ms[1] - (move.as_of_ms - ahead_ms[1])
        if age_ms <= 0:
            return AsOf(f"{words}, after the fault", known)
        words += f", {age_ms / 1000:.1f} s before the fault"
    else:
        words += " by the mirror's clock"
    return AsOf(f"{words}; {'unknown number of' if most is None else f'up to {most:,}'} re-reads", most)


def read_again(move: PositionMove) -> int:
    """How many records the group reads again at most, if the position is still the committed one."""
    again = move.kind in (TranslationKind.BOUNDED, TranslationKind.BEHIND) and move.offset is not None
    return move.records if again else 0


def sum_known(numbers: Iterable[int | None]) -> int | None:
    """Their sum, None where one is unknown."""
    known = list(numbers)
    return None if None in known else sum(number or 0 for number in known)


class Decided(Protocol):
    """A decision about one partition of a group, of consumers or of share consumers."""

    @property
    def group(self) -> str: ...
    @property
    def target(self) -> TopicPartition: ...
    @property
    def why(self) -> str: ...
    @property
    def harmless(self) -> bool: ...


OneDecided = TypeVar("OneDecided", bound=Decided)


def blocked(moves: Iterable[OneDecided]) -> dict[str, tuple[OneDecided, ...]]:
    """By group: the positions that are left and prevent moving it without a guess."""
    by_group: dict[str, list[OneDecided]] = {}
    for move in moves:
        if not move.harmless:
            by_group.setdefault(move.group, []).append(move)
    return {group: tuple(its_moves) for group, its_moves in by_group.items()}


def leave_groups(moves: Iterable[PositionMove], reasons: Mapping[str, str]) -> tuple[PositionMove, ...]:
    """`moves`, with every position of the groups in `reasons` left."""
    return tuple(
        replace(move, offset=None, left=Left.GROUP, why=f"{_GROUP_LEFT}{reasons[move.group]}")
        if move.group in reasons and move.left not in (Left.NOT_MIRRORED, Left.NO_LEADER)
        else move
        for move in moves
    )


def left_check(moves: Sequence[PositionMove], unknown: Mapping[str, str]) -> tuple[Check, ...]:
    """The check of the scorecard where groups were left as a whole, or in partitions without a leader; none where none was.

    `unknown`: why nothing is known of a group's positions.
    """
    leaderless: dict[TopicPartition, list[PositionMove]] = {}
    for move in moves:
        if move.left is Left.NO_LEADER:
            leaderless.setdefault(move.target, []).append(move)
    not_moved = dict(unknown)
    not_moved |= {move.group: move.why.removeprefix(_GROUP_LEFT) for move in moves if move.left is Left.GROUP}
    if not not_moved and not leaderless:
        return ()
    moved = {move.group for move in moves if move.offset is not None} - not_moved.keys()
    texts = [f"{len(moved):,} groups were moved"]
    if not_moved:
        whole = _few(f"{group}: {why}" for group, why in sorted(not_moved.items()))
        texts[0] += f", {len(not_moved):,} were left: {whole}. {BY_HAND}"
    if leaderless:
        parts = _few(
            f"{at} ({first_few([move.group for move in those])}): {those[0].why}"
            for at, those in sorted(leaderless.items())
        )
        texts.append(f"Unknown, and left, are positions in {len(leaderless):,} partitions: {parts}. {OF_NO_LEADER}")
    verdict = Verdict.CONDITIONS if moved else Verdict.FAIL
    return (Check(name=CHECK, verdict=verdict, evidence=". ".join(texts)),)


def _few(texts: Iterable[str]) -> str:
    shown = list(texts)
    return "; ".join(shown[:5]) + (f"; and {len(shown) - 5:,} more" if len(shown) > 5 else "")


def no_group(flow: Flow, known: Iterable[str], patterns: Sequence[str], run: str) -> UsageError:
    """The error of a move without a group. `known`: groups with a position on a mirrored topic."""
    what, others = f"no group to move to {flow.target}", ", ".join(sorted(set(known))[:10])
    if not others:
        return UsageError(
            what,
            f"no group has a position on a topic that {flow} mirrors",
            "A group has one once it has committed there. With clusters and applications of its own: "
            "drlib run rehearse-failover --lab",
        )
    return UsageError(
        what,
        f"no group with a position on a mirrored topic matches {', '.join(patterns)}",
        f"Groups with a position: {others}. Correct `groups` in the runbook, and run it again with --supersede {run}",
    )


def reasons(stuck: Mapping[str, Sequence[Decided]]) -> dict[str, str]:
    """Of each group that is blocked its first reason."""
    return {group: f"{those[0].target}, {those[0].why}" for group, those in stuck.items()}


def named(stuck: Mapping[str, Sequence[Decided]]) -> str:
    """Groups that are blocked, each with its first reason; at most five."""
    shown = [f"{group}: {why}" for group, why in sorted(reasons(stuck).items())]
    return "; ".join(shown[:5]) + (f"; and {len(shown) - 5} groups more" if len(shown) > 5 else "")


def _ahead(committed: CommittedOffset) -> str:
    return f"it is at {committed.offset} there, further ahead: the group was used there"
