"""The oldest stretches of a map are thinned out: newer positions are translated as before, older ones within bounds."""

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
    Thinned,
    Unsure,
)
from drlib.mirror.offsets.map import fold_claims
from drlib.mirror.offsets.map.fold_claims import FACTS_MS, fold, unfold
from drlib.mirror.offsets.map.offset_map import MapContradiction, PartitionMap
from drlib.model import Segment, Translation, TranslationKind

C1, C2 = ClaimId(7, 0), ClaimId(7, 1)
EXACT, BOUNDED, LOST = TranslationKind.EXACT, TranslationKind.BOUNDED, TranslationKind.LOST


def check_safe(
    found: PartitionMap, whole: PartitionMap, h: History, source_start: int = 0, target_start: int = 0
) -> None:
    """Both maps agree on what is not a position; positions skip nothing, repeat what is said, and are equal where exact."""
    assert (found.position, found.covered) == (whole.position, whole.covered)
    assert (found.source_end, found.target_end) == (whole.source_end, whole.target_end)
    assert (found.newest_record or (None,))[0] == (whole.newest_record or (None,))[0]
    assert found.absent(source_start, h.source + 2) == whole.absent(source_start, h.source + 2)
    for first in range(source_start, h.source + 2):
        assert found.lost(first, h.source + 2) == whole.lost(first, h.source + 2)
    for t in range(target_start, h.target + 2):
        assert found.segments_on_target(t, h.target + 2) >= whole.segments_on_target(t, h.target + 2)
    to_target = [(s, t) for s, t in h.pairs]
    for g in range(source_start, h.source + 4):
        here = found.forward(g, target_log_start=target_start)
        there = whole.forward(g, target_log_start=target_start)
        check_translation(here, there, g, to_target, target_start)
    to_source = [(t, s) for s, t in h.pairs]
    for t in range(target_start, h.target + 4):
        here = found.backward(t, source_log_start=source_start)
        there = whole.backward(t, source_log_start=source_start)
        check_translation(here, there, t, to_source, source_start)


def check_translation(
    here: Translation, there: Translation, position: int, pairs: list[tuple[int, int]], log_start: int
) -> None:
    if here == there:
        return
    if here.kind is there.kind is LOST and here.offset == there.offset:
        assert here.records >= there.records
        return
    assert here.kind is BOUNDED, (here, there, position)
    assert here.offset is not None
    assert there.offset is not None
    unread = [other for offset, other in pairs if offset >= position and other >= log_start]
    assert here.offset <= min(unread, default=there.offset), (here, there, position)
    again = [other for _, other in pairs if here.offset <= other < there.offset]
    assert len(again) <= here.records, (here, there, position)


@settings(max_examples=400, deadline=None)
@given(histories(), st.data())
def test_thinned_map_skips_nothing_and_knows_how_much_is_repeated(h: History, data: st.DataObject) -> None:
    """Thinned once or again, before the journal is read and after it, with records that expired before."""
    whole = built(*h.journal)
    source_start, target_start = data.draw(st.integers(0, h.source)), data.draw(st.integers(0, h.target))
    expired = whole.expired(P, source_start, target_start) if data.draw(st.booleans()) else None
    if expired is None:
        source_start = target_start = 0
    live = built(*h.journal, *([expired] if expired is not None else []))
    kept = data.draw(st.integers(1, 6))
    written: list[Entry] = [expired] if expired is not None else []
    for keep in (kept, data.draw(st.integers(1, kept))):
        thinned = live.thinned(P, keep, data.draw(st.integers(1, 4)))
        if thinned is None:
            continue
        live.apply(thinned)
        written = [e for e in written if not isinstance(e, Thinned)] + [thinned]
        assert len(live.segments()) <= keep
        for found in (live, built(*written, *h.journal), built(*h.journal, *written)):
            check_safe(found, whole, h, source_start, target_start)
            for g in range(thinned.source_end, h.source + 4):
                assert found.forward(g, target_log_start=target_start) == whole.forward(
                    g, target_log_start=target_start
                )
            assert list(found.segments()) == list(whole.segments())[-len(found.segments()) :]


