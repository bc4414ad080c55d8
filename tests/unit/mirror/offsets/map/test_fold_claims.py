"""A folded journal gives the same map as the whole one, at any crash point and any state of compaction."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_histories import History, P, built, histories

from drlib.mirror.journal.entries import (
    Chunk,
    Claim,
    ClaimId,
    Covered,
    Entry,
    Expired,
    Folded,
    Incarnation,
    MirrorRefused,
    Placement,
    Remirrored,
    Run,
    Sealed,
    SourceEpoch,
    SourcePartition,
    Takeover,
    TopicNames,
    Unsure,
    decode,
)
from drlib.mirror.journal.leader_epochs import NEVER
from drlib.mirror.offsets.map import fold_claims
from drlib.mirror.offsets.map.fold_claims import FACTS_MS, ChunkEnds, about_topics, fold, unfold
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import Segment

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


def test_fold_takes_every_claim_but_the_newest_from_the_size_given_on() -> None:
    journal = many(4, 2)
    assert fold(journal, 13).entries == ()
    found = fold(journal, 12)
    assert set(found.forget) == {e.key() for e in journal if getattr(e, "claim", None) != ClaimId(7, 3)}
    assert found.entries[-1] == Folded(P, 1, (ClaimId(7, 2),))
    assert isinstance(found.entries[0], Chunk)
    assert found.entries[0].number == 0
    assert fold(many(2, 2), 4).entries[-1] == Folded(P, 1, (ClaimId(7, 0),))


def test_fold_numbers_chunks_on_from_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_claims, "SEGMENTS_PER_CHUNK", 1)
    first = fold(many(2, 2), 1)
    again = fold([*first.entries, *many(3, 2)], 1)
    for found, numbers in ((first, [0, 1]), (again, [2, 3])):
        assert [e.number for e in found.entries if isinstance(e, Chunk)] == numbers
    assert again.entries[-1] == Folded(P, 4, (ClaimId(7, 1),))


def test_unfold_ignores_chunks_without_their_folded_and_entries_with_it() -> None:
    other = ClaimId(8, 0)
    chunks = [Chunk(P, n, (Segment(n * 10, n * 10, 5),)) for n in range(2)]
    folded = Folded(P, 1, (ClaimId(7, 1), other))
    old = [Run(P, ClaimId(7, 0), 0, 0), Run(P, ClaimId(7, 1), 0, 5), Run(P, other, 0, 6)]
    new = [Run(P, ClaimId(7, 2), 0, 9), Run(P, ClaimId(8, 1), 0, 9), Run(P, ClaimId(9, 0), 0, 9)]
    assert unfold([*chunks, folded, *old, *new]) == [chunks[0], *new]
    assert unfold([*chunks, *old]) == old


def test_fold_needs_a_seal_of_every_old_claim_with_a_promise() -> None:
    sealed, newest = many(2, 2)[:4], ClaimId(7, 9)
    unsealed = [Placement(P, ClaimId(7, 1), 0, 9), Run(P, ClaimId(7, 1), 0, 9)]
    after = [Placement(P, newest, 0, 20), Run(P, newest, 0, 20)]
    assert fold([*sealed, *unsealed, *after], 1).entries == ()
    assert fold([*sealed, unsealed[0], *after], 1).entries != ()  # placed and never promised: nothing was sent
    assert fold([*sealed, *unsealed, Sealed(P, ClaimId(7, 1), 0, True), *after], 1).entries != ()


def test_fold_keeps_the_first_promise_where_nothing_else_says_where_mirroring_began() -> None:
    empty = [Placement(P, C, 0, 1), Run(P, C, 0, 10), Sealed(P, C, 0, True), Placement(P, ClaimId(7, 1), 0, 2)]
    assert fold(empty, 1).entries == ()
    for known in (Covered(P, 10), Takeover(P, 10, 1, -1, 0, 1, ())):
        assert fold([*empty, known], 1).entries == (Folded(P, 0, (C,)),)
    before = Folded(P, 1, (ClaimId(6, 0),))
    assert fold([Chunk(P, 0, (Segment(0, 0, 1),)), before, *empty], 1).entries == (Folded(P, 1, (ClaimId(6, 0), C)),)


def test_fold_leaves_small_and_unsure_journals() -> None:
    journal = many(4, 30)
    assert fold(journal, 1000).entries == ()
    assert fold([*journal, Unsure(P, C, 1, 2, 3)], 10).entries == ()
    assert fold(journal[:-1], 10).entries != ()  # the newest claim needs no seal
    assert isinstance(built(*unfold(journal)), PartitionMap)


def written(journal: list[Entry], *more: Entry, at_least: int) -> list[Entry]:
    """The compacted journal after `more` was appended and folded."""
    entries = [*journal, *more]
    found = fold(entries, at_least)
    newest = {e.key(): e for e in (*entries, *found.entries)}
    newest = {e.key(): e for e in (*entries, *found.entries) if newest[e.key()] is e}
    for key in found.forget:
        newest.pop(key, None)
    return list(newest.values())


def claim_of(epoch: int) -> Claim:
    return Claim(ClaimId(7, epoch), 0, epoch, "worker")


def test_fold_of_idle_partitions_is_bounded_however_many_claims_there_are() -> None:
    """Each partition's own entries are few: only their sum is large."""
    partitions = [SourcePartition(UUID(int=1), number) for number in range(50)]
    journal: list[Entry] = []
    sizes: list[int] = []
    for epoch in range(100):
        claim = ClaimId(7, epoch)
        journal = written(
            journal, claim_of(epoch), *(Placement(p, claim, 0, epoch + 1) for p in partitions), at_least=200
        )
        sizes.append(len(journal))
    needed = 50 + 1
    assert max(sizes) <= needed + 200 + 51
    assert min(sizes[5:]) >= needed
    for partition in partitions:
        offsets = built(*(e for e in unfold(journal) if getattr(e, "partition", None) == partition))
        assert (offsets.target_end, offsets.least_log_end) == (100, 100)


