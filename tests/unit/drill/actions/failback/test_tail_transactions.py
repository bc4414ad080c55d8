"""Where groups return to that read the rest of a transaction at home, and what counts as recovered."""

from __future__ import annotations

import pytest

from drlib.drill.actions.failback.tail_transactions import before_left, left_on_source, tail_of
from drlib.drill.actions.failover.transactions import KeptTransactions
from drlib.drill.actions.groups.rules import BEFORE_TRANSACTION, PositionMove
from drlib.mirror.offsets.unreplicated.ledger import Progress
from drlib.mirror.offsets.unreplicated.rules import PartitionTail, Settle, Stretch
from drlib.mirror.transactions.rules import FoundTransaction, Part, State, Verdict
from drlib.mirror.transactions.tail import Tail
from drlib.model import TopicPartition, TranslationKind

ORDERS, PAYMENTS, PARCELS = (TopicPartition(name, 0) for name in ("orders", "payments", "parcels"))


def progress(at: int, **counts: int) -> Progress:
    return Progress(next=at, how=Settle.RECOVER, run="r/settle", **counts)


@pytest.mark.parametrize(
    ("settled", "expected"),
    [
        (None, Tail.LEFT),
        (progress(7), Tail.LEFT),
        (progress(9, recovered=2), Tail.RECOVERED),
        (progress(9, recovered=1, sent_again=1), Tail.RECOVERED),  # the producer's own copy is on the target
        (progress(9, quarantined=2), Tail.QUARANTINED),
        (progress(9, recovered=1, set_aside=1), Tail.QUARANTINED),
    ],
)
def test_tail_of_a_partition_is_recovered_where_all_of_it_was(settled: Progress | None, expected: Tail) -> None:
    assert tail_of(PartitionTail(PAYMENTS, (Stretch(5, 9),), 5, 9, records=2), settled) is expected


def partial(*parts: Part) -> FoundTransaction:
    return FoundTransaction(4, 0, "shop", Verdict.PARTIAL, parts)


def test_left_on_source_has_where_transactions_begin_whose_rest_was_left() -> None:
    whole = Part(ORDERS, State.WHOLE, 10, 13, 3, 3)
    later = Part(ORDERS, State.WHOLE, 20, 22, 2, 2)
    left, quarantined = Part(PAYMENTS, State.NONE, rest=Tail.LEFT), Part(PARCELS, State.NONE, rest=Tail.QUARANTINED)
    ends = {PAYMENTS: 9}
    assert left_on_source([partial(later, left), partial(whole, left)], ends) == KeptTransactions(
        (("orders", 0, 10),), rests=(("payments", 0, 9),)
    )
    assert left_on_source([partial(whole, quarantined)], ends) == KeptTransactions(), "no group reads it at home"


def move(group: str, partition: TopicPartition, offset: int | None) -> PositionMove:
    source = TopicPartition(f"LEFT.{partition.topic}", 0)
    return PositionMove(group, source, 50, partition, offset, TranslationKind.EXACT, 0, 0)


def test_before_left_places_groups_that_have_not_read_the_rest_and_no_others() -> None:
    kept = KeptTransactions((("orders", 0, 10),), ("sums",), (("payments", 0, 9),))
    behind = move("billing", ORDERS, 15), move("billing", PAYMENTS, 8)
    others = (
        *(move("audit", ORDERS, 15), move("audit", PAYMENTS, 9)),  # it had read the rest there
        move("orders-only", ORDERS, 15),
        *(move("sums", ORDERS, 15), move("sums", PAYMENTS, 8)),  # its positions belong to its state
        *(move("stays", ORDERS, 15), move("stays", PAYMENTS, None)),
    )
    placed, rest, *unchanged = before_left((*behind, *others), kept)
    assert (placed.offset, placed.records, placed.kind, placed.why) == (
        10,
        5,
        TranslationKind.BOUNDED,
        BEFORE_TRANSACTION,
    )
    assert (rest, *unchanged) == (behind[1], *others)
