"""What of compared producer IDs is a reason not to move."""

from __future__ import annotations

import pytest

from drlib.drill.actions.applications.producer_ids import judge
from drlib.drill.producer_ids.rules import Collision, ComparedIds
from drlib.model import TopicPartition


def collision(source: int, target: int) -> Collision:
    return Collision(7, source, target, (TopicPartition("orders", 0),), 1000, 2000)


@pytest.mark.parametrize(
    ("found", "words", "dangers", "unknown"),
    [
        (ComparedIds(2, 3), "none of 3 on 2 partitions is another producer's", 0, 0),
        (ComparedIds(2, 3, (collision(0, 0),)), "producer ID 7, epoch 0 on both clusters, orders-0: if", 1, 0),
        (ComparedIds(2, 3, (collision(0, 1),)), "producer ID 7, epoch 0 on the source and 1 on the target", 0, 0),
        (ComparedIds(2, 3, (), (("orders-1", "no leader"),)), "orders-1 was not checked: no leader", 0, 1),
        ("no answer within 5 s", "not checked: no answer within 5 s", 0, 1),
    ],
)
def test_judge_tells_lost_records_from_what_was_not_compared(
    found: ComparedIds | str, words: str, dangers: int, unknown: int
) -> None:
    said, losing, open_questions = judge(found, 3000)
    assert words in said
    assert (len(losing), len(open_questions)) == (dangers, unknown)
