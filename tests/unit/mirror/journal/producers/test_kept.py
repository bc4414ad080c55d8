"""Which producers are kept of a lane's partitions, and what of them is journaled when."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.journal.entries import Producers, SourcePartition, decode
from drlib.mirror.journal.producers.kept import EXPIRE_MS, KeptProducers, SeenProducer
from drlib.mirror.journal.producers.kinds import RENEW_MS, SLOT_PRODUCERS, KeptProducer

P = SourcePartition(UUID(int=1), 0)
Q = SourcePartition(UUID(int=1), 1)
NOW = 1_800_000_000_000


def seen(at_ms: int = NOW, *, epoch: int = 0) -> SeenProducer:
    return SeenProducer(epoch, at_ms, transactional=False)


class Journal:
    """What a compacted journal holds of the producers."""

    def __init__(self) -> None:
        self.entries: dict[bytes, Producers] = {}
        self.written = 0

    def write(self, kept: KeptProducers) -> None:
        for entry in kept.take():
            self.written += 1
            back = decode(entry.key(), entry.value())
            assert isinstance(back, Producers)
            self.entries[entry.key()] = back

    def producers(self, key: SourcePartition = P) -> dict[int, KeptProducer]:
        rows = [each for entry in self.entries.values() if entry.partition == key for each in entry.producers]
        found = {each.producer_id: each for each in rows}
        assert len(found) == len(rows), "one is in two slots"
        return found


def test_producer_is_journaled_once_and_again_with_another_epoch_or_much_later() -> None:
    kept, journal = KeptProducers(()), Journal()
    kept.note(P, {7: seen()})
    journal.write(kept)
    kept.note(P, {7: seen(NOW + RENEW_MS - 1)})
    journal.write(kept)
    assert (journal.written, journal.producers()[7].last_ms) == (1, NOW)
    kept.note(P, {7: seen(NOW + RENEW_MS)})
    journal.write(kept)
    assert (journal.written, journal.producers()[7].last_ms) == (2, NOW + RENEW_MS)
    kept.note(P, {7: seen(NOW + RENEW_MS, epoch=1)})
    journal.write(kept)
    assert (journal.written, journal.producers()[7].epoch) == (3, 1)


def test_what_is_copied_later_than_its_leader_named_it_changes_nothing() -> None:
    kept, journal = KeptProducers(()), Journal()
    kept.replace(P, [KeptProducer(7, 3, NOW, True, "app")])
    kept.note(P, {7: seen(NOW + 1, epoch=2)})
    journal.write(kept)
    assert journal.producers() == {7: KeptProducer(7, 3, NOW, True, "app")}
    kept.note(P, {7: SeenProducer(4, NOW + 2, transactional=True)})
    journal.write(kept)
    assert journal.producers() == {7: KeptProducer(7, 4, NOW + 2, True, "app")}


def test_those_that_a_leader_names_no_longer_are_forgotten_and_their_slot_is_used_again() -> None:
    kept, journal = KeptProducers(()), Journal()
    kept.note(P, {n: seen() for n in range(SLOT_PRODUCERS + 1)})
    kept.note(Q, {3: seen()})
    journal.write(kept)
    assert len(journal.entries) == 3
    kept.replace(P, [KeptProducer(SLOT_PRODUCERS, 0, NOW)])
    kept.note(P, {500: seen()})
    journal.write(kept)
    assert set(journal.producers()) == {SLOT_PRODUCERS, 500}
    assert set(journal.producers(Q)) == {3}
    assert (len(journal.entries), len(kept)) == (3, 3), "the first slot has room again"


def test_where_leaders_cannot_be_asked_a_producer_expires_a_day_after_its_last_record() -> None:
    kept, journal = KeptProducers(()), Journal()
    kept.note(P, {1: seen(NOW - EXPIRE_MS), 2: seen(NOW - EXPIRE_MS + 1)})
    kept.note(Q, {3: seen(NOW - EXPIRE_MS)})
    journal.write(kept)
    kept.expire(NOW, {Q})
    journal.write(kept)
    assert (set(journal.producers()), set(journal.producers(Q))) == ({2}, {3})


def test_producer_without_a_time_is_kept_as_one_that_has_none() -> None:
    kept, journal = KeptProducers(()), Journal()
    kept.note(P, {7: seen(-1)})
    journal.write(kept)
    assert (journal.producers(), kept.left_out) == ({7: KeptProducer(7, 0, 0)}, 0)


def test_those_beyond_the_limit_are_counted_and_the_newest_are_kept() -> None:
    kept = KeptProducers((), most=3)
    kept.note(P, {n: seen() for n in range(4)})
    kept.note(P, {3: seen()})
    assert (len(kept), kept.left_out) == (3, 1)
    kept.replace(Q, [KeptProducer(9, 0, NOW)])
    assert kept.left_out == 2
    kept.replace(P, [KeptProducer(n, 0, NOW + n) for n in (10, 11, 12, 13)])
    journal = Journal()
    journal.write(kept)
    assert (set(journal.producers()), kept.left_out) == ({11, 12, 13}, 2)
    kept.replace(P, [])
    kept.replace(Q, [KeptProducer(9, 0, NOW)])
    assert (len(kept), kept.left_out) == (1, 0)


def test_next_claim_continues_with_the_journal_and_with_what_was_not_journaled() -> None:
    kept, journal = KeptProducers(()), Journal()
    kept.note(P, {n: seen() for n in range(100)})
    journal.write(kept)
    kept.note(P, {100: seen()})
    kept.note(Q, {7: seen(epoch=2)})
    kept.take()  # the claim ended before these were acknowledged
    again = KeptProducers(journal.entries.values())
    assert again.take() == []
    again.adopt(kept)
    before = journal.written
    journal.write(again)
    assert journal.written == before + 2
    assert (set(journal.producers()), journal.producers(Q)[7].epoch) == (set(range(101)), 2)


ids = st.integers(0, 300)
steps = st.lists(
    st.tuples(st.sampled_from(["note", "replace", "claim"]), st.dictionaries(ids, st.integers(0, 3), max_size=150)),
    max_size=12,
)


@given(steps)
def test_journal_has_exactly_what_is_kept_after_any_steps(steps: list[tuple[str, dict[int, int]]]) -> None:
    kept, journal, epochs = KeptProducers(()), Journal(), dict[int, int]()
    for at, (what, producers) in enumerate(steps):
        if what == "note":
            kept.note(P, {each: seen(NOW + at, epoch=epoch) for each, epoch in producers.items()})
            epochs |= {each: max(epoch, epochs.get(each, 0)) for each, epoch in producers.items()}
        elif what == "replace":
            kept.replace(P, [KeptProducer(each, epoch, NOW + at) for each, epoch in producers.items()])
            epochs = dict(producers)
        journal.write(kept)
        if what == "claim":
            kept = KeptProducers(journal.entries.values())
        assert {each: found.epoch for each, found in journal.producers().items()} == epochs
        assert len(kept) == len(epochs)
    assert len(journal.entries) <= 300 // SLOT_PRODUCERS + 2
