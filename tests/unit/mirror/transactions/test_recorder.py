"""The ring of committed transactions: what is written again, and where a later worker continues."""

from __future__ import annotations

from drlib.mirror.journal.entries import CommittedTransactions, decode
from drlib.mirror.journal.transactions import PREPARED_EACH, PREPARED_SLOTS, TransactionCommitted
from drlib.mirror.transactions.recorder import CommitNumbers, CommittedRing


def one(number: int, offset: int) -> TransactionCommitted:
    return TransactionCommitted((number, offset), "app", 4, 1, 2, 900, (("orders", (0, 1)),))


def test_slot_is_written_again_until_it_is_full() -> None:
    ring = CommittedRing(())
    (first,) = ring.add([one(0, 1)])
    assert first == CommittedTransactions(0, 0, (one(0, 1),))
    many = [one(0, 2 + n) for n in range(PREPARED_EACH)]
    whole, begun = ring.add(many)
    assert (whole.number, whole.transactions) == (0, (one(0, 1), *many[:-1]))
    assert (begun.number, begun.transactions) == (1, (many[-1],))
    assert [decode(e.key(), e.value()) for e in (whole, begun)] == [whole, begun]
    assert ring.add([]) == []


def test_later_worker_continues_behind_what_is_journaled() -> None:
    entries = [
        CommittedTransactions(3, PREPARED_SLOTS + 3, (one(7, 20), one(2, 5))),
        CommittedTransactions(2, PREPARED_SLOTS + 2, (one(7, 12),)),
    ]
    ring = CommittedRing(entries)
    assert ring.positions == {7: 20, 2: 5}
    (entry,) = ring.add([one(7, 21)])
    assert (entry.slot, entry.number) == (4, PREPARED_SLOTS + 4)


def of(offset: int, *partitions: int, epoch: int = 0, version: int = 0) -> TransactionCommitted:
    return TransactionCommitted((0, offset), "app", 4, epoch, version, 900, (("orders", partitions),))


def test_transactions_are_numbered_from_where_their_producer_began() -> None:
    numbers = CommitNumbers(())
    assert numbers.numbered(of(1, 0)).nths == ()  # it began before
    numbers.begin(0, 4, 0)
    first, second = numbers.numbered(of(2, 0, 1)), numbers.numbered(of(3, 1))
    assert [(each.number, each.nths) for each in (first, second)] == [(1, (1, 1)), (2, (2,))]
    assert numbers.numbered(of(4, 1, epoch=1)).number == 0  # of an epoch that did not begin
    assert numbers.numbered(of(4, 1, version=2)).number == 0  # it needs none
    numbers.begin(0, 4, 1)
    assert numbers.numbered(of(5, 1, epoch=1)).nths == (1,)
    numbers.lost(1)
    assert numbers.numbered(of(6, 1, epoch=1)).nths == (2,)
    numbers.lost(0)
    assert numbers.numbered(of(7, 1, epoch=1)).nths == ()


def test_later_worker_numbers_on_from_the_journal() -> None:
    numbers = CommitNumbers(())
    numbers.begin(0, 4, 0)
    made = [numbers.numbered(of(n, *partitions)) for n, partitions in enumerate([(0,), (1,), (0, 1)])]
    assert CommitNumbers(made).numbered(of(9, 0, 1, 2)).nths == (3, 3, 1)
    # The oldest is no longer journaled: how many the other partition has is not known, and is not taken for none.
    assert CommitNumbers(made[1:2]).numbered(of(9, 0, 1, 2)) == of(9, 0, 1, 2)._replace(number=3, nths=(0, 2, 0))
    # One in between is missing: it may have had any partition.
    assert CommitNumbers([made[0], made[2]]).numbered(of(9, 0, 1, 2)).nths == (3, 3, 0)
