"""Records below both log starts are dropped from map and journal: what is left is translated as before, in both directions."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_histories import History, P, built, histories

from drlib.mirror.journal.entries import (
    Ack,
    Chunk,
    ClaimId,
    Covered,
    Entry,
    Expired,
    Folded,
    Foreign,
    Parked,
    Placement,
    Run,
    Sealed,
    SourceLoss,
    SourceTruncated,
    Takeover,
    Unsure,
)
from drlib.mirror.offsets.map import fold_claims
from drlib.mirror.offsets.map.fold_claims import FACTS_MS, fold, unfold
from drlib.mirror.offsets.map.offset_map import MapContradiction, PartitionMap
from drlib.model import Segment, Translation, TranslationKind

C1, C2 = ClaimId(7, 0), ClaimId(7, 1)
LOST = TranslationKind.LOST


def check_equal(found: PartitionMap, whole: PartitionMap, h: History, source_start: int, target_start: int) -> None:
    """The two maps agree on all that lies at or behind one of the log starts; below both, on where to continue."""
    assert (found.position, found.covered) == (whole.position, whole.covered)
    assert (found.source_end, found.target_end) == (whole.source_end, whole.target_end)
    assert found.least_log_end == whole.least_log_end
    assert (found.newest_record or (None,))[0] == (whole.newest_record or (None,))[0]
    assert found.absent(source_start, h.source + 2) == whole.absent(source_start, h.source + 2)
    for g in range(h.source + 4):
        here = found.forward(g, target_log_start=target_start)
        there = whole.forward(g, target_log_start=target_start)
        assert (here.offset, here.kind) == (there.offset, there.kind), g
        assert here == there or (g < source_start and here.records >= there.records), g
    for t in range(h.target + 4):
        here = found.backward(t, source_log_start=source_start)
        there = whole.backward(t, source_log_start=source_start)
        assert (here.offset, here.kind) == (there.offset, there.kind), t
        assert here == there or (t < target_start and here.records >= there.records), t


@settings(max_examples=400)
@given(histories(), st.data())
def test_expired_records_change_no_translation_of_others_at_any_stage(h: History, data: st.DataObject) -> None:
    """Retention moves both log starts at every claim; a kill leaves any part of the tombstones unwritten."""
    journal, source_start, target_start = list(h.journal), 0, 0
    claims = list(dict.fromkeys(e.claim for e in journal if isinstance(e, Placement)))
    for claim in claims[1:]:
        begins = next(at for at, e in enumerate(journal) if isinstance(e, Placement) and e.claim == claim)
        past, since = journal[:begins], journal[begins:]
        source_start += data.draw(st.integers(0, 12))
        target_start += data.draw(st.integers(0, 12))
        expired = built(*unfold(past)).expired(P, source_start, target_start)
        past += [expired] if expired is not None else []
        found = fold(past, data.draw(st.integers(1, 4)), sys.maxsize)
        written = data.draw(st.integers(0, len(found.entries)))
        past += found.entries[:written]
        if written == len(found.entries):
            gone = found.forget[: data.draw(st.integers(0, len(found.forget)))]
            past = [e for e in past if e.key() not in gone]
        newest = {e.key(): at for at, e in enumerate(past)}
        journal = [e for at, e in enumerate(past) if newest[e.key()] == at] + since
        check_equal(built(*unfold(journal)), h.live, h, source_start, target_start)


@settings(max_examples=300)
@given(histories(), st.data())
def test_expired_of_a_live_map_and_of_one_that_follows_are_the_same(h: History, data: st.DataObject) -> None:
    """The lane drops while it copies; a follower has applied anything before that, or reads everything later."""
    source_start, target_start = data.draw(st.integers(0, h.source + 2)), data.draw(st.integers(0, h.target + 2))
    whole = built(*h.journal)
    expired = whole.expired(P, source_start, target_start)
    if expired is None:
        return
    for order in ([*h.journal, expired], [expired, *h.journal]):
        found = built(*order)
        check_equal(found, whole, h, source_start, target_start)
        gone = len(whole.segments()) - len(found.segments())
        assert list(found.segments()) == list(whole.segments())[gone:]
        assert gone > 0
        assert all(s.source_end <= source_start and s.target_end <= target_start for s in whole.segments()[:gone])
        again = found.expired(P, source_start, target_start)
        assert again is None


THREE = [
    Placement(P, C1, 0, 1),
    *(Run(P, C1, n * 10, n * 11) for n in range(3)),
    Ack(P, C1, 30, 31),
]  # source 0, 11 and 22 to target 1, 11 and 21, ten records each


def test_fold_after_one_that_did_not_end_keeps_the_chunk_that_replaces_its_own() -> None:
    """The chunk that is left of it has expired: its key is that of the first chunk of the next fold."""
    claims = [ClaimId(7, epoch) for epoch in range(3)]
    copied = [
        entry
        for n, claim in enumerate(claims)
        for entry in (Placement(P, claim, 0, 1 + 2 * n), Run(P, claim, 0, n), Sealed(P, claim, 1, True))
    ]
    unfinished = fold(copied[:6], 1, sys.maxsize).entries[:1]
    past = [*copied, *unfinished, Expired(P, 0, 1, 1, 2, 1)]
    found = fold(past, 1, sys.maxsize)
    left = {entry.key(): entry for entry in (*past, *found.entries)}
    journal = [entry for key, entry in left.items() if key not in found.forget]
    assert list(built(*unfold(journal)).segments()) == [Segment(1, 3, 1), Segment(2, 5, 1)]


def test_expired_positions_continue_at_its_end_with_a_bound_on_the_records() -> None:
    offsets = built(*THREE, Expired(P, 0, 1, 21, 21, 20))
    assert list(offsets.segments()) == [Segment(22, 21, 10)]
    assert offsets.forward(5) == Translation(21, LOST, 16, 16)
    assert offsets.forward(20) == Translation(21, LOST, 1, 1)
    assert offsets.forward(21) == Translation(21, TranslationKind.EXACT)
    assert offsets.forward(25) == Translation(24, TranslationKind.EXACT)
    assert offsets.forward(20, target_log_start=25) == Translation(25, LOST, 5, 5)
    assert offsets.backward(0) == Translation(0, TranslationKind.NEVER_MIRRORED)
    assert offsets.backward(1) == Translation(21, LOST, 20, 20)
    assert offsets.backward(20) == Translation(21, LOST, 1, 1)
    assert offsets.backward(21) == Translation(22, TranslationKind.EXACT)
    assert offsets.segments_on_target(0, 31) == 30
    assert offsets.segments_on_target(21, 31) == 10


def test_expired_losses_and_parks_do_not_count_and_those_at_its_end_do() -> None:
    expired = Expired(P, 0, 1, 21, 21, 20)
    for entries in ((expired, SourceLoss(P, 10, 21, 0)), (SourceLoss(P, 10, 21, 0), expired)):
        assert built(*THREE, *entries).absent(0, 32) == ()
    assert built(*THREE, expired, SourceLoss(P, 10, 22, 0)).absent(0, 32) == ((10, 22),)
    assert built(*THREE, expired, Parked(P, 20, "why", 0)).lost(0, 32) == 0
    assert built(*THREE, expired, Parked(P, 21, "why", 0)).lost(0, 32) == 1


@pytest.mark.parametrize(("copied_again", "doubt"), [(2, True), (4, True), (5, False), (6, False)])
def test_expired_doubtful_records_are_in_doubt_while_the_source_has_one_of_them(copied_again: int, doubt: bool) -> None:
    """C1 appended 10 records, or up to 15, at 1 to 19 of the target; C2 copied from the source's record 10 on."""
    source_end, target_end = 10 + copied_again, 20 + copied_again
    offsets = built(
        *(Placement(P, C1, 0, 1), Run(P, C1, 0, 0), Sealed(P, C1, 10, False), Unsure(P, C1, 10, 15, 0)),
        *(Placement(P, C2, 0, 20), Run(P, C2, 0, 10), Placement(P, C2, copied_again, 40), Sealed(P, C2, 12, True)),
    )
    assert offsets.doubtful == 9
    offsets.apply(Expired(P, 0, 1, source_end, target_end, source_end))  # and other records behind, up to 40
    assert bool(offsets.doubtful) is doubt
    assert offsets.backward(30) == Translation(source_end, TranslationKind.EXACT)
    for g in range(source_end, 15):  # whichever of them were there have expired
        assert offsets.forward(g, target_log_start=target_end) == Translation(target_end, LOST, 15 - g, 15 - g)
    for g in range(max(source_end, 15), 23):
        assert offsets.forward(g) == Translation(40 + g - source_end, TranslationKind.EXACT)