def test_fold_waits_until_as_much_is_superseded_as_stays() -> None:
    """Each claim of many partitions would else write as many tombstones as placements, for ever."""
    partitions = [SourcePartition(UUID(int=1), number) for number in range(50)]
    others = [Covered(SourcePartition(UUID(int=2), number), 5) for number in range(100)]
    old = [Placement(p, ClaimId(7, 0), 0, 1) for p in partitions]
    middle = [Placement(p, ClaimId(7, 1), 0, 2) for p in partitions]
    new = [Placement(p, ClaimId(7, 2), 0, 3) for p in partitions]
    assert fold([*others, *old, *middle], 10) == fold([*others, *old, *middle, *new], 10)
    some = fold([*others[:50], *old, *middle, *new], 10)
    assert set(some.forget) == {e.key() for e in (*old, *middle)}
    assert some.entries == ()


def test_fold_of_busy_partition_leaves_few_chunks_and_the_same_map() -> None:
    """A few gaps in each claim: a chunk for each would never be read as one."""
    live, journal = PartitionMap(), list[Entry]()
    most = source = target = 0
    for epoch in range(300):
        claim, runs = ClaimId(7, epoch), 1 + epoch % 3
        target += 1
        new: list[Entry] = [claim_of(epoch), Placement(P, claim, 0, target)]
        new += [Run(P, claim, n, source + 2 * n) for n in range(runs)]
        new += [Sealed(P, claim, runs, True), Covered(P, source + 2 * runs)]
        source, target = source + 2 * runs, target + runs
        for entry in new:
            live.apply(entry)
        journal = written(journal, *new, at_least=10)
        most = max(most, sum(isinstance(e, Chunk) for e in journal))
    assert most <= 8
    assert len(journal) < 40
    found = built(*unfold(journal))
    assert list(found.segments()) == list(live.segments())
    assert len(found.segments()) == 600


