"""The ring of committed transactions: what is written again, and where a later worker continues."""

from __future__ import annotations

from drlib.mirror.journal.entries import CommittedTransactions, decode
from drlib.mirror.journal.transactions import PREPARED_EACH, PREPARED_SLOTS, TransactionCommitted
from drlib.mirror.transactions.recorder import EARLIER, CommitNumbers, CommittedRing
from drlib.mirror.transactions.transaction_state import ProducerState


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
    ring.follow(7, 3, 30, is_new=False)
    assert ring.positions == {7: 3}  # from there it counts
    assert ring.decided(7, 19, one(7, 20)) is None
    assert ring.decided(7, 20, one(7, 21)) == one(7, 21)
    (entry,) = ring.add([one(7, 21)])
    assert (entry.slot, entry.number) == (4, PREPARED_SLOTS + 4)


def test_following_begins_a_bounded_distance_before_the_end() -> None:
    ring = CommittedRing(())
    ring.follow(0, 100, 100 + 2 * EARLIER, is_new=False)
    ring.follow(1, 100, 300, is_new=False)
    ring.follow(2, 0, 50, is_new=True)
    assert ring.positions == {0: 100 + EARLIER, 1: 100, 2: 0}
    assert ring.decided(1, 299, one(1, 300)) == one(1, 300)._replace(early=True)
    assert ring.decided(1, 300, one(1, 301)) == one(1, 301)
    assert ring.decided(2, 0, one(2, 1)) == one(2, 1)  # no worker was there before the topic
    ring.positions[1] = 301
    ring.follow(1, 100, 400, is_new=False)
    assert ring.positions[1] == 301


def test_transaction_that_is_open_where_following_begins_is_early() -> None:
    ring = CommittedRing(())
    ring.follow(0, 0, 50, is_new=False)
    for offset, producer in ((48, 4), (49, 5), (51, 4), (52, 6)):
        ring.other_state(0, offset, ProducerState(producer, 1, began=False, is_open=True))
    decided = [
        ring.decided(0, 53 + n, one(0, 54 + n)._replace(producer_id=producer)) for n, producer in enumerate((4, 5, 6))
    ]
    assert [each.early for each in decided if each is not None] == [True, True, False]
    for offset, state_of in (
        (56, ProducerState(4, 1, began=False)),
        (57, ProducerState(4, 1, began=False, is_open=True)),
    ):
        ring.other_state(0, offset, state_of)
    assert ring.decided(0, 58, one(0, 59)) == one(0, 59)


def test_worker_that_ended_among_early_transactions_does_not_know_where_they_end() -> None:
    ring = CommittedRing([CommittedTransactions(0, 0, (one(0, 20)._replace(early=True),))])
    ring.follow(0, 0, 50, is_new=False)
    assert ring.decided(0, 49, one(0, 50)) == one(0, 50)._replace(early=True)
    assert ring.decided(0, 50, one(0, 51)) == one(0, 51)


def test_position_that_the_topic_no_longer_has_is_left_for_its_end() -> None:
    ring = CommittedRing([CommittedTransactions(0, 0, (of(20, 0)._replace(number=1, nths=(1,)),))])
    ring.follow(0, 30, 90, is_new=False)
    assert ring.positions == {0: 30}
    assert ring.decided(0, 89, one(0, 90)) is None
    (lost,) = number(ring.numbers_at(0, 90), of(91, 0))
    assert lost == (0, (0,))


def of(offset: int, *partitions: int, epoch: int = 0, version: int = 0) -> TransactionCommitted:
    return TransactionCommitted((0, offset), "app", 4, epoch, version, 900, (("orders", partitions),))


def state(epoch: int = 0, *, began: bool = False) -> ProducerState:
    return ProducerState(4, epoch, began)


def number(numbers: CommitNumbers, *one: TransactionCommitted) -> list[tuple[int, tuple[int, ...]]]:
    """Numbers of transactions that each end before the next."""
    found = []
    for each in one:
        got = numbers.numbered(each)
        assert got is not None
        numbers.other_state(0, state(each.epoch))
        found.append((got.number, got.nths))
    return found


def test_transactions_are_numbered_from_where_their_producer_began() -> None:
    numbers = CommitNumbers(())
    assert number(numbers, of(1, 0)) == [(0, ())]  # it began before
    numbers.other_state(0, state(began=True))
    assert number(numbers, of(2, 0, 1), of(3, 1)) == [(1, (1, 1)), (2, (2,))]
    numbers.other_state(0, state(began=True))  # a late repetition
    assert number(numbers, of(4, 1)) == [(3, (3,))]
    assert number(numbers, of(5, 1, epoch=1)) == [(0, ())]  # of an epoch that did not begin
    assert number(numbers, of(5, 1, version=2)) == [(0, ())]  # it needs none
    numbers.other_state(0, state(1, began=True))
    assert number(numbers, of(6, 1, epoch=1)) == [(1, (1,))]