def test_expired_keeps_the_last_stretch_whatever_the_log_starts() -> None:
    offsets = built(*THREE)
    assert offsets.expired(P, 1000, 1000) == Expired(P, 0, 1, 21, 21, 20)
    assert offsets.expired(P, 1000, 1000, at_least=3) is None
    assert offsets.expired(P, 21, 20) == Expired(P, 0, 1, 10, 11, 10)  # the second one ends at 21 on both
    assert offsets.expired(P, 20, 21) == Expired(P, 0, 1, 10, 11, 10)
    assert offsets.expired(P, 21, 21) == Expired(P, 0, 1, 21, 21, 20)
    assert offsets.expired(P, 9, 1000) is None
    assert built(THREE[0]).expired(P, 1000, 1000) is None


def test_expired_counts_on_from_what_had_expired_before() -> None:
    offsets = built(*THREE, Expired(P, 0, 1, 10, 11, 10))
    assert offsets.expired(P, 1000, 1000) == Expired(P, 0, 1, 21, 21, 20)
    late = built(Expired(P, 0, 1, 10, 11, 10), *THREE)
    assert late.expired(P, 1000, 1000) == Expired(P, 0, 1, 21, 21, 20)
    assert late.segments_on_target(11, 31) == 20


def test_expired_is_not_looked_for_where_the_history_changed() -> None:
    assert built(*THREE, SourceTruncated(P, 25, 32, 0)).expired(P, 1000, 1000) is None


