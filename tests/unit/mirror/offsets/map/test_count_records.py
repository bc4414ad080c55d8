"""Recovery against literal logs, and against random logs that a random cleaner compacted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drlib.mirror.journal.entries import Ack, ClaimId, Entry, Placement, Run, Sealed, SourcePartition, Unsure
from drlib.mirror.offsets.map.count_records import (
    ForeignRange,
    KnownEnd,
    Recovered,
    RecoveryContradiction,
    TailBatch,
    bounded,
    check_end,
    recover,
)
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import TranslationKind

P = SourcePartition(UUID(int=1), 0)
C = ClaimId(9, 3)
NEXT = ClaimId(9, 4)
MODULUS = 1 << 31


def ours(base: int, n: int, sequence: int, count: int | None = None) -> TailBatch:
    return TailBatch(base, base + n - 1, n if count is None else count, 9, 3, sequence, False)


def other(base: int, n: int, producer_id: int = 55, epoch: int = 0) -> TailBatch:
    return TailBatch(base, base + n - 1, n, producer_id, epoch, 0, False)


def control(base: int, producer_id: int = 9, epoch: int = 3) -> TailBatch:
    return TailBatch(base, base, 1, producer_id, epoch, -1, True)


def run(
    tail: list[TailBatch],
    end: int,
    *,
    ack: Ack | None = None,
    placed: tuple[tuple[int, int], ...] = ((0, 1),),
    producers: Collection[int] = (),
) -> Recovered:
    return recover(
        claim=C,
        placements=[Placement(P, C, q, t) for q, t in placed],
        ack=ack,
        tail=tail,
        tail_from=placed[0][1] if ack is None else ack.target_offset,
        marker=end,
        producers=producers,
    )


def found(
    q: int,
    end: int,
    *,
    high: int | None = None,
    placed: tuple[tuple[int, int], ...] = (),
    foreign: tuple[ForeignRange, ...] = (),
) -> Recovered:
    top = q if high is None else high
    return Recovered(q, q, top, q == top, tuple(Placement(P, C, n, t) for n, t in placed), end, foreign)


class TestLiteralTails:
    def test_recover_nothing_sent(self) -> None:
        assert run([control(1, 9, 4)], 2) == found(0, 1)

    def test_recover_expired_marker_below_the_next_placement_was_no_record(self) -> None:
        """The claim wrote a marker at 3 while it was idle and placed its next record behind it; then all of it expired."""
        tail = [control(4, 9, 4)]
        assert run(tail, 5, ack=Ack(P, C, 2, 3), placed=((0, 1), (2, 4))) == found(2, 3)
        assert run(tail, 5, ack=Ack(P, C, 2, 3)) == found(2, 3, high=3)

    def test_recover_expired_offsets_before_a_later_batch_count_from_the_next_placement(self) -> None:
        tail = [other(6, 1), control(7, 9, 4)]
        assert run(tail, 8, ack=Ack(P, C, 2, 3), placed=((0, 1), (2, 5))) == found(
            2, 3, high=3, foreign=(ForeignRange(6, 1),)
        )

    def test_bounded_source_without_more_records_makes_the_count_exact(self) -> None:
        open_count = found(2, 3, high=5)
        assert bounded(open_count, 0) == found(2, 3)
        assert bounded(open_count, -1) == found(2, 3)  # the source's log is shorter than what was promised
        assert bounded(open_count, 2) == found(2, 3, high=4)
        assert bounded(open_count, 9) == open_count

    def test_recover_empty_range(self) -> None:
        assert run([], 1) == found(0, 1)

    def test_recover_two_batches_before_the_marker(self) -> None:
        assert run([ours(1, 3, 0), ours(4, 2, 3), control(6, 9, 4)], 7) == found(5, 6)

    def test_recover_counts_from_the_last_ack(self) -> None:
        ack = Ack(P, C, 10, 11)
        assert run([ours(11, 2, 10), control(13, 9, 4)], 14, ack=ack) == found(12, 13)
        assert run([control(11, 9, 4)], 12, ack=ack) == found(10, 11)

    def test_recover_batch_that_ends_below_the_last_acknowledged_record_may_be_of_others(self) -> None:
        tail = [other(8, 2), ours(11, 2, 10), control(13, 9, 4)]
        assert run(tail, 14, ack=Ack(P, C, 10, 11)) == found(12, 13)

    def test_recover_own_marker_shifts_the_placement(self) -> None:
        tail = [ours(1, 2, 0), control(3), ours(4, 2, 2), ours(6, 1, 4)]
        assert run(tail, 7) == found(5, 7, placed=((2, 4),))

    def test_recover_marker_after_last_batch_shifts_nothing(self) -> None:
        assert run([ours(1, 2, 0), control(3), control(4, 9, 4)], 5) == found(2, 3)

    def test_recover_journaled_shift_is_not_returned_again(self) -> None:
        tail = [ours(1, 2, 0), control(3), ours(4, 2, 2)]
        assert run(tail, 6, placed=((0, 1), (2, 4))) == found(4, 6)

    def test_recover_shift_before_the_first_batch(self) -> None:
        assert run([other(1, 2), ours(3, 1, 0)], 4) == found(1, 4, placed=((0, 3),), foreign=(ForeignRange(1, 2),))

    def test_recover_foreign_batches_are_returned_merged(self) -> None:
        tail = [ours(1, 1, 0), other(2, 2), other(4, 3, 66), ours(7, 1, 1), other(8, 1)]
        expected = found(2, 8, placed=((1, 7),), foreign=(ForeignRange(2, 5), ForeignRange(8, 1)))
        assert run(tail, 9) == expected

    @pytest.mark.parametrize(("producer_id", "epoch"), [(9, 2), (9, 4), (10, 3), (-1, -1)])
    def test_recover_matches_producer_id_and_epoch(self, producer_id: int, epoch: int) -> None:
        assert run([other(1, 2, producer_id, epoch)], 3) == found(0, 1, foreign=(ForeignRange(1, 2),))

    def test_recover_batches_of_later_claims_of_the_lane_are_neither_counted_nor_foreign(self) -> None:
        later = [other(3, 4, 9, 4), control(7), other(8, 2, 10, 0)]
        assert run([ours(1, 2, 0), *later], 10, producers={9, 10}) == found(2, 3)
        assert run([ours(1, 2, 0), *later], 10, producers={9}) == found(2, 3, foreign=(ForeignRange(8, 2),))

    def test_recover_cleaned_batch_counts_by_its_span(self) -> None:
        assert run([ours(1, 5, 0, count=2), ours(6, 4, 5, count=0)], 10) == found(9, 10)

    def test_recover_cleaned_records_before_a_batch_count_by_its_sequence(self) -> None:
        assert run([ours(4, 2, 3)], 6) == found(5, 6)

    def test_recover_cleaned_markers_shift_the_placement(self) -> None:
        """Offsets 1..4 were cleaned and the sequence shows that three of them were ours: the batch gets a new placement."""
        assert run([ours(5, 2, 3)], 7) == found(5, 7, placed=((3, 5),))

    def test_recover_offsets_missing_at_the_end_give_bounds(self) -> None:
        assert run([ours(1, 2, 0), control(5, 9, 4)], 6) == found(2, 3, high=4)
        assert run([ours(1, 2, 0)], 5) == found(2, 3, high=4)
        assert run([ours(1, 2, 0), other(4, 1), control(6, 9, 4)], 7) == found(
            2, 3, high=4, foreign=(ForeignRange(4, 1),)
        )
        assert run([], 4) == found(0, 1, high=3)

    def test_recover_offsets_below_the_log_start_count(self) -> None:
        ack = Ack(P, C, 10, 11)
        assert run([control(14, 9, 4)], 15, ack=ack) == found(10, 11, high=13)
        assert run([ours(13, 1, 12), control(14, 9, 4)], 15, ack=ack) == found(13, 14)

    def test_recover_batch_across_the_start_counts_from_the_start(self) -> None:
        ack = Ack(P, C, 10, 11)
        assert run([ours(6, 3, 5), ours(9, 4, 8), control(13, 9, 4)], 14, ack=ack) == found(12, 13)

    def test_recover_ignores_batches_from_the_marker_on(self) -> None:
        assert run([ours(1, 2, 0), ours(3, 4, 2), ours(7, 1, 6)], 5) == found(4, 5)
        assert run([ours(1, 2, 0), other(3, 1)], 3) == found(2, 3)

    def test_recover_sequence_wraps_at_31_bits(self) -> None:
        ack = Ack(P, C, 3 * MODULUS - 2, 100)
        placed = ((0, 1), (3 * MODULUS - 2, 100))
        result = recover(
            claim=C,
            placements=[Placement(P, C, q, t) for q, t in placed],
            ack=ack,
            tail=[ours(100, 2, MODULUS - 2), ours(102, 5, 0)],
            tail_from=100,
            marker=107,
            producers=(),
        )
        assert result == found(3 * MODULUS + 5, 107)
        cleaned = recover(
            claim=C,
            placements=[Placement(P, C, q, t) for q, t in placed],
            ack=ack,
            tail=[ours(104, 3, 2)],
            tail_from=100,
            marker=107,
            producers=(),
        )
        assert cleaned == result

    @pytest.mark.parametrize(
        ("tail", "says"),
        [
            ([ours(1, 2, 0), ours(3, 1, 1)], "has sequence 1 where 2 was due and 0 offsets are missing"),
            ([ours(1, 2, 0), ours(3, 1, 3)], "has sequence 3 where 2 was due"),
            ([ours(3, 1, 3)], "2 offsets are missing"),
            ([ours(1, 2, MODULUS - 1)], "where 0 was due"),
            ([ours(1 + MODULUS, 1, 0)], "0 was due and 2147483648 offsets are missing"),  # none were ours, or all
            ([ours(1, 2, 0), ours(5, 2, 0)], "sequence 0 where 2 was due and 2 offsets are missing"),
        ],
    )
    def test_recover_impossible_sequence_is_a_contradiction(self, tail: list[TailBatch], says: str) -> None:
        with pytest.raises(RecoveryContradiction, match=says):
            run(tail, 20 + MODULUS)

    def test_recover_record_below_its_placement_is_a_contradiction(self) -> None:
        with pytest.raises(RecoveryContradiction, match=r"record 2 .* is at target offset 3, .* at 9"):
            run([ours(1, 2, 0), ours(3, 1, 2)], 5, placed=((0, 1), (2, 9)))

    def test_recover_log_end_below_the_ack_is_a_contradiction(self) -> None:
        with pytest.raises(RecoveryContradiction, match="offset 11 were acknowledged, the log ends at 10"):
            run([], 10, ack=Ack(P, C, 10, 11))

    @pytest.mark.parametrize(
        "there", [control(10, 9, 4), other(9, 3), ours(8, 4, 7)], ids=["marker", "stranger", "ours"]
    )
    def test_recover_truncated_log_that_grew_again_is_a_contradiction(self, there: TailBatch) -> None:
        """A log truncated below an acknowledged record grows beyond it by the markers of new claims alone."""
        ack = Ack(P, C, 10, 11)
        if there.producer_id == C.producer_id and not there.control:
            assert run([there, control(12, 9, 4)], 13, ack=ack) == found(11, 12)
            return
        with pytest.raises(RecoveryContradiction, match="at 10 the log now holds another batch"):
            run([there, control(11, 9, 4), control(12, 9, 4)], 13, ack=ack)

    def test_recover_claim_without_placement_is_a_contradiction(self) -> None:
        with pytest.raises(RecoveryContradiction, match="no placement"):
            recover(claim=C, placements=[], ack=None, tail=[], tail_from=0, marker=0, producers=())


# -- random logs, random cleaners -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Crash:
    """A mirror partition at a claim: what was appended, what the cleaner left, and what is journaled."""

    log: tuple[TailBatch, ...]
    left: tuple[TailBatch, ...]
    placements: tuple[Placement, ...]
    ack: Ack | None
    end: int
    records: tuple[int, ...]  # target offset of each record of ours: the truth

    def recover(self) -> Recovered:
        tail_from = self.ack.target_offset if self.ack else self.placements[0].target_offset
        # As a fetch gives it: whole batches, the first perhaps from before the range.
        tail = [b for b in self.left if b.last_offset >= tail_from]
        return recover(
            claim=C,
            placements=self.placements,
            ack=self.ack,
            tail=tail,
            tail_from=tail_from,
            marker=self.end,
            producers=(),
        )


@st.composite
def crashes(draw: st.DrawFn, *, cleaner: bool) -> Crash:
    at = start = draw(st.integers(0, 3))
    placements = [Placement(P, C, 0, at)]
    log: list[TailBatch] = []
    records: list[int] = []
    ack: Ack | None = None
    shifted = False
    for step in draw(st.lists(st.sampled_from(["ours", "ours", "ours", "other", "marker", "ack"]), max_size=14)):
        n = draw(st.integers(1, 4))
        if step == "ours":
            if shifted and draw(st.booleans()):
                placements.append(Placement(P, C, len(records), at))  # the owner saw it and said so
                shifted = False
            log.append(ours(at, n, len(records) % MODULUS))
            records += range(at, at + n)
            at += n
        elif step == "other":
            log.append(other(at, n, *draw(st.sampled_from([(55, 0), (9, 2), (-1, -1)]))))
            at, shifted = at + n, True
        elif step == "marker":
            log.append(control(at))
            at, shifted = at + 1, True
        elif records:
            # Acknowledged so far, and whatever was shifted until here is in the journal by then.
            ack = Ack(P, C, len(records), records[-1] + 1)
            placements = _placements(records)
    log.append(control(at, 9, 4))
    left = list(log)
    if cleaner:
        start += draw(st.integers(0, 8))
        fates = draw(st.lists(st.sampled_from(["keep", "drop", "thin"]), min_size=len(log), max_size=len(log)))
        left = [
            replace(b, count=0) if fate == "thin" else b
            for b, fate in zip(log[:-1], fates, strict=False)
            if fate != "drop" and b.last_offset >= start
        ] + log[-1:]
    return Crash(tuple(log), tuple(left), tuple(placements), ack, at + 1, tuple(records))


def _placements(records: list[int]) -> list[Placement]:
    breaks = [q for q in range(len(records)) if q == 0 or records[q] != records[q - 1] + 1]
    return [Placement(P, C, q, records[q]) for q in breaks]


def place(placements: list[Placement], q: int) -> int:
    newest = {p.q: p for p in placements}
    last = newest[max(n for n in newest if n <= q)]
    return last.target_offset + q - last.q


@settings(max_examples=500)
@given(crashes(cleaner=False))
def test_recover_untouched_log_is_exact(crash: Crash) -> None:
    result = crash.recover()
    assert (result.q, result.low, result.high, result.exact) == (*(len(crash.records),) * 3, True)
    placed = [*crash.placements, *result.placements]
    assert [place(placed, q) for q in range(result.q)] == list(crash.records)
    known = {(p.q, p.target_offset) for p in crash.placements}
    assert not known & {(p.q, p.target_offset) for p in result.placements}
    if crash.records:
        assert result.target_end == crash.records[-1] + 1
    reported = {o for f in result.foreign for o in range(f.target_offset, f.target_offset + f.count)}
    first = crash.ack.target_offset if crash.ack else 0
    truth = {
        o
        for b in crash.log
        if not b.control and (b.producer_id, b.epoch) != (9, 3)
        for o in range(b.base_offset, b.last_offset + 1)
    }
    assert reported == {o for o in truth if o >= first}


@settings(max_examples=700)
@given(crashes(cleaner=True))
def test_recover_cleaned_log_bounds_contain_the_truth(crash: Crash) -> None:
    result = crash.recover()
    kept = len(crash.records)
    assert result.low == result.q <= kept <= result.high
    assert result.exact == (result.low == result.high)
    # The bounds are no wider than what is left of the log makes them.
    seen = {o for b in crash.left for o in range(b.base_offset, b.last_offset + 1)}
    mine = [b for b in crash.left if (b.producer_id, b.epoch, b.control) == (9, 3, False)]
    after = max([b.last_offset + 1 for b in mine], default=0)
    due = place([*crash.placements, *result.placements], result.q)  # nothing of ours was placed below it
    first = max(after, due, crash.ack.target_offset if crash.ack else crash.placements[0].target_offset)
    assert result.high - result.low == sum(1 for o in range(first, crash.end) if o not in seen)
    # Every record of ours that can still be read is where the placements say.
    placed = [*crash.placements, *result.placements]
    for q in range(result.q):
        if crash.records[q] in {o for b in mine for o in range(b.base_offset, b.last_offset + 1)}:
            assert place(placed, q) == crash.records[q]
    # And those that are gone are placed between what is left of ours, in order.
    ends = [place(placed, q) for q in range(result.q)]
    assert ends == sorted(set(ends))


@settings(max_examples=500)
@given(crashes(cleaner=True), st.integers(1, 5), st.integers(0, 9))
def test_recover_map_never_skips_and_is_unknown_where_inexact(crash: Crash, gap: int, more: int) -> None:
    """Runs of `gap` records with a marker after each; the next claim continues and mirrors `more` records."""
    sources = [q + q // gap for q in range(len(crash.records) + 60)]
    journal: list[Entry] = [*crash.placements]
    journal += [Run(P, C, q, sources[q]) for q in range(0, len(sources), gap)]
    if crash.ack is not None:
        journal.append(crash.ack)
    result = crash.recover()
    journal += [*result.placements, Sealed(P, C, result.q, result.exact)]
    if not result.exact:
        journal.append(Unsure(P, C, result.low, result.high, 0))
    journal.append(Placement(P, NEXT, 0, crash.end))
    again = range(result.q, result.q + more)
    journal += [Run(P, NEXT, q - result.q, sources[q]) for q in again]
    offsets = PartitionMap()
    for entry in journal:
        offsets.apply(entry)
    offsets.ack(NEXT, more)
    pairs = [*zip(sources, crash.records, strict=False)] + [(sources[q], crash.end + q - result.q) for q in again]
    readable = {o for b in crash.left for o in range(b.base_offset, b.last_offset + 1)}
    for g in range(sources[result.high] + 3):
        answer = offsets.forward(g)
        unseen = [t for s, t in pairs if s >= g]
        # Where the answer is certain, only deleted records may lie before it.
        must = (
            unseen
            if answer.kind is TranslationKind.UNKNOWN or result.exact
            else [t for t in unseen if t in readable or t >= crash.end]
        )
        if answer.offset is not None and must:
            assert answer.offset <= min(must)
        could_be = result.low < result.high and sources[result.low] <= g <= sources[result.high - 1]
        if could_be:
            assert answer.kind is TranslationKind.UNKNOWN
        elif result.exact or g > sources[result.high - 1] or (result.low and g <= sources[result.low - 1]):
            assert answer.kind is not TranslationKind.UNKNOWN
        if answer.exact and answer.offset is not None:
            assert [s for s, t in pairs if t >= answer.offset and s < g and (t in readable or t >= crash.end)] == []


def known(log_end: int = 12, record: int | None = 10, claim: ClaimId | None = C) -> KnownEnd:
    """Ten records at target offsets 1 to 10, and the claimant's marker at 11."""
    return KnownEnd(log_end, record, claim, {C, ClaimId(9, 2)}.__contains__, {9})


