"""The numbers of a partition's transactions: where they begin, what ends them, and how a later claim goes on."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.kafka.protocol.batch import BatchHeader
from drlib.mirror.journal import transaction_numbers
from drlib.mirror.journal.entries import SourcePartition, Transactions
from drlib.mirror.journal.transaction_numbers import TransactionNumbers
from drlib.mirror.journal.transactions import GAP, TransactionEvent

P = SourcePartition(UUID(int=1), 0)


def batch(sequence: int = 0, *, producer: int = 4, epoch: int = 0, at: int = 0) -> BatchHeader:
    return BatchHeader(at, 61, 0, 2, 0, 0x10, 0, 0, 0, producer, epoch, sequence, 1)


def test_numbers_begin_with_the_first_sequence_and_end_with_markers() -> None:
    numbers = TransactionNumbers(0)
    assert [numbers.of_records(batch(n)) for n in range(2)] == [1, 1]
    assert numbers.of_marker(batch(-1), commit=True) == 1
    assert numbers.of_records(batch(2)) == 2
    assert numbers.of_marker(batch(-1), commit=False) == 0
    assert numbers.of_records(batch(3)) == 2
    assert numbers.of_records(batch(0, producer=5)) == 1
    assert numbers.of_marker(batch(-1), commit=True) == 2
    assert numbers.of_records(batch(0, epoch=1)) == 1


def test_producer_whose_beginning_was_not_read_has_no_numbers_until_its_next_epoch() -> None:
    numbers = TransactionNumbers(0)
    assert numbers.of_records(batch(7)) == 0
    assert numbers.of_marker(batch(-1), commit=True) == 0
    assert numbers.of_records(batch(0)) == 0  # sequences begin again after 2,147,483,647
    assert numbers.of_records(batch(0, epoch=1)) == 1


def test_marker_without_records_ends_the_numbers_of_its_epoch() -> None:
    numbers = TransactionNumbers(0)
    assert numbers.of_marker(batch(-1), commit=True) == 0
    assert numbers.of_records(batch(0)) == 0


@pytest.mark.parametrize("aborted", [False, True])
def test_marker_that_is_written_again_ends_the_numbers_of_its_epoch(aborted: bool) -> None:
    numbers = TransactionNumbers(0)
    numbers.of_records(batch(0))
    assert numbers.of_marker(batch(-1), commit=True) == 1
    if aborted:
        numbers.of_records(batch(1))
        numbers.of_marker(batch(-1), commit=False)
    assert numbers.of_marker(batch(-1), commit=True) == 0
    assert numbers.of_records(batch(2)) == 0


def test_marker_that_cannot_be_read_ends_every_number() -> None:
    numbers = TransactionNumbers(0)
    numbers.of_records(batch(0))
    assert numbers.lost()
    assert numbers.of_marker(batch(-1), commit=True) == 0
    assert not numbers.lost()


def test_version_2_needs_no_numbers() -> None:
    numbers = TransactionNumbers(0)
    assert numbers.of_records(batch(0)) == 1
    assert numbers.of_marker(batch(-1, epoch=1), commit=True) == 0
    assert numbers.of_records(batch(0, epoch=1)) == 0


def test_offsets_that_are_missing_end_every_number() -> None:
    numbers = TransactionNumbers(5)
    numbers.read(5, 8)
    numbers.of_records(batch(0, at=5))
    numbers.read(8, 9)
    assert numbers.of_marker(batch(-1, at=8), commit=True) == 1
    assert numbers.read(10, 11)
    assert numbers.of_records(batch(1, at=10)) == 0
    assert numbers.of_records(batch(0, at=10)) == 0  # sequences may begin again in the same epoch


def number_of(numbers: TransactionNumbers, log: list[BatchHeader], first: int, end: int) -> list[int]:
    """Read a log of batches of one offset each."""
    found = []
    for header in log[first:end]:
        numbers.read(header.base_offset, header.next_offset)
        found.append(numbers.of_marker(header, commit=True) if header.base_sequence < 0 else numbers.of_records(header))
    return found


@given(st.data())
def test_what_is_read_again_has_the_numbers_that_it_had(drawn: st.DataObject) -> None:
    steps = st.tuples(st.integers(-1, 2), st.integers(4, 6), st.integers(0, 1))
    made = drawn.draw(st.lists(steps, min_size=1, max_size=30))
    log = [batch(sequence, producer=p, epoch=e, at=at) for at, (sequence, p, e) in enumerate(made)]
    once = number_of(TransactionNumbers(0), log, 0, len(log))
    numbers, at = TransactionNumbers(0), 0
    settled = 0
    for _ in range(drawn.draw(st.integers(1, 5))):
        at = drawn.draw(st.integers(settled, at))
        settled = drawn.draw(st.integers(settled, at))
        numbers.settle(settled)
        end = drawn.draw(st.integers(at, len(log)))
        assert number_of(numbers, log, at, end) == once[at:end]
        at = end


def test_what_is_read_again_from_further_back_than_is_kept_has_no_numbers() -> None:
    log = [batch(-1 if n % 2 else n, at=n) for n in range(6)]
    numbers = TransactionNumbers(0)
    assert number_of(numbers, log, 0, 6) == [1, 1, 2, 2, 3, 3]
    numbers.settle(3)
    assert number_of(numbers, log, 3, 6) == [2, 3, 3]
    assert number_of(numbers, log, 2, 6) == [0, 0, 0, 0]


def test_later_claim_goes_on_with_what_was_noted_before_its_first_offset() -> None:
    noted = (
        TransactionEvent(4, 0, 0, 2, 2, nth=6),
        TransactionEvent(4, 0, 2, 3, 0, 5, nth=6),
        TransactionEvent(5, 0, 3, 5, 2, nth=2),
        TransactionEvent(6, 0, 5, 6, 1),
        TransactionEvent(4, 0, 6, 8, 2, nth=7),
        TransactionEvent(4, 0, 8, 9, 0, 5, nth=7),
    )
    slots = [Transactions(P, 0, 0, noted[:3]), Transactions(P, 1, 1, noted[3:])]
    numbers = TransactionNumbers.resumed(6, slots)
    numbers.read(6, 8)
    assert numbers.of_records(batch(9)) == 7
    assert numbers.of_marker(batch(-1, producer=5), commit=True) == 2
    assert numbers.of_marker(batch(-1, producer=6), commit=True) == 0
    assert TransactionNumbers.resumed(8, slots).of_marker(batch(-1), commit=True) == 7, "the marker at 8 is read again"
    numbers = TransactionNumbers.resumed(9, slots)
    assert numbers.of_records(batch(9)) == 8
    gap = Transactions(P, 2, 2, (TransactionEvent(GAP, 0, 9, 10, 0),))
    assert TransactionNumbers.resumed(10, [*slots, gap]).of_records(batch(9)) == 0


def test_producer_that_began_first_is_forgotten_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_numbers, "MOST_PRODUCERS", 2)
    numbers = TransactionNumbers(0)
    assert [numbers.of_records(batch(0, producer=n)) for n in range(3)] == [1, 1, 1]
    assert [numbers.of_marker(batch(-1, producer=n), commit=True) for n in (2, 1, 0)] == [1, 1, 0]