@settings(max_examples=400, deadline=None)
@given(histories(), st.data())
def test_thinned_journal_is_folded_at_any_stage_to_a_safe_map(h: History, data: st.DataObject) -> None:
    """Each claim thins out, drops and folds; a kill leaves any part of what it writes and deletes undone."""
    journal = list(h.journal)
    source_start = target_start = 0
    claims = list(dict.fromkeys(e.claim for e in journal if isinstance(e, Placement)))
    for claim in claims[1:]:
        begins = next(at for at, e in enumerate(journal) if isinstance(e, Placement) and e.claim == claim)
        past, since = journal[:begins], journal[begins:]
        offsets = built(*unfold(past))
        if data.draw(st.booleans()):
            starts = source_start + data.draw(st.integers(0, 12)), target_start + data.draw(st.integers(0, 12))
            if (expired := offsets.expired(P, *starts)) is not None:
                source_start, target_start = starts
                past.append(expired)
                offsets.apply(expired)
        thinned = offsets.thinned(P, data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)))
        past += [thinned] if thinned is not None else []
        found = fold(past, data.draw(st.integers(1, 4)), FACTS_MS)
        written = data.draw(st.integers(0, len(found.entries)))
        past += found.entries[:written]
        if written == len(found.entries):
            gone = found.forget[: data.draw(st.integers(0, len(found.forget)))]
            past = [e for e in past if e.key() not in gone]
        newest = {e.key(): at for at, e in enumerate(past)}
        journal = [e for at, e in enumerate(past) if newest[e.key()] == at] + since
        check_safe(built(*unfold(journal)), h.live, h, source_start, target_start)


FOUR = [
    Placement(P, C1, 0, 1),
    *(Run(P, C1, n * 10, n * 11) for n in range(4)),
    Ack(P, C1, 40, 41),
]  # source 0, 11, 22 and 33 to target 1, 11, 21 and 31, ten records each
THINNED = Thinned(P, 32, 31, 30, (Segment(0, 1, 20), Segment(22, 21, 10)))


def test_thinned_keeps_beginnings_at_equal_distances_and_the_newest_stretches() -> None:
    offsets = built(*FOUR)
    assert offsets.thinned(P, 1, 2) == THINNED
    assert offsets.thinned(P, 0, 2) == THINNED  # the last stretch always stays
    assert offsets.thinned(P, 1, 1) == Thinned(P, 32, 31, 30, (Segment(0, 1, 30),))
    assert offsets.thinned(P, 2, 1) == Thinned(P, 21, 21, 20, (Segment(0, 1, 20),))
    assert offsets.thinned(P, 1, 3) is None
    assert offsets.thinned(P, 4, 1) is None
    assert PartitionMap().thinned(P, 1, 1) is None


def test_thinned_positions_continue_at_the_last_known_beginning() -> None:
    offsets = built(*FOUR, THINNED)
    assert list(offsets.segments()) == [Segment(33, 31, 10)]
    assert offsets.forward(0) == Translation(1, EXACT)
    assert offsets.forward(1) == Translation(1, BOUNDED, 1)
    assert offsets.forward(21) == Translation(1, BOUNDED, 20)
    assert offsets.forward(22) == Translation(21, EXACT)
    assert offsets.forward(31) == Translation(30, EXACT)  # the part has no gap on either side
    assert offsets.forward(32) == Translation(31, EXACT)
    assert offsets.forward(40) == Translation(38, EXACT)
    assert offsets.backward(0) == Translation(0, TranslationKind.NEVER_MIRRORED)
    assert offsets.backward(1) == Translation(0, EXACT)
    assert offsets.backward(20) == Translation(0, BOUNDED, 19)
    assert offsets.backward(21) == Translation(22, EXACT)
    assert offsets.backward(31) == Translation(33, EXACT)
    assert offsets.segments_on_target(0, 41) == 40
    assert offsets.segments_on_target(21, 31) == 10


def test_thinned_again_counts_and_keeps_what_was_known() -> None:
    offsets = built(*FOUR, Run(P, C1, 40, 50), Run(P, C1, 45, 60), Ack(P, C1, 50, 51), THINNED)
    again = offsets.thinned(P, 1, 2)
    assert again == Thinned(P, 55, 46, 45, (Segment(0, 1, 30), Segment(33, 31, 15)))
    offsets.apply(again)
    assert offsets.forward(33) == Translation(31, EXACT)
    assert offsets.forward(55) == Translation(46, EXACT)
    assert offsets.segments_on_target(0, 100) == 50


def test_thinned_begins_with_what_follows_a_loss_and_says_so() -> None:
    lossy = [*FOUR[:2], SourceLoss(P, 10, 11, 0), *FOUR[2:4], Parked(P, 32, "why", 0), *FOUR[4:]]
    offsets = built(*lossy, Placement(P, C2, 0, 60), Run(P, C2, 0, 70), Ack(P, C2, 5, 65))
    thinned = offsets.thinned(P, 1, 1)
    assert thinned == Thinned(P, 43, 41, 40, (Segment(0, 1, 10), Segment(11, 11, 20), Segment(33, 31, 10)))
    for found in (built(*offsets_journal(lossy), thinned), built(thinned, *offsets_journal(lossy))):
        assert found.forward(10) == Translation(11, LOST, 1)
        assert found.forward(32) == Translation(31, LOST, 1)
        assert found.forward(31) == Translation(11, BOUNDED, 20)
        assert found.absent(0, 75) == offsets.absent(0, 75)
        assert found.lost(0, 75) == offsets.lost(0, 75) == 2


