"""A folded journal gives the same map as the whole one, at any crash point and any state of compaction."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from map_histories import History, P, built, histories

from drlib.mirror.journal.entries import Chunk, ClaimId, Entry, Folded, Placement, Run, Sealed, Takeover, Unsure, decode
from drlib.mirror.offsets.map.fold_claims import fold, unfold
from drlib.mirror.offsets.map.offset_map import PartitionMap

C = ClaimId(7, 0)


def checked_equal(h: History, journal: list[Entry]) -> None:
    found = built(*unfold([decode(e.key(), e.value()) for e in journal]))
    assert list(found.segments()) == list(h.live.segments())
    assert (found.position, found.covered) == (h.live.position, h.live.covered)
    for g in range(h.source + 4):
        assert found.forward(g) == h.live.forward(g)
    for t in range(h.target + 4):
        assert found.backward(t) == h.live.backward(t)


@settings(max_examples=300)
@given(histories(), st.data())
def test_fold_at_any_stage_gives_the_same_map(h: History, data: st.DataObject) -> None:
    journal = list(h.journal)
    claims = list(dict.fromkeys(e.claim for e in journal if isinstance(e, Placement)))
    # The journal as it was when each claim began: folded then, and everything after is as ever.
    for claim in claims[1:]:
        begins = next(at for at, e in enumerate(journal) if isinstance(e, Placement) and e.claim == claim)
        past, since = journal[:begins], journal[begins:]
        found = fold(past, data.draw(st.integers(1, 4)))
        written = data.draw(st.integers(0, len(found.entries)))
        past += found.entries[:written]
        if written == len(found.entries):
            gone = found.forget[: data.draw(st.integers(0, len(found.forget)))]
            past = [e for e in past if e.key() not in gone]
        newest = {e.key(): at for at, e in enumerate(past)}
        journal = [e for at, e in enumerate(past) if newest[e.key()] == at] + since
        checked_equal(h, journal)


def many(claims: int, runs: int) -> list[Entry]:
    journal: list[Entry] = []
    target = 0
    for epoch in range(claims):
        claim = ClaimId(C.producer_id, epoch)
        target += 1
        journal.append(Placement(P, claim, 0, target))
        journal += [Run(P, claim, n, (epoch * runs + n) * 2) for n in range(runs)]
        journal.append(Sealed(P, claim, runs, True))
        target += runs
    return journal


def test_fold_puts_all_but_the_newest_claim_in_chunks() -> None:
    journal = many(4, 3000)
    found = fold(journal, 1000)
    assert [type(e) for e in found.entries] == [Chunk] * 5 + [Folded]
    assert len(found.forget) == 3 * 3002
    assert sum(len(e.value()) for e in found.entries) < 40_000
    kept = [e for e in journal if e.key() not in set(found.forget)] + list(found.entries)
    assert list(built(*unfold(kept)).segments()) == list(built(*journal).segments())
    assert fold(kept, 1000).entries == ()
    more = many(5, 3000)[len(journal) :]
    again = fold([*kept, *more], 1000)
    assert [e.number for e in again.entries if isinstance(e, Chunk)] == [5, 6]
    gone = set(again.forget)
    final = [e for e in [*kept, *more, *again.entries] if e.key() not in gone]
    assert list(built(*unfold(final)).segments()) == list(built(*journal, *more).segments())


def test_unfold_puts_takeovers_before_chunks() -> None:
    journal = [Takeover(P, 0, 5, -1, 0, 1, ((0, 0), (3, 4))), *many(3, 30)]
    found = fold(journal, 10)
    gone = set(found.forget)
    kept = [*found.entries, *(e for e in journal if e.key() not in gone)]  # however far compaction moved them
    assert isinstance(unfold(kept)[0], Takeover)
    whole, folded = built(*journal), built(*unfold(kept))
    assert list(folded.segments()) == list(whole.segments())
    assert [folded.forward(g) for g in range(200)] == [whole.forward(g) for g in range(200)]
    assert [folded.backward(t) for t in range(110)] == [whole.backward(t) for t in range(110)]


def test_fold_leaves_small_and_unsure_journals() -> None:
    journal = many(4, 30)
    assert fold(journal, 1000).entries == ()
    assert fold([*journal, Unsure(P, C, 1, 2, 3)], 10).entries == ()
    assert fold(journal[:-1], 10).entries != ()  # the newest claim needs no seal
    assert isinstance(built(*unfold(journal)), PartitionMap)