def test_decision_that_is_written_again_is_one_transaction() -> None:
    numbers = CommitNumbers(())
    numbers.other_state(0, state(began=True))
    assert numbers.numbered(of(1, 0)) is not None
    assert numbers.numbered(of(2, 0)) is None
    numbers.other_state(0, state())
    assert number(numbers, of(3, 0)) == [(2, (2,))]


def test_records_that_are_missing_end_the_numbers_here_and_for_later_workers() -> None:
    numbers = CommitNumbers(())
    numbers.other_state(0, state(began=True))
    (before,) = (numbers.numbered(of(1, 0)),)
    numbers.other_state(0, state())
    numbers.lost(1)
    assert number(numbers, of(2, 0)) == [(2, (2,))]  # of another partition of the topic
    numbers.lost(0)
    other = numbers.numbered(of(3, 0)._replace(producer_id=5))  # it says what was lost, also of other producers
    assert before is not None
    assert other is not None
    assert (other.number, other.nths) == (0, (0,))
    assert number(numbers, of(4, 0)) == [(0, ())]
    later = CommitNumbers([before, other])
    later.other_state(0, state())
    assert number(later, of(9, 0)) == [(0, ())]
    later = CommitNumbers([before, of(4, 0)])  # one of its own without a number
    later.other_state(0, state())
    assert number(later, of(9, 0)) == [(0, ())]


def test_later_worker_numbers_on_from_the_journal() -> None:
    numbers = CommitNumbers(())
    numbers.other_state(0, state(began=True))
    made = []
    for at, partitions in enumerate([(0,), (1,), (0, 1)]):
        each = numbers.numbered(of(at, *partitions))
        assert each is not None
        made.append(each)
        numbers.other_state(0, state())

    def later(journaled: list[TransactionCommitted]) -> tuple[int, tuple[int, ...]]:
        resumed = CommitNumbers(journaled)
        resumed.other_state(0, state())
        return number(resumed, of(9, 0, 1, 2))[0]

    # A partition that is not journaled may have been mirrored since: how many it has is not known, and is not taken for none.
    assert later(made) == (4, (3, 3, 0))
    assert later(made[1:2]) == (3, (0, 2, 0))
    assert later([made[0], made[2]]) == (4, (3, 3, 0))
    # What comes first may be the decision that is journaled, written again.
    assert number(CommitNumbers(made), of(9, 0, 1)) == [(0, ())]


def test_producer_that_began_before_the_first_record_that_is_followed_is_counted_from_there() -> None:
    ring = CommittedRing(())
    ring.follow(0, 5, 20, is_new=False)
    numbers = ring.numbers_at(0, 5)
    numbers.lost(0)  # where nothing was counted, nothing was lost
    assert number(numbers, of(6, 0)) == [(0, ())]
    numbers.other_state(0, state(1, began=True))
    assert number(numbers, of(9, 0, epoch=1), of(12, 0, 1, epoch=1)) == [(1, (1,)), (2, (2, 1))]
    assert number(ring.numbers_at(0, 21), of(21, 1, 2, epoch=1)) == [(3, (2, 1))]


def test_what_is_counted_again_replaces_nothing_that_is_journaled() -> None:
    journaled = of(12, 0)._replace(number=7, nths=(5,))
    lost = of(11, 0)._replace(producer_id=6)
    ring = CommittedRing([CommittedTransactions(0, 0, (lost, journaled))])
    ring.follow(0, 3, 12, is_new=False)
    earlier = ring.numbers_at(0, 3)
    for producer in (4, 6, 8):  # the last one was not journaled, as it had committed nothing
        earlier.other_state(0, ProducerState(producer, 0, began=True))
    later = ring.numbers_at(0, 12)
    later.other_state(0, state())
    assert number(later, of(14, 0), of(15, 0)._replace(producer_id=6)) == [(8, (6,)), (0, ())]
    assert number(later, of(16, 0, 3)._replace(producer_id=8)) == [(1, (1, 1))]


def test_records_that_are_missing_where_counting_ends_are_missing_for_both() -> None:
    journaled = CommittedTransactions(0, 0, (one(0, 20),))
    for first_missing, numbered in ((18, (0, ())), (20, (0, (0,)))):
        ring = CommittedRing([journaled])
        ring.follow(0, 0, 30, is_new=False)
        ring.numbers_at(0, 0).other_state(0, state(began=True))
        for missing in (first_missing, 21):
            ring.numbers_at(0, missing).lost(0)
        assert number(ring.numbers_at(0, 22), of(22, 0)) == [numbered]  # zeros where there was something to lose
