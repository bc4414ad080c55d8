"""Which changes of a lane's topics can join its running claim."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from drlib.mirror.engine.lane.topics import LaneTopic, only_adds

A = LaneTopic("a", uuid.UUID(int=1), "S.a", (0, 2))
B = LaneTopic("b", uuid.UUID(int=2), "S.b", (1,))


@pytest.mark.parametrize(
    ("now", "joins"),
    [
        ((A, B), True),
        ((A, B, replace(B, source="c")), True),
        ((replace(A, partitions=(0, 2, 4)), B), True),
        ((A,), False),
        ((replace(A, partitions=(0,)), B), False),
        ((replace(A, topic_id=uuid.UUID(int=9)), B), False),
        ((replace(A, remirror=True), B), False),
    ],
)
def test_only_adds_lane_without_its_former_partitions_claims_again(now: tuple[LaneTopic, ...], joins: bool) -> None:
    assert only_adds((A, B), now) is joins
