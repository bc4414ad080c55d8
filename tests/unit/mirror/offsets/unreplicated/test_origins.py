"""Which stretches of a log are copies, from its batches in order."""

from __future__ import annotations

import uuid

import pytest

from drlib.config.both_ways.shared_topics import TopicsShared
from drlib.kafka.admin.descriptions import Range
from drlib.mirror.journal.entries import TopicNames
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.unreplicated.origins import SharedMaps, Stretches
from drlib.model import Flow

HERE, THERE = uuid.UUID(int=1), uuid.UUID(int=2)
JOURNAL, BACKS_JOURNAL = uuid.UUID(int=3), uuid.UUID(int=4)


def test_batches_of_one_cluster_are_one_stretch_whatever_lies_between_them_and_the_range_bounds_it() -> None:
    found = Stretches(Range(5, 40))
    for copied, first, end in ((False, 0, 10), (False, 12, 15), (True, 15, 20), (False, 20, 21), (True, 30, 50)):
        found.add(copied, first, end)
    assert list(found.of(True)) == [Range(15, 20), Range(30, 40)]
    assert list(found.of(False)) == [Range(5, 15), Range(20, 21)]
    assert len(found) == 4


def shared_maps(remembered: uuid.UUID | None, backs_remembered: uuid.UUID | None) -> SharedMaps:
    there, back = Maps(journal_id=JOURNAL), Maps(journal_id=BACKS_JOURNAL)
    there.names[HERE] = TopicNames(HERE, "orders", "orders", THERE)
    back.names[THERE] = TopicNames(THERE, "orders", "orders", HERE)
    there.reverse_journals |= {HERE: remembered} if remembered is not None else {}
    back.reverse_journals |= {THERE: backs_remembered} if backs_remembered is not None else {}
    return SharedMaps(Flow("A", "B"), there, back)


def test_copies_are_known_by_the_journals_that_the_flows_remember_or_where_none_was_read_yet() -> None:
    shared_maps(BACKS_JOURNAL, JOURNAL).refuse_unknown_copies("orders")
    shared_maps(None, None).refuse_unknown_copies("orders")
    shared_maps(JOURNAL, JOURNAL).refuse_unknown_copies("another")


@pytest.mark.parametrize(
    ("remembered", "backs_remembered", "deleted"),
    [(JOURNAL, JOURNAL, "the journal of B->A on A"), (BACKS_JOURNAL, BACKS_JOURNAL, "the journal of A->B on B")],
)
def test_another_journal_than_the_remembered_one_leaves_copies_unknown(
    remembered: uuid.UUID, backs_remembered: uuid.UUID, deleted: str
) -> None:
    with pytest.raises(TopicsShared) as refused:
        shared_maps(remembered, backs_remembered).refuse_unknown_copies("orders")
    assert refused.value.why.startswith(deleted)
