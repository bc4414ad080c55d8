"""The ring of a partition's transactions: what is journaled again, when a slot is full, and after a pause."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.journal.entries import SourcePartition, Transactions, decode
from drlib.mirror.journal.transactions import (
    MOST_EVENTS,
    SLOT_EVENTS,
    SLOTS,
    TransactionEvent,
    TransactionRing,
    by_partition,
)

P = SourcePartition(UUID(int=1), 0)


def data(first: int, count: int = 1, *, producer: int = 1, epoch: int = 0) -> TransactionEvent:
    return TransactionEvent(producer, epoch, first, first + count, count)


def marker(first: int) -> TransactionEvent:
    return TransactionEvent(1, 1, first, first + 1, 0, 5)


def test_ring_without_news_journals_nothing() -> None:
    ring = TransactionRing()
    assert ring.take(P) == []
    ring.note(marker(4))
    assert ring.take(P) == [Transactions(P, 0, 0, (marker(4),))]
    assert ring.take(P) == []


def test_records_that_follow_each_other_are_one_event() -> None:
    ring = TransactionRing()
    for event in (data(0, 3), data(3, 2), data(5, producer=2), data(6), marker(7)):
        ring.note(event)
    (entry,) = ring.take(P)
    assert entry.events == (data(0, 5), data(5, producer=2), data(6), marker(7))


def test_entry_is_written_again_until_its_slot_is_full() -> None:
    ring = TransactionRing(number=SLOTS - 1)
    for at in range(SLOT_EVENTS):
        ring.note(marker(at))
        (entry,) = ring.take(P)
        assert (entry.slot, entry.number, len(entry.events)) == (SLOTS - 1, SLOTS - 1, at + 1)
    ring.note(marker(SLOT_EVENTS))
    assert ring.take(P) == [Transactions(P, 0, SLOTS, (marker(SLOT_EVENTS),))]


def test_one_response_may_fill_many_slots() -> None:
    ring, events = TransactionRing(), [marker(at) for at in range(2 * MOST_EVENTS + 3)]
    for event in events:
        ring.note(event)
    found = ring.take(P)
    assert [(entry.number, len(entry.events)) for entry in found] == [(0, MOST_EVENTS), (1, MOST_EVENTS), (2, 3)]
    assert [event for entry in found for event in entry.events] == events
    assert [decode(entry.key(), entry.value()) for entry in found] == found


def test_records_that_are_read_again_begin_a_slot() -> None:
    ring = TransactionRing()
    ring.note(data(5, 5))
    ring.take(P)
    ring.note(data(7, 3))
    assert ring.take(P) == [Transactions(P, 1, 1, (data(7, 3),))]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4), st.booleans()), max_size=300), st.integers(1, 9))
def test_whatever_is_noted_is_journaled_in_entries_that_can_be_read(
    steps: list[tuple[int, int, bool]], each: int
) -> None:
    ring, newest, noted = TransactionRing(), dict[int, Transactions](), set[int]()
    for number, (first, count, is_marker) in enumerate(steps):
        event = marker(first) if is_marker else data(first, count)
        ring.note(event)
        noted |= set(range(event.first, event.end))
        if number % each == 0 or number == len(steps) - 1:
            for entry in ring.take(P):
                assert decode(entry.key(), entry.value()) == entry
                newest[entry.number] = entry
    if len(newest) <= SLOTS and each == 1:
        assert {at for entry in newest.values() for e in entry.events for at in range(e.first, e.end)} == noted


def test_slots_of_each_partition_are_in_the_order_of_their_numbers() -> None:
    other = SourcePartition(UUID(int=2), 0)
    entries = [Transactions(P, 3, 67, ()), Transactions(P, 2, 66, ()), Transactions(other, 0, 0, ())]
    assert by_partition(entries) == {P: [entries[1], entries[0]], other: [entries[2]]}