def test_unfold_of_merged_chunks_ignores_those_they_replace() -> None:
    """Killed before the tombstones: the replaced chunks are still there."""
    first, second = Segment(0, 0, 5), Segment(10, 6, 5)
    third, fourth = Segment(20, 12, 5), Segment(30, 18, 5)
    chunks = [
        Chunk(P, 0, (first,)),
        Chunk(P, 1, (second,)),
        Chunk(P, 2, (third,)),
        Chunk(P, 3, (second, third, fourth)),
    ]
    before, after = Folded(P, 3, (C,)), Folded(P, 4, (C,))
    assert list(built(*unfold([*chunks, before])).segments()) == [first, second, third]
    assert list(built(*unfold([*chunks, after])).segments()) == [first, second, third, fourth]
    assert unfold([*chunks, after]) == [chunks[0], chunks[3]]
    assert fold([*chunks, before], 1).forget == ()
    assert set(fold([*chunks, after], 1).forget) == {chunks[1].key(), chunks[2].key()}


def test_fold_keeps_the_newest_claim_of_each_producer_and_the_highest_generation() -> None:
    claims = [Claim(ClaimId(producer, epoch), producer - 7, 0, "w") for producer in (7, 8) for epoch in range(3)]
    found = fold(claims, 1)
    assert set(found.forget) == {claims[n].key() for n in (0, 1, 4)}  # 3 is the first of the highest generation
    assert fold([claims[2], claims[3], claims[5]], 1).forget == ()


def test_fold_keeps_the_leader_epoch_of_every_position_that_may_follow() -> None:
    epochs = [SourceEpoch(P, 4, 10), SourceEpoch(P, 5, 20), SourceEpoch(P, 6, 30), SourceEpoch(P, 7, NEVER)]
    assert fold(epochs, 1).forget == ()
    assert fold([*epochs, Covered(P, 20)], 1).forget == ()
    found = fold([*epochs, Covered(P, 21)], 1)
    assert found.forget == (epochs[0].key(),)  # the record before 21 has epoch 5
    assert found.entries == ()


def test_fold_leaves_a_partition_that_contradicts_itself() -> None:
    other = SourcePartition(UUID(int=2), 0)
    back = [Placement(other, C, 0, 9), Run(other, C, 0, 0), Placement(other, C, 5, 3), Sealed(other, C, 9, True)]
    found = fold([*many(2, 2), *back, Placement(other, ClaimId(7, 1), 0, 20)], 1)
    assert {e.partition for e in found.entries if isinstance(e, Chunk | Folded)} == {P}
    assert not {e.key() for e in back} & set(found.forget)


def test_about_topics_is_all_that_is_known_of_those_that_are_gone_names_last() -> None:
    old, new = UUID(int=1), UUID(int=2)
    here = SourcePartition(new, 0)
    names = [TopicNames(old, "t", "A.t", UUID(int=3)), TopicNames(new, "t", "A.t", UUID(int=4))]
    change = Incarnation("t", old, new, 0)
    own: list[Entry] = [
        Placement(P, C, 0, 1),
        Covered(P, 3),
        Chunk(P, 0, ()),
        SourceEpoch(P, 1, 2),
        MirrorRefused(P, "", 0),
    ]
    others: list[Entry] = [Covered(here, 3), Claim(C, 0, 0, "w"), Remirrored("A.t", UUID(int=4), 0)]
    journal = [*names, *own, change, *others]
    assert about_topics(journal, {old}, (), FACTS_MS + 1) == [*own, change, names[0]]
    assert about_topics(journal, {old}, (), FACTS_MS) == [*own, names[0]]  # status shows the change for a day
    assert about_topics(journal, {old}, {"t"}, FACTS_MS) == own
    assert about_topics(journal, {UUID(int=9)}, (), FACTS_MS) == []


def test_chunk_ends_give_each_expired_key_once() -> None:
    chunks = [Chunk(P, n, (Segment(n * 10, n * 12, 10),)) for n in range(4)]
    ends = ChunkEnds.of([*chunks, Covered(P, 9)], {chunks[0].key()})
    assert ends.take_covered([Expired(P, 0, 0, 29, 34, 30)]) == [chunks[1].key()]
    assert ends.take_covered([Expired(P, 0, 0, 30, 34, 30)]) == [chunks[2].key()]
    assert ends.take_covered([Expired(P, 0, 0, 40, 45, 30)]) == []
