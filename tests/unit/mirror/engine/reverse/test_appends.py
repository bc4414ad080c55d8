"""What lanes appended last: one stretch without a gap of each partition."""

from __future__ import annotations

from uuid import UUID

import pytest

from drlib.mirror.engine.reverse import appends as appends_module
from drlib.mirror.engine.reverse.appends import Appended, Appends
from drlib.mirror.journal.entries import ClaimId, SourcePartition

AT = SourcePartition(UUID(int=1), 0)
CLAIM, NEXT_CLAIM = ClaimId(7, 3), ClaimId(7, 4)


def test_batches_without_a_gap_are_one_stretch() -> None:
    found = Appends()
    for base in (10, 15, 20):
        found.acknowledged(AT, CLAIM, base, 5)
    assert found.newest(AT, 12) == Appended(CLAIM, 10, 25)


@pytest.mark.parametrize(("base", "claim"), [(16, CLAIM), (15, NEXT_CLAIM), (10, CLAIM)])
def test_batch_behind_a_gap_or_of_another_claim_begins_a_stretch(base: int, claim: ClaimId) -> None:
    found = Appends()
    found.acknowledged(AT, CLAIM, 10, 5)
    found.acknowledged(AT, claim, base, 5)
    assert found.newest(AT, base) == Appended(claim, base, base + 5)
    assert found.newest(AT, base - 1) is None


@pytest.mark.parametrize(("offset", "found"), [(9, False), (10, True), (15, True), (16, True)])
def test_stretch_counts_for_offsets_from_its_first_on(offset: int, found: bool) -> None:
    appends = Appends()
    appends.acknowledged(AT, CLAIM, 10, 5)
    assert (appends.newest(AT, offset) is not None) is found


def test_other_topics_and_partitions_are_not_known_by_it() -> None:
    found = Appends()
    found.acknowledged(AT, CLAIM, 10, 5)
    assert found.newest(SourcePartition(UUID(int=2), 0), 12) is None
    assert found.newest(SourcePartition(AT.topic_id, 1), 12) is None


def test_partitions_beyond_the_limit_are_forgotten_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appends_module, "MOST", 2)
    found = Appends()
    for partition in range(3):
        found.acknowledged(SourcePartition(AT.topic_id, partition), CLAIM, 0, 1)
    assert [found.newest(SourcePartition(AT.topic_id, p), 0) is not None for p in range(3)] == [False, True, True]