def test_expired_map_still_refuses_entries_that_go_back() -> None:
    expired = Expired(P, 0, 1, 21, 21, 20)
    for segment in (Segment(20, 21, 5), Segment(21, 20, 5)):
        with pytest.raises(MapContradiction):
            built(expired, Chunk(P, 0, (segment,)))
    assert built(expired).source_end == 21
    assert built(expired).position == 21


def test_fold_deletes_chunks_and_facts_that_expired() -> None:
    first, second, third = Segment(0, 1, 10), Segment(11, 11, 10), Segment(22, 21, 10)
    chunks = [Chunk(P, 0, (first,)), Chunk(P, 1, (second, third))]
    facts: list[Entry] = [SourceLoss(P, 10, 11, 0), Parked(P, 10, "why", 0), Foreign(P, 20, 1, 0)]
    later: list[Entry] = [SourceLoss(P, 32, 33, 0), Parked(P, 21, "why", 0), Foreign(P, 31, 1, 0)]
    other: list[Entry] = [SourceTruncated(P, 3, 9, 0), Takeover(P, 0, 1, -1, 0, 0, ())]
    journal = [*chunks, Folded(P, 2, (C1,)), *facts, *later, *other]
    assert fold(journal, 1, FACTS_MS + 1).forget == ()
    found = fold([*journal, Expired(P, 0, 1, 21, 21, 20)], 1, FACTS_MS + 1)
    assert set(found.forget) == {e.key() for e in (chunks[0], *facts)}
    assert found.entries == ()
    young = fold([*journal, Expired(P, 0, 1, 21, 21, 20)], 1, FACTS_MS)
    assert young.forget == (chunks[0].key(),)  # status shows facts for a day
    assert fold([*journal, Expired(P, 0, 1, 21, 21, 20)], 100, FACTS_MS).forget == (chunks[0].key(),)


def test_fold_merges_a_chunk_that_expired_in_part_as_a_whole() -> None:
    """Killed before the tombstones, the journal has both chunks: the new one must begin where the old one does."""
    before = [Chunk(P, 0, (Segment(0, 1, 10), Segment(11, 11, 10))), Folded(P, 1, (C1,))]
    more = [Placement(P, C2, 0, 30), Run(P, C2, 0, 22), Sealed(P, C2, 5, True), Placement(P, ClaimId(7, 2), 0, 40)]
    journal = [*before, *more, Expired(P, 0, 1, 10, 11, 10)]
    found = fold(journal, 1)
    assert list(built(*unfold([*journal, *found.entries])).segments()) == [Segment(11, 11, 10), Segment(22, 30, 5)]


