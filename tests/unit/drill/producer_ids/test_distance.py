"""How far the producer IDs of two clusters are apart."""

import pytest

from drlib.drill.producer_ids.distance import NextIds, between, goal


@pytest.mark.parametrize(
    ("source", "target", "apart", "until"),
    [
        ((120,), (2_000_120,), 2_000_000, None),
        ((120, 5_000), (2_000_120, 1_000_000), 995_000, None),  # the nearest brokers count
        ((2_000_120,), (120,), 2_000_000, None),  # the source is ahead, as after a failback
        ((120, 5_000), (3_000,), -2_880, 1_005_000),  # among each other
        ((120,), (120,), 0, 1_000_120),
        ((120,), (600_120,), 600_000, None),  # what both have given out since
        ((120,), (400_120,), 400_000, 1_000_120),
    ],
)
def test_distance_is_that_of_the_nearest_brokers(
    source: tuple[int, ...], target: tuple[int, ...], apart: int, until: int | None
) -> None:
    here, there = NextIds("a", dict(enumerate(source))), NextIds("b", dict(enumerate(target)))
    assert between(here, there) == between(there, here) == apart
    assert goal(here, there, 1_000_000) == until
