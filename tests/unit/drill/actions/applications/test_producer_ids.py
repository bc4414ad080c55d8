"""What of compared producer IDs is a reason not to move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.drill.actions.applications.producer_ids import judge
from drlib.drill.producer_ids.rules import AsKept, Collision, ComparedIds
from drlib.model import TopicPartition

KEPT = AsKept(1_795_770_400_000, 1_795_770_405_000, "A does not answer")


def collision(source: int, target: int) -> Collision:
    return Collision(7, source, target, (TopicPartition("orders", 0),), 1000, 2000)


@pytest.mark.parametrize(
    ("found", "words", "dangers", "unknown"),
    [
        (ComparedIds(2, 3), "none of 3 on 2 partitions is another producer's", 0, 0),
        (ComparedIds(2, 3, (collision(0, 0),)), "producer ID 7, epoch 0 on both clusters, orders-0: if", 1, 0),
        (ComparedIds(2, 3, (collision(0, 1),)), "producer ID 7, epoch 0 on the source and 1 on the target", 0, 0),
        (ComparedIds(2, 3, (), (("orders-1", "no leader"),)), "orders-1 was not checked: no leader", 0, 1),
        (
            ComparedIds(2, 3, (collision(0, 0),), as_kept=KEPT),
            "checked as of 2026-11-27 09:06:40.000 UTC, when the mirror asked its leaders last, and for producers of "
            "records that were copied until 2026-11-27 09:06:45.000 UTC (A does not answer): producer ID 7, epoch 0 on both",
            1,
            0,
        ),
        (
            ComparedIds(2, 3, as_kept=replace(KEPT, asked_ms=0)),
            "checked for producers of records that were copied until 2026-11-27 09:06:45.000 UTC; the mirror could not ask its "
            "leaders for others (A does not answer): none of 3 on 2 partitions is another producer's",
            0,
            0,
        ),
        ("no answer within 5 s", "not checked: no answer within 5 s", 0, 1),
    ],
)
def test_judge_tells_lost_records_from_what_was_not_compared(
    found: ComparedIds | str, words: str, dangers: int, unknown: int
) -> None:
    said, losing, open_questions = judge(found, 3000)
    assert words in said
    assert (len(losing), len(open_questions)) == (dangers, unknown)
