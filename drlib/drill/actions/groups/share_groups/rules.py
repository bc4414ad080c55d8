"""Decide where a share group begins on another cluster, and how many acknowledged records it gets there again. Pure.

Rules:
- The start offset is what the offset map gives, never past the end of the log, and never back: a group that is further ahead
  on the target was used there, and is left. Where nothing was mirrored yet, it begins at the log start.
- Records that were acknowledged, rejected or given up behind the start offset, on either cluster, are complete on the target.
  A group that begins at the very offset that it has there keeps what is complete there.
- What is complete and cannot be written on the target is delivered again: that is the prediction. It counts offsets of the
  target; None is unknown, as where the source does not say which records were acknowledged.
- A partition that is left blocks its group, except where nothing of it is on the target, or no share group can be there. A
  group that is blocked is left as a whole, with the reason, and holds up no other group; one that may be moved in part is moved
  but for those partitions. A partition of the target without a leader is unknown and blocks a planned move only.
Not for: translating (`drlib.mirror.share_groups.translate`), asking and writing (`move`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from drlib.drill.actions.groups.rules import Bounds, blocked, sum_known
from drlib.errors import NoLeader
from drlib.formats import second
from drlib.kafka.share_groups.state import Interval, ShareState, above, missing, moved_up
from drlib.mirror.share_groups.translate import ShareTranslation
from drlib.mirror.sync.rules.group_offsets import WRITABLE
from drlib.model import TopicPartition, TranslationKind
from drlib.runs.check import Check, Verdict

REHEARSED: Final = "share groups have their positions on the target"
CHECK: Final = "share groups continue where they were"
STAYING: Final = "share groups have left"


class ShareLeft(StrEnum):
    """Why no start offset is written."""

    AHEAD = "ahead"
    PAST_END = "past-end"
    UNKNOWN = "unknown"
    NO_LEADER = "no-leader"  # its partition on the target has none
    NOT_MIRRORED = "not-mirrored"  # nothing of the partition is on the target
    UNSUPPORTED = "unsupported"  # the target's brokers do not know share groups
    NO_START = "no-start"  # it had none: share.auto.offset.reset decides where it begins
    GROUP = "group"  # its group cannot be moved, and is left as a whole


HARMLESS: Final = frozenset({None, ShareLeft.NOT_MIRRORED, ShareLeft.UNSUPPORTED, ShareLeft.NO_START})


@dataclass(frozen=True, slots=True)
class ShareMove:
    """One partition of one group. `start` is set on the target, None where it is left: `left` and `why` say the reason.

    `source_start`: None where it is not known. `complete` is written behind `start`. `before`: the start offset there before,
    None for none; `before_complete`: what was complete behind it. `unknown`: how many records are complete of which it is not
    known which, so that they cannot be written; None where not even that is known. `carried`: was `complete` written; None
    until it was tried. `why_not`: why not. `checkpointed`: what was acknowledged after `as_of_ms` is not known, and delivered
    again. `not_written`: why `start` could not be written, once that was tried.
    """

    group: str
    source: TopicPartition
    source_start: int | None
    source_complete: int | None
    target: TopicPartition
    start: int | None
    complete: tuple[Interval, ...]
    kind: TranslationKind
    records: int
    as_of_ms: int
    before: int | None = None
    before_complete: tuple[Interval, ...] = ()
    unknown: int | None = 0
    left: ShareLeft | None = None
    why: str = ""
    carried: bool | None = None
    why_not: str = ""
    checkpointed: bool = False
    not_written: str = ""

    @property
    def moved(self) -> bool:
        """Does its group begin at `start` on the target?"""
        return self.start is not None and not self.not_written

    @property
    def harmless(self) -> bool:
        """May the rest of its group be moved, whether or not this partition is?"""
        return self.left in HARMLESS

    @property
    def behind(self) -> int:
        """How many offsets behind the start are complete."""
        return sum(end - first for first, end in self.complete)

    @property
    def sets_start(self) -> bool:
        """Setting a start offset forgets what is complete behind it, so one that is there already is not set again."""
        return self.start is not None and self.start != self.before

    @property
    def to_write(self) -> int:
        """How many complete offsets are not complete on the target once the start offset is set."""
        return 0 if self.start is None else missing(self.complete, () if self.sets_start else self.before_complete)

    @property
    def redelivered(self) -> int | None:
        """How many records that needed no delivery as of `as_of_ms` are delivered again at most; None is unknown."""
        if self.start is None:
            return None if self.left in (ShareLeft.UNKNOWN, ShareLeft.PAST_END, ShareLeft.GROUP) else 0
        if self.unknown is None or self.not_written:
            return None
        bound = self.records if self.kind is TranslationKind.BOUNDED else 0
        return (0 if self.carried else self.to_write) + self.unknown + bound


def decide(
    item: ShareTranslation,
    bounds: Bounds,
    there: ShareState | None,
    *,
    rewind: bool = False,
) -> ShareMove:
    """Decide one partition; `there`: what the group has on the target."""
    translation, state = item.translation, item.known.state
    before = None if there is None else there.start
    kept = () if there is None or there.complete is None else there.complete
    move = ShareMove(
        group=item.group,
        source=item.source,
        source_start=state.start,
        source_complete=state.completed,
        target=item.target,
        start=None,
        complete=(),
        kind=translation.kind,
        records=translation.records,
        as_of_ms=item.known.as_of_ms,
        checkpointed=item.known.checkpointed,
        before=before,
        before_complete=kept,
    )
    offset = translation.offset
    if isinstance(bounds, NoLeader):
        return replace(move, kind=TranslationKind.UNKNOWN, left=ShareLeft.NO_LEADER, why=bounds.why)
    if bounds is None:
        return replace(move, left=ShareLeft.NOT_MIRRORED, why="nothing of it is on the target")
    if translation.kind is TranslationKind.NEVER_MIRRORED and offset is None:
        offset = bounds.start
    if offset is None or not WRITABLE[translation.kind]:
        return replace(move, left=ShareLeft.UNKNOWN, why=item.why or "the journal does not determine its offset there")
    if offset > bounds.end:
        return replace(move, left=ShareLeft.PAST_END, why=f"its log ends at {bounds.end} there, before {offset}")
    if before is not None and before > offset and not rewind:
        why = f"it is at {before} there, further ahead: the group was used there"
        return replace(move, left=ShareLeft.AHEAD, why=why)
    wanted = moved_up(offset, [*above(item.complete or (), offset), *(() if rewind else above(kept, offset))])
    unknown = 0 if item.complete is not None else state.count
    return replace(move, start=wanted.start, complete=wanted.complete or (), unknown=unknown)


def unread(group: str, source: TopicPartition, target: TopicPartition, why: str, at_ms: int) -> ShareMove:
    """A partition of which it is not known what the group has read: it blocks its group."""
    kind, left = TranslationKind.UNKNOWN, ShareLeft.UNKNOWN
    return ShareMove(group, source, None, None, target, None, (), kind, 0, at_ms, unknown=None, left=left, why=why)


def unset(group: str, source: TopicPartition, target: TopicPartition, reset: str, at_ms: int) -> ShareMove:
    """A partition without a start offset, in a group whose `share.auto.offset.reset` is not `earliest`."""
    known = f"share.auto.offset.reset, which is {reset or 'not known'} on the source"
    why = f"it has no start offset yet: it begins there by {known}"
    return ShareMove(
        group, source, 0, 0, target, None, (), TranslationKind.UNKNOWN, 0, at_ms, left=ShareLeft.NO_START, why=why
    )


def unsupported(move: ShareMove) -> ShareMove:
    """The same where no share group can be on the target."""
    why = "the target's brokers do not know share groups (Kafka 4.1)"
    return replace(move, start=None, complete=(), left=ShareLeft.UNSUPPORTED, why=why)


def leave_blocked(
    moves: Iterable[ShareMove], prevented: Mapping[str, str], in_part: Callable[[str], bool]
) -> tuple[ShareMove, ...]:
    """Leave groups that cannot be moved: those in `prevented`, by the reason, and those that are blocked and may not be moved
    `in_part`."""
    moves = tuple(moves)
    reasons = {
        group: f"{those[0].target}, {those[0].why}"
        for group, those in blocked(move for move in moves if move.left is not ShareLeft.NO_LEADER).items()
        if not in_part(group)
    }
    reasons |= prevented
    return tuple(
        replace(move, start=None, complete=(), left=ShareLeft.GROUP, why=f"its group is left: {reasons[move.group]}")
        if move.group in reasons and move.left is None
        else move
        for move in moves
    )


def after_writing(
    moves: Iterable[ShareMove], reasons: Mapping[tuple[str, TopicPartition], str], failed: Mapping[str, str]
) -> tuple[ShareMove, ...]:
    """`moves` with whether what is complete was written: `reasons` are empty where it was. `failed`: why a group was not."""
    done = []
    for move in moves:
        why, not_written = reasons.get((move.group, move.target)), failed.get(move.group, "")
        move = replace(move, not_written=not_written if move.start is not None else "")
        done.append(move if why is None else replace(move, carried=not why, why_not=why))
    return tuple(done)


def redelivered_by_group(moves: Iterable[ShareMove]) -> dict[str, int | None]:
    """The prediction of each group; None is unknown."""
    by_group: dict[str, list[int | None]] = {}
    for move in moves:
        if move.left is not ShareLeft.NO_START:
            by_group.setdefault(move.group, []).append(move.redelivered)
    return {group: sum_known(numbers) for group, numbers in by_group.items()}


def rehearsed(moves: Iterable[ShareMove], unknown_groups: Mapping[str, str]) -> tuple[Check, ...]:
    """The check of a rehearsal, which decides and writes nothing; none without share groups."""
    moves = tuple(moves)
    if not moves and not unknown_groups:
        return ()
    there = [move for move in moves if move.moved]
    words = f"{len(there)} of {len(moves)} start offsets are on the target, with {sum(m.behind for m in there):,} acknowledged "
    words += "records behind them"
    left = [f"{group}: {why}" for group, why in sorted(unknown_groups.items())]
    left += [f"{move.group} in {move.source}: {move.why}" for move in moves if not move.moved]
    unknown = sorted({move.group for move in there if move.unknown != 0})
    if unknown:
        words += f"; which records are acknowledged is not known of {', '.join(unknown[:5])}"
    if left:
        words += f"; would be left: {'; '.join(left[:5])}"
    return (Check(name=REHEARSED, verdict=Verdict.CONDITIONS if left or unknown else Verdict.PASS, evidence=words),)


def checks(
    moves: Iterable[ShareMove], again: Mapping[str, int | None], unknown_groups: Mapping[str, str]
) -> tuple[Check, ...]:
    """The check of the scorecard; none without share groups.

    `again`: what the target itself will deliver again, by group. `unknown_groups`: why nothing is known of a group's positions.
    """
    moves = tuple(moves)
    if not moves and not unknown_groups:
        return ()
    predicted = redelivered_by_group(moves)
    more = {
        g: n for g, n in again.items() if n is not None and (at_most := predicted.get(g)) is not None and n > at_most
    }
    unknown = sorted(group for group, number in predicted.items() if number is None)
    delivered = sum(number or 0 for number in predicted.values())
    left = [f"{group}: {why}" for group, why in sorted(unknown_groups.items())]
    left += [f"{move.group} in {move.source}: {move.why or move.not_written}" for move in moves if not move.moved]
    reasons = sorted({move.why_not for move in moves if move.why_not})
    carried = sum(move.behind for move in moves if move.moved and (move.carried or not move.to_write))
    words = f"{carried:,} acknowledged records behind the start offsets are carried over"
    if more:
        group, number = next(iter(more.items()))
        evidence = (
            f"{group}: {number:,} acknowledged records will be delivered again, {predicted[group]:,} were predicted"
        )
        return (Check(name=CHECK, verdict=Verdict.FAIL, evidence=evidence),)
    if delivered:
        words += f"; {delivered:,} are delivered again" + (f": {'; '.join(reasons)}" if reasons else "")
    if unknown:
        words += f"; how many are delivered again is not known of {', '.join(unknown[:5])}"
    if left:
        words += f"; left: {'; '.join(left[:5])}"
    if old := [move.as_of_ms for move in moves if move.checkpointed]:
        words += f"; what was acknowledged after {second(min(old))} UTC is not known, and delivered again"
    verdict = Verdict.CONDITIONS if delivered or unknown or left or old else Verdict.PASS
    return (Check(name=CHECK, verdict=verdict, evidence=words),)
