"""The ring of committed transactions: what is written again, and where a later worker continues."""

from __future__ import annotations

from drlib.mirror.journal.entries import CommittedTransactions, decode
from drlib.mirror.journal.transactions import PREPARED_EACH, PREPARED_SLOTS, TransactionCommitted
from drlib.mirror.transactions.recorder import CommittedRing


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