def test_fold_waits_for_doubtful_records_only_until_they_expired() -> None:
    """C1 appended 10 or up to 15 records, then C2 went on; the claim after that folds."""
    journal: list[Entry] = [
        *(Placement(P, C1, 0, 1), Run(P, C1, 0, 0), Sealed(P, C1, 10, False), Unsure(P, C1, 10, 15, 0)),
        *(Placement(P, C2, 0, 20), Run(P, C2, 0, 10), Run(P, C2, 10, 30), Sealed(P, C2, 20, True)),
        *(Placement(P, ClaimId(7, 2), 0, 50), Covered(P, 40)),
    ]
    assert fold(journal, 1).forget == ()
    assert built(*journal).doubtful == 9  # target offsets 11 to 19
    begun = Expired(P, 0, 1, 10, 11, 10)
    assert fold([*journal, begun], 1).forget == ()  # the doubtful records follow
    over = Expired(P, 0, 1, 20, 30, 20)
    assert built(*journal, over).doubtful == 0
    found = fold([*journal, over], 1)
    assert {e.key() for e in journal[:8]} == set(found.forget)
    assert found.entries[0] == Chunk(P, 0, (Segment(30, 30, 10),))


def test_map_of_a_month_of_transactions_stays_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """500 commits a second, one in 40,000 of them simulated, kept for three days on the source and seven on the target."""
    per_day, claim_every, per_chunk = 1_080, 150, 100
    monkeypatch.setattr(fold_claims, "SEGMENTS_PER_CHUNK", per_chunk)
    live, journal = PartitionMap(), list[Entry]()
    source = target = commits = q = 0
    starts: list[tuple[int, int]] = []  # log ends by day
    most_stretches = most_keys = most_bytes = 0
    claim = ClaimId(7, 0)
    new: list[Entry] = []
    for day in range(31):
        for _ in range(per_day):
            if commits % claim_every == 0:
                if commits:
                    new.append(Sealed(P, claim, q, True))
                claim, q, target = ClaimId(7, claim.epoch + 1), 0, target + 1
                at = (starts[day - 3][0] if day >= 3 else 0, starts[day - 7][1] if day >= 7 else 0)
                expired = live.expired(P, *at, at_least=max(20, len(live.segments()) // 8))
                if expired is not None:
                    live.apply(expired)
                    new.append(expired)
                journal = compacted(journal, new)
                new = [Placement(P, claim, 0, target)]
                live.apply(new[0])
                most_stretches = max(most_stretches, len(live.segments()))
                most_keys = max(most_keys, len(journal))
                most_bytes = max(most_bytes, sum(len(e.key()) + len(e.value()) for e in journal))
            run = Run(P, claim, q, source)
            new.append(run)
            live.apply(run)
            q, commits, source, target = q + 3, commits + 1, source + 4, target + 3  # three records and a marker
            live.ack(claim, q)
        starts.append((source, target))
    assert commits == 31 * per_day
    # About seven days, and an eighth that waits.
    assert 6 * per_day <= most_stretches <= 8 * per_day * 8 // 7
    assert most_keys <= 8 * per_day * 8 // 7 // per_chunk + 2 * claim_every + 20
    assert most_bytes <= 8 * per_day * 8 // 7 * 4 + 2 * claim_every * 60
    followed = built(*unfold([*journal, *new]))
    followed.ack(claim, q)
    for g in range(starts[27][0], source, 101):
        assert followed.forward(g, target_log_start=starts[24][1]) == live.forward(g, target_log_start=starts[24][1])
    assert followed.segments()[-5000:] == live.segments()[-5000:]


def compacted(journal: list[Entry], new: list[Entry]) -> list[Entry]:
    """The journal after `new` was appended and a claim folded it."""
    entries = [*journal, *new]
    found = fold(entries, 50, sys.maxsize)
    last = {e.key(): at for at, e in enumerate([*entries, *found.entries])}
    gone = set(found.forget)
    return [e for at, e in enumerate([*entries, *found.entries]) if last[e.key()] == at and e.key() not in gone]
