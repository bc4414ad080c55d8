"""The offset map of one source partition: its journal entries composed into a monotone, piecewise linear map.

Rules:
- The map holds records that were acknowledged, or found by recovery; a run beyond them is a promise and not in the map.
- Only journal order matters: replaying a compacted journal gives the same answers as the live map.
- A translated position is never past the first record that the group has not read; an inexact one is marked as such.
- Neither source nor target offsets decrease along the map; entries that would make them are a `MapContradiction`.
- What lies below both log starts is on neither cluster, and is dropped (`Expired`): stretches, losses, foreign records and
  uncertain stretches. A position there is translated to the end of what was dropped, as `LOST` with a bound on the records:
  where they were is not kept. Positions at or behind it are translated as before, in both directions.
- Of stretches beyond a limit the oldest are thinned out (`Thinned`): a position there continues at the last beginning that is
  known, `BOUNDED` by the records in between, so nothing is skipped. What follows a loss is always such a beginning.
- Never dropped: the last stretch, whose record proves that the mirror and the journal are whole; where the map began; where
  another replicator stopped; what is promised and not counted; that the source's history changed.
Longer than most modules: what is built and what is asked share one state.
Not for: reading the journal, or deciding which position a group may be set to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from drlib.mirror.journal.entries import (
    Ack,
    Chunk,
    ClaimId,
    Compared,
    Covered,
    Entry,
    Expired,
    Foreign,
    OwnRecords,
    Parked,
    Placement,
    Run,
    Sealed,
    SourceLoss,
    SourcePartition,
    SourceTruncated,
    Takeover,
    Thinned,
    Unsure,
)
from drlib.mirror.offsets.map.claim_records import ClaimRecords
from drlib.mirror.offsets.map.segments import MapContradiction, SegmentList, ThinnedPart
from drlib.mirror.offsets.map.taken_part import TakenPart
from drlib.model import Segment, Translation, TranslationKind

__all__ = ["MapContradiction", "PartitionMap"]

_EXACT = TranslationKind.EXACT


class PartitionMap:
    """Takes the partition's entries in journal order (`apply`) and live progress (`ack`, `cover`)."""

    def __init__(self) -> None:
        self._segments = SegmentList()
        self._claims: dict[ClaimId, ClaimRecords] = {}
        self._first_placed: int | None = None
        self._covered: int | None = None
        self._losses: dict[int, int] = {}  # first -> next offset
        self._open_parks: list[int] = []  # parked at these offsets, and nothing beyond mirrored since
        self._foreign: dict[int, int] = {}  # target offset -> count
        self._unsure: dict[ClaimId, tuple[int, int]] = {}
        self._diverged: int | None = None  # from this source offset on, the source has other records than were mirrored
        self.taken: TakenPart | None = None  # what MirrorMaker 2 copied before us

    # -- building ------------------------------------------------------------------------------------------------

    def apply(self, entry: Entry) -> None:
        """Apply one entry; kinds without offsets are ignored. Raises `MapContradiction`."""
        match entry:
            case Run():
                self._claim(entry.claim).runs.set(entry.q, entry.source_offset, self._claim(entry.claim).q)
            case Placement():
                placed = entry.target_offset
                self._first_placed = placed if self._first_placed is None else min(placed, self._first_placed)
                self._claim(entry.claim).placements.set(entry.q, entry.target_offset, self._claim(entry.claim).q)
            case Ack():
                self.ack(entry.claim, entry.q)
            case Sealed():
                if entry.q < (acked := self.acknowledged(entry.claim)):
                    raise MapContradiction(f"{entry.claim} was sealed at {entry.q} records, {acked} were acknowledged")
                self.ack(entry.claim, entry.q)
                self._claim(entry.claim).sealed = True
            case Chunk():
                self._segments.extend(entry.segments)
                self._end_parks()
            case Covered():
                self.cover(entry.source_offset)
            case Expired():
                self._expire(entry)
            case Thinned():
                self._segments.thin(entry)
            case SourceLoss() | SourceTruncated():
                self._lose(entry.first, entry.next_offset)
                if isinstance(entry, SourceTruncated):
                    self._diverged = entry.first if self._diverged is None else min(self._diverged, entry.first)
            case Parked():
                self._park(entry.source_offset)
            case Foreign():
                if not self._expired_on_target(entry.target_offset + entry.count):
                    self._foreign[entry.target_offset] = entry.count
            case Unsure():
                self._unsure[entry.claim] = (entry.low, entry.high)
            case Takeover():
                self.taken = TakenPart(entry)
                self.cover(entry.source_offset)
            case Compared():
                if self.taken is not None and self._segments.expired is None:
                    self.taken.apply(entry)
            case OwnRecords():
                if self.taken is not None:
                    self.taken.own = entry.ranges

    def ack(self, claim: ClaimId, q: int) -> None:
        """Note that the first `q` records of `claim` are in the target's log; fewer than already known change nothing."""
        state = self._claim(claim)
        while state.q < q:
            source, source_more = state.runs.at(state.q)
            target, target_more = state.placements.at(state.q)
            count = min(q - state.q, source_more, target_more)
            self._append(source, target, count)
            state.q += count
        state.runs.settle(state.q - 1)  # of the last one it is still asked who wrote it
        state.placements.settle(state.q - 1)

    def cover(self, source_offset: int) -> None:
        """Note that all data of the source below `source_offset` is on the target."""
        self._covered = source_offset if self._covered is None else max(source_offset, self._covered)

    def _claim(self, claim: ClaimId) -> ClaimRecords:
        state = self._claims.get(claim)
        if state is None:
            self._forget_claims()
            state = self._claims[claim] = ClaimRecords()
        return state

    def _forget_claims(self) -> None:
        """Drop the claims that a new one leaves nothing of: they are sealed, or promised nothing."""
        last = next((claim for claim, state in reversed(self._claims.items()) if state.q), None)
        self._claims = {
            claim: state
            for claim, state in self._claims.items()
            if claim == last or claim in self._unsure or (state.runs and not state.sealed)
        }

    def _append(self, source: int, target: int, count: int) -> None:
        self._segments.append(source, target, count)
        if self._open_parks:
            self._end_parks()

    def _end_parks(self) -> None:
        """Record the parks behind which a record was mirrored; the others stay open."""
        parks, self._open_parks = self._open_parks, []
        for park in parks:
            self._park(park)

    def _park(self, offset: int) -> None:
        """Record a park: it ends at the next mirrored record, and is open until there is one."""
        expired = self._segments.expired
        if expired is not None and offset < expired.source_end:
            return  # a later record was mirrored and has expired
        following = self._segments.next_source(offset)
        if following is None:
            if offset not in self._open_parks:
                self._open_parks.append(offset)
                self._open_parks.sort()
        elif following > offset:
            self._lose(offset, following)

    def _lose(self, first: int, following: int) -> None:
        expired = self._segments.expired
        if expired is None or following > expired.source_end:
            self._losses[first] = max(following, self._losses.get(first, following))

    def _expire(self, expired: Expired) -> None:
        self._segments.expire(expired)
        if self.taken is not None:
            self.taken.forget()  # it lies before what has expired
        self._losses = {first: end for first, end in self._losses.items() if end > expired.source_end}
        self._foreign = {at: n for at, n in self._foreign.items() if not self._expired_on_target(at + n)}

    def _expired_on_target(self, end: int) -> bool:
        expired = self._segments.expired
        return expired is not None and end <= expired.target_end

    # -- queries ------------------------------------------------------------------------------------------------

    def segments(self) -> SegmentList:
        """The mirrored stretches, ascending, merged where both sides are contiguous; a view that grows with the map."""
        return self._segments

    @property
    def first_stretch(self) -> Segment:
        """The first mirrored stretch that did not expire; of thinned ones where it begins. There is one."""
        return (self._segments.coarse or self._segments)[0]

    def expired(
        self, partition: SourcePartition, source_start: int, target_start: int, at_least: int = 1
    ) -> Expired | None:
        """What lies below both log starts and is not dropped yet; None for fewer than `at_least` stretches."""
        segments, before = self._segments, self._segments.expired
        gone = segments.expirable(source_start, target_start)
        if gone < max(1, at_least) or self._diverged is not None:
            return None
        first, last = self.first_stretch, segments[gone - 1]
        return Expired(
            partition,
            before.first_source if before is not None else self._started(first.source),
            before.first_target if before is not None else first.target,
            last.source_end,
            last.target_end,
            segments.records_before(gone),
        )

    def thinned(self, partition: SourcePartition, keep: int, at_most: int) -> Thinned | None:
        """All but the newest `keep` stretches as about `at_most`; None where that would be no fewer, or changes an answer that
        is not about positions: with records that may or may not be on the target, or a history that changed."""
        if self._diverged is not None or any(True for _ in self._uncertain()):
            return None
        return self._segments.thinned_out(partition, keep, at_most, self._losses)

    def claims(self) -> tuple[ClaimId, ...]:
        """The claims with a promise or a placement for this partition that still matter, oldest first."""
        return tuple(self._claims)

    def source_of(self, claim: ClaimId, q: int) -> int:
        """The source offset that was promised for record `q` of `claim`. Raises `MapContradiction`."""
        return self._claim(claim).runs.at(q)[0]

    def promised(self, claim: ClaimId) -> int:
        """The record number at which the last run of `claim` starts; 0 when it has none."""
        state = self._claims.get(claim)
        return state.runs.last if state is not None else 0

    def acknowledged(self, claim: ClaimId) -> int:
        """How many records of `claim` are known to be in the target's log."""
        state = self._claims.get(claim)
        return state.q if state is not None else 0

    @property
    def covered(self) -> int | None:
        """The source offset read through to (exclusive), as journaled; None before the first entry."""
        return self._covered

    @property
    def source_end(self) -> int | None:
        """One past the last mirrored record on the source."""
        return self._segments.source_end

    @property
    def target_end(self) -> int | None:
        """One past the last mirrored record on the target; before the first one, where the newest claim will append it."""
        end = self._segments.target_end
        return self._target_next() if end is None else end

    @property
    def least_log_end(self) -> int:
        """The target's log does not end below this offset: everything before it was acknowledged there."""
        taken = 0 if self.taken is None else self.taken.takeover.target_offset
        return max(self._segments.target_end or 0, self._target_next() or 0, taken)

    @property
    def first_log_end(self) -> int:
        """Where the first claim placed its records; the target's own log end where nothing was placed."""
        return self.least_log_end if self._first_placed is None else self._first_placed

    @property
    def newest_record(self) -> tuple[int, ClaimId | None] | None:
        """Target offset of the last mirrored record, and the claim that wrote it: None where claims were folded."""
        end = self._segments.target_end
        if end is None:
            return None
        for claim, state in reversed(self._claims.items()):
            if state.q:
                return end - 1, claim if state.placements.at(state.q - 1)[0] == end - 1 else None
        return end - 1, None

    @property
    def position(self) -> int | None:
        """The next source offset to mirror: past the last mirrored record, what was read through, and known losses.

        Without these it is the first record ever promised, because records that expire from there on are a loss.
        """
        known = [end for end in (self._segments.source_end, self._covered) if end is not None]
        promised = [] if known else [state.runs.at(0)[0] for state in self._claims.values() if state.runs]
        if not known and not promised:
            return None
        position = max(known) if known else min(promised)
        for first, following in sorted(self._losses.items()):
            if first <= position < following:
                position = following
        return position

    def lost(self, first: int, end: int) -> int:
        """How many source offsets of [`first`, `end`) are journaled as lost or parked and are not on the target."""
        stretches = [(a, min(b, end)) for a, b in self._losses.items()]
        stretches += [(park, end) for park in self._open_parks]
        total = 0
        at = first
        for a, b in sorted(stretches):
            at = max(at, a)
            if b > at:
                total += b - at - self._segments.mirrored_at_least(at, b)
                at = b
        return total

    def segments_on_target(self, first: int, end: int) -> int:
        """How many mirrored records are known to be at target offsets [`first`, `end`)."""
        taken = 0 if self.taken is None else self.taken.on_target(first, end)
        return taken + self._segments.on_target(first, end)

    def unread(self, position: int) -> int:
        """How many mirrored records lie at `position` of the target or behind it; of what was not compared, offsets count."""
        not_compared = 0 if self.taken is None else max(0, self.taken.cursor[1] - position)
        return not_compared + self.segments_on_target(position, max(position, self.least_log_end))

    @property
    def diverged(self) -> int | None:
        """The source offset from which on the source has other records than were mirrored; None where there is none."""
        return self._diverged

    @property
    def doubtful(self) -> int:
        """How many records may or may not be on the target: the journal does not know."""
        return sum(high - low for _, _, low, high, _ in self._uncertain())

    @property
    def reached(self) -> int | None:
        """Up to where the source's log as it is now was mirrored: `position`, or lower where the log went back."""
        position = self.position
        return position if position is None or self._diverged is None else min(position, self._diverged)

    def absent(self, log_start: int, log_end: int) -> tuple[tuple[int, int], ...]:
        """The stretches of the source's log, [`log_start`, `log_end`), that are not on the target, as (first, end).

        These are offsets journaled as lost or parked, and those past the mirrored end. Gaps between mirrored records do not
        count: they held nothing that a read_committed consumer sees.
        """
        position = self.position
        wanted = [*self._losses.items(), (log_start if position is None else position, log_end)]
        stretches: list[tuple[int, int]] = []
        at = log_start
        for first, end in sorted(wanted):
            at, end = max(at, first), min(end, log_end)
            while at < end:
                following = self._segments.next_source(at)
                stop = end if following is None else min(following, end)
                if at < stop:
                    begin = stretches.pop()[0] if stretches and stretches[-1][1] == at else at
                    stretches.append((begin, stop))
                at = stop
                if following is not None and stop == following < end:
                    segment = self._segments.find_source(following)
                    assert segment is not None
                    at = segment[0].source_end
        return tuple(stretches)

    # -- translation ---------------------------------------------------------------------------------------------

    def forward(self, g: int, *, target_log_start: int = 0) -> Translation:
        """Translate the source position `g` to the target, whose log starts at `target_log_start`."""
        translation = self._forward(g)
        if translation.offset is None or translation.offset >= target_log_start:
            return translation
        if translation.kind is TranslationKind.UNKNOWN and not self._is_diverged(g):
            for low, high, _, following, first in self._uncertain():
                if low <= g < high and following <= target_log_start:  # all that is in doubt has expired
                    gone = high - max(g, first)
                    return replace(_lost(target_log_start, gone), expired=gone)
        if translation.kind is TranslationKind.BOUNDED:
            taken = self.taken is not None and translation.offset < self.taken.takeover.target_offset
            gone = self._segments.on_target_at_least(translation.offset, target_log_start)
            return _moved_up(translation, target_log_start, target_log_start - translation.offset if taken else gone)
        return _clamped(translation, target_log_start, self.segments_on_target(translation.offset, target_log_start))

    def backward(self, t: int, *, source_log_start: int = 0) -> Translation:
        """Translate the target position `t` to the source, whose log starts at `source_log_start`."""
        translation = self._backward(t)
        if translation.offset is None or translation.offset >= source_log_start:
            return translation
        if translation.kind is TranslationKind.BOUNDED:
            taken = self.taken is not None and translation.offset < self.taken.takeover.source_offset
            gone = self._segments.mirrored_at_least(translation.offset, source_log_start)
            return _moved_up(translation, source_log_start, source_log_start - translation.offset if taken else gone)
        deleted = self._segments.mirrored(translation.offset, source_log_start)
        if self.taken is not None:
            deleted += self.taken.mirrored(translation.offset, source_log_start)
        return _clamped(translation, source_log_start, deleted)

    def _is_diverged(self, g: int) -> bool:
        return self._diverged is not None and g > self._diverged

    def _forward(self, g: int) -> Translation:
        segments, position, taken = self._segments, self.position, self.taken
        if self._diverged is not None and g > self._diverged:  # which of the two histories it refers to is not known
            return Translation(self._forward(self._diverged).offset, TranslationKind.UNKNOWN)
        if taken is not None and g < taken.takeover.source_offset:
            return taken.forward(g)
        if (expired := segments.expired) is not None and g < expired.source_end:
            if g < expired.first_source:
                return Translation(expired.first_target, TranslationKind.NEVER_MIRRORED)
            gone = expired.source_end - g
            return Translation(expired.target_end, TranslationKind.LOST, gone, gone)
        if (part := segments.find_thinned(g)) is not None:
            if any(part.source <= lost <= g for lost in self._losses):  # the next record begins a part
                return _lost(part.target_end, self.lost(g, part.source_end))
            return _within(part, part.target, g - part.source)
        for low, high, beginning, _, _ in self._uncertain():
            if low <= g < high:
                return Translation(beginning, TranslationKind.UNKNOWN)
        if not segments:
            target = self._target_next()
            if position is None or g < self._started(position):
                return Translation(target, TranslationKind.NEVER_MIRRORED)
            return _reached(target, g - position) if g > position else _lost(target, self.lost(g, position))
        pair = segments.find_source(g)
        if pair is None:
            first = self.first_stretch if g < self.first_stretch.source else segments[0]
            if expired is None and g < self._started(self.first_stretch.source):
                return Translation(first.target, TranslationKind.NEVER_MIRRORED)
            return _lost(first.target, self.lost(g, first.source))
        segment, following = pair
        if g < segment.source_end:
            return Translation(segment.target + g - segment.source, _EXACT)
        if following is not None:
            return _lost(following.target, self.lost(g, following.source))
        assert position is not None  # there are segments
        if g > position:
            return Translation(segment.target_end, TranslationKind.BEHIND, g - position)
        return _lost(segment.target_end, self.lost(g, position))

    def _backward(self, t: int) -> Translation:
        segments = self._segments
        end, taken = self._target_next(), self.taken
        if self._diverged is not None and t > (self._forward(self._diverged).offset or 0):
            return Translation(self._diverged, TranslationKind.UNKNOWN)
        if taken is not None and t < taken.takeover.target_offset:
            return taken.backward(t)
        known = TranslationKind.NEVER_MIRRORED if taken is None else _EXACT
        if (expired := segments.expired) is not None and t < expired.target_end:
            if t < expired.first_target:
                return Translation(expired.first_source, known)
            gone = expired.target_end - t
            return Translation(expired.source_end, TranslationKind.LOST, gone, gone)
        if (part := segments.find_thinned(t, of_target=True)) is not None:
            return _within(part, part.source, t - part.target)
        for _, _, low, high, source in self._uncertain():
            if low < t < high:
                return Translation(source, TranslationKind.UNKNOWN)
        if not segments:
            if taken is None and (end is None or t < end):
                return Translation(self.position, TranslationKind.NEVER_MIRRORED)
            return _reached(self.position, max(0, t - end) if end is not None else 0)
        pair = segments.find_target(t)
        if pair is None:
            first = self.first_stretch if t < self.first_stretch.target else segments[0]
            if expired is None and t < self.first_stretch.target:
                return Translation(first.source, known)
            return _lost(first.source, self._foreign_in(t, first.target))
        segment, following = pair
        if t < segment.target_end:
            return Translation(segment.source + t - segment.target, _EXACT)
        if following is not None:
            return _lost(following.source, self._foreign_in(t, following.target))
        end = max(segment.target_end, end or 0)
        if t > end:
            return Translation(segment.source_end, TranslationKind.BEHIND, t - end)
        return _lost(segment.source_end, self._foreign_in(t, end))

    def _started(self, first: int) -> int:
        """Where mirroring began, at most `first`: offsets journaled as lost were to be mirrored as well."""
        taken = first if self.taken is None else self.taken.takeover.source_offset
        return min(first, taken, min(self._losses, default=first))

    def _target_next(self) -> int | None:
        """Target offset of the newest claim's next record."""
        for state in reversed(self._claims.values()):
            if state.placements:
                return state.placements.at(state.q)[0]
        return None

    def _foreign_in(self, first: int, end: int) -> int:
        return sum(max(0, min(end, at + n) - max(first, at)) for at, n in self._foreign.items())

    def _uncertain(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Stretches of records that may or may not be on the target: source low and high, target low and high, first record.

        On both sides a stretch begins where the known records end, because its first record may follow them directly.
        """
        dropped = self._segments.dropped
        for claim, (low, high) in self._unsure.items():
            state = self._claims.get(claim)
            if state is None or not state.runs or not state.placements or high <= low:
                continue
            first = state.runs.at(low)[0]
            before = self._segments.find_source(first - 1)
            target = state.placements.at(low)[0]
            following = self._segments.next_target(target)
            if following is None:
                following = max(self._target_next() or 0, target + high - low)
            if (expired := self._segments.expired) is not None and target < expired.target_end:
                following = min(following, expired.target_end)  # a record behind them has expired
            end = state.runs.at(high - 1)[0] + 1
            over = 0 if dropped is None else dropped.source_end
            if end <= over and self._expired_on_target(following):
                continue
            yield (
                before[0].source_end if before is not None else over,
                end,
                target,
                following,
                first,
            )


def _reached(offset: int | None, beyond: int) -> Translation:
    """At the mirrored end, or `beyond` records past it."""
    return Translation(offset, TranslationKind.BEHIND, beyond) if beyond else Translation(offset, _EXACT)


def _within(part: ThinnedPart, begin: int, beyond: int) -> Translation:
    """`beyond` offsets past the beginning of a part, which is at `begin` on the other side."""
    if part.source_end - part.source == part.target_end - part.target == part.count:
        return Translation(begin + beyond, _EXACT)
    behind = min(part.count, beyond)
    return Translation(begin, TranslationKind.BOUNDED, behind) if behind else Translation(begin, _EXACT)


def _lost(offset: int | None, records: int) -> Translation:
    return Translation(offset, TranslationKind.LOST, records) if records else Translation(offset, _EXACT)


def _moved_up(translation: Translation, log_start: int, gone: int) -> Translation:
    """A bounded `translation`, which is below the log start, at it; at least `gone` of its records have expired."""
    return Translation(log_start, TranslationKind.BOUNDED, max(0, translation.records - gone))


def _clamped(translation: Translation, log_start: int, deleted: int) -> Translation:
    """`translation`, which is below the log start, moved up to it; `deleted` mirrored records were between the two."""
    certain = translation.kind not in (TranslationKind.UNKNOWN, TranslationKind.NEVER_MIRRORED)
    if not deleted or not certain:
        return Translation(log_start, translation.kind, translation.records)
    lost = translation.records if translation.kind is TranslationKind.LOST else 0
    return Translation(log_start, TranslationKind.LOST, lost + deleted, translation.expired + deleted)
