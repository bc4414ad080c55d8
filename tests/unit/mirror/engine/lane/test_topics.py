"""Which changes of a lane's topics can join its running claim, and which maps of a lane are thinned out."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from drlib.mirror.engine.lane.topics import LaneTopic, find_thinned, only_adds

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


@dataclass(frozen=True)
class Stretches:
    """In place of a partition's map with that many stretches."""

    count: int
    may_be_thinned: bool = True

    def segments(self) -> range:
        return range(self.count)

    def thinned(self, partition: str, keep: int, at_most: int) -> tuple[str, int, int] | None:
        return (partition, keep, at_most) if self.may_be_thinned else None


@dataclass(frozen=True)
class Stream:
    key: str
    map: Stretches


def thinned(*maps: Stretches, most: int) -> list[Any]:
    streams = cast(Any, [Stream(name, each) for name, each in zip("abcdef", maps, strict=False)])
    return cast("list[Any]", find_thinned(streams, most))


def test_find_thinned_halves_the_largest_maps_until_there_is_room() -> None:
    small, large, larger = Stretches(90), Stretches(1000), Stretches(1200)
    assert thinned(small, large, larger, most=2290) == []
    assert thinned(small, large, larger, most=2289) == [("c", 600, 12)]
    assert thinned(small, large, larger, most=2000) == [("c", 600, 12), ("b", 500, 10)]
    assert thinned(Stretches(3_000_000), most=10) == [("a", 1_500_000, 10_000)]
    assert thinned(Stretches(20), most=10) == [("a", 10, 1)]
    assert thinned(most=10) == []


def test_find_thinned_leaves_maps_below_their_share_when_another_one_cannot_be() -> None:
    stuck = Stretches(5000, may_be_thinned=False)
    assert thinned(stuck, Stretches(300), Stretches(400), most=1000) == [("c", 200, 4)]