@pytest.mark.parametrize(
    ("end", "tail"),
    [
        (12, [ours(6, 5, 5), control(11, epoch=4)]),
        (12, [control(11, epoch=4)]),  # the cleaner removed the batch
        (15, [ours(6, 5, 5), control(11, epoch=4), other(12, 3)]),  # a foreign writer behind it
        (15, [ours(6, 5, 5, count=2), control(11, epoch=4), control(12, epoch=5), control(13, epoch=6)]),
    ],
)
def test_check_end_whole_log_is_accepted(end: int, tail: list[TailBatch]) -> None:
    check_end(known(), end, tail)


@pytest.mark.parametrize(
    ("end", "tail", "why"),
    [
        (9, [], "3 offsets are lost"),
        (11, [ours(6, 4, 5), control(10, epoch=4)], "1 offsets are lost"),
        (14, [control(n, epoch=n) for n in range(10, 14)], "another batch"),  # markers filled the gap
        (14, [other(10, 4)], "another batch"),  # a foreign writer did
        (14, [TailBatch(10, 13, 4, 9, 2, 0, False)], "another batch"),  # a former claim of the lane's own records
        (14, [ours(6, 5, 5), control(11, epoch=5), TailBatch(12, 13, 2, 9, 4, 0, False)], "promised none"),
    ],
)
def test_check_end_log_or_journal_that_lost_records_is_refused(end: int, tail: list[TailBatch], why: str) -> None:
    with pytest.raises(RecoveryContradiction, match=why):
        check_end(known(), end, tail)


def test_check_end_folded_claim_is_any_of_the_lane() -> None:
    check_end(known(claim=None), 12, [ours(6, 5, 5)])
    with pytest.raises(RecoveryContradiction, match="another batch"):
        check_end(known(claim=None), 12, [other(6, 5)])
    with pytest.raises(RecoveryContradiction, match="promised none"):
        check_end(known(record=None, claim=None), 12, [TailBatch(3, 5, 3, 9, 4, 0, False)])
