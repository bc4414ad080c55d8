"""Which records below a takeover are the target's own: what contents say, and what the operator has to."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from drlib.mirror.journal.entries import SourcePartition, Takeover
from drlib.mirror.offsets.comparison import own_records as module
from drlib.mirror.offsets.comparison.compare_logs import ComparedPartition
from drlib.mirror.offsets.comparison.own_records import Unmatched, Words, decide, question, unmatched
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.map.taken_part import TakenPart
from drlib.model import Flow, TopicPartition

P = SourcePartition(UUID(int=1), 0)
ORDERS, PARIS_LYON = TopicPartition("orders", 0), Flow("paris", "lyon")
SOME, MANY = Unmatched(((3, 5),), 2), Unmatched(too_many=True)
OWN, COPIED = Words(own="j"), Words(copied="j")


@pytest.mark.parametrize(
    ("found", "words", "ranges"),
    [
        (Unmatched(), Words(), ()),
        (SOME, Words(), None),
        (SOME, OWN, ((3, 5),)),
        (SOME, Words(own="of a journal that was deleted"), None),
        (SOME, COPIED, ()),
        (MANY, OWN, None),  # which ones it would be is not known
        (MANY, COPIED, ()),
    ],
)
def test_records_that_the_source_lacks_wait_for_a_word_about_this_journal(
    found: Unmatched, words: Words, ranges: tuple[tuple[int, int], ...] | None
) -> None:
    assert decide(found, words, "j") == ranges


def test_batch_with_a_record_that_the_source_lacks_is_the_targets_own_and_neighbours_are_one_range() -> None:
    batches = [(0, 2, [1, 2]), (2, 4, [3, 4]), (4, 5, [5]), (7, 8, [6]), (8, 9, [7])]
    assert unmatched(batches, {4, 5, 7}) == Unmatched(((2, 5), (8, 9)), 3)
    assert unmatched(batches, set()) == Unmatched()


def test_ranges_that_would_fill_the_journal_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RANGES", 1)
    assert unmatched([(0, 1, [1]), (2, 3, [2])], {1, 2}).too_many


def test_question_names_the_records_and_both_words_or_the_one_that_is_left() -> None:
    unused: Any = None
    item = ComparedPartition(
        key=P, source=ORDERS, target=ORDERS, target_id=UUID(int=2), map=PartitionMap(), journal=unused, busy=unused
    )
    taken = TakenPart(Takeover(P, 9, 10, 8, 0, 0))
    detail, remedy = question(SOME, item, taken, PARIS_LYON, "j")
    assert detail == (
        "2 records of orders-0 on lyon below offset 10, where MirrorMaker 2 ended, are not on paris: the first at offset 3, "
        "the last before offset 5"
    )
    assert "If clients of lyon wrote them, set paris->lyon.drlib.own.records.journal = j and" in remedy
    assert (
        "set paris->lyon.drlib.copied.records.journal = j and none is copied back. Then restart the worker." in remedy
    )
    detail, remedy = question(MANY, item, taken, PARIS_LYON, "j")
    assert "too many to compare" in detail
    assert "own.records" not in remedy
    assert remedy.startswith("If no client of lyon wrote any of them, set paris->lyon.drlib.copied.records.journal = j")