def offsets_journal(lossy: list[Entry]) -> list[Entry]:
    return [*lossy, Placement(P, C2, 0, 60), Run(P, C2, 0, 70), Ack(P, C2, 5, 65)]


def test_thinned_is_not_written_where_records_are_in_doubt_or_the_history_changed() -> None:
    assert built(*FOUR, SourceTruncated(P, 35, 43, 0)).thinned(P, 1, 1) is None
    doubtful = [Sealed(P, C1, 40, False), Run(P, C1, 40, 44), Unsure(P, C1, 40, 45, 0)]
    assert built(*FOUR, *doubtful).thinned(P, 1, 1) is None


def test_expired_behind_what_was_thinned_replaces_it() -> None:
    offsets = built(*FOUR, THINNED, Run(P, C1, 40, 50), Ack(P, C1, 50, 51))
    assert offsets.expired(P, 32, 31) is None  # in the middle of it nothing is dropped
    expired = offsets.expired(P, 43, 41)
    assert expired == Expired(P, 0, 1, 43, 41, 40)
    offsets.apply(expired)
    assert offsets.forward(5) == Translation(41, LOST, 38, 38)
    assert offsets.segments_on_target(0, 100) == 50
    for late in (built(*FOUR, expired, THINNED), built(THINNED, *FOUR, expired)):
        assert late.segments().thinned is None
    journal = [Chunk(P, 0, offsets.segments()[:]), Folded(P, 1, (C1,)), THINNED, expired]
    assert fold(journal, 1, FACTS_MS).forget == (THINNED.key(),)


def test_thinned_map_still_refuses_entries_that_go_back() -> None:
    for segment in (Segment(31, 31, 5), Segment(32, 30, 5)):
        with pytest.raises(MapContradiction):
            built(THINNED, Chunk(P, 0, (segment,)))
    assert built(THINNED).source_end == 32
    assert built(THINNED).target_end == 31
    assert built(THINNED).position == 32


def test_fold_deletes_chunks_that_were_thinned_out_and_keeps_facts() -> None:
    chunks = [
        Chunk(P, 0, (Segment(0, 1, 10), Segment(11, 11, 10))),
        Chunk(P, 1, (Segment(22, 21, 10), Segment(33, 31, 10))),
    ]
    facts: list[Entry] = [SourceLoss(P, 10, 11, 0), Foreign(P, 20, 1, 0)]
    found = fold([*chunks, Folded(P, 2, (C1,)), *facts, THINNED], 1, sys.maxsize)
    assert (found.entries, found.forget) == ((), (chunks[0].key(),))


def test_map_of_a_compacted_topic_with_transactions_stays_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log start never moves, and each commit begins a stretch."""
    most, parts, per_chunk, claim_every = 4_000, 40, 100, 150
    monkeypatch.setattr(fold_claims, "SEGMENTS_PER_CHUNK", per_chunk)
    live, journal, new = PartitionMap(), list[Entry](), list[Entry]()
    source = target = q = 0
    claim = C1
    most_keys = most_bytes = 0
    for commits in range(20_000):
        if commits % claim_every == 0:
            if commits:
                new.append(Sealed(P, claim, q, True))
            claim, q, target = ClaimId(7, claim.epoch + 1), 0, target + 1
            if len(live.segments()) > most:
                thinned = live.thinned(P, most // 2, parts)
                assert thinned is not None
                live.apply(thinned)
                new.append(thinned)
            entries = [*journal, *new]
            found = fold(entries, 50, sys.maxsize)
            entries += found.entries
            newest = {e.key(): at for at, e in enumerate(entries)}
            journal = [e for at, e in enumerate(entries) if newest[e.key()] == at and e.key() not in set(found.forget)]
            new = [Placement(P, claim, 0, target)]
            live.apply(new[0])
            most_keys = max(most_keys, len(journal))
            most_bytes = max(most_bytes, sum(len(e.key()) + len(e.value()) for e in journal))
        run = Run(P, claim, q, source)
        new.append(run)
        live.apply(run)
        q, source, target = q + 3, source + 4, target + 3  # three records and a marker
        live.ack(claim, q)
    assert len(live.segments()) <= most + claim_every
    assert most_keys <= most // per_chunk + 2 * claim_every + 30
    assert most_bytes <= 4 * most + 2 * claim_every * 60 + parts * 16
    followed = built(*unfold([*journal, *new]))
    followed.ack(claim, q)
    for g in range(0, source, 101):
        assert followed.forward(g) == live.forward(g)
        assert live.forward(g).kind in (EXACT, BOUNDED)
    assert live.forward(source - 4 * most // 2).exact
