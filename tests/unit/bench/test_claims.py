"""The measurement of many claims reads a journal as a worker does, and knows each producer ID in it."""

import pytest

from bench.claims import _BATCH, CASES, journal, measure
from drlib.kafka.protocol.batch import iter_batches
from drlib.mirror.engine.reverse.journal import JournalLane


@pytest.mark.parametrize(("case", "ids"), [("epochs", 1), ("ids", 2_500)])
def test_claims_are_all_read_and_judged(case: str, ids: int) -> None:
    measured = measure(case, 2_500)
    assert (measured["claims"], measured["producer ids"]) == (2_500, ids)


def test_journal_has_every_claim_at_its_offset() -> None:
    lane = JournalLane()
    for raw in journal(CASES["epochs"], _BATCH + 1):
        for header, view in iter_batches(raw):
            lane.take(header, view)
    assert lane.position == _BATCH + 1
    assert lane.newest == {1_000: _BATCH}
