"""Lanes: pinned numbers (they must not change between versions) and properties of the assignment."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.engine.fencing.lanes import assign, lane_of

members = st.lists(st.text(min_size=1), unique=True, max_size=12)


def test_lane_of_is_pinned() -> None:
    # crc32("orders") = 3845127662 as `printf orders | gzip -c | tail -c8` tells
    assert zlib.crc32(b"orders") == 3845127662
    assert [lane_of("orders", p, 4) for p in range(6)] == [2, 3, 0, 1, 2, 3]
    assert lane_of("orders", 0, 7) == 3845127662 % 7
    assert lane_of("größe", 2, 5) == (zlib.crc32("größe".encode()) + 2) % 5


def test_assign_is_pinned() -> None:
    # Workers of two releases in one group have to agree.
    assert assign(8, ["a", "b", "c"]) == {"a": (0, 1, 4), "b": (2, 3), "c": (5, 6, 7)}


@given(st.text(), st.integers(1, 64))
def test_lane_of_consecutive_partitions_cycle_through_lanes(topic: str, lanes: int) -> None:
    assert sorted(lane_of(topic, p, lanes) for p in range(lanes)) == list(range(lanes))
    assert lane_of(topic, lanes, lanes) == lane_of(topic, 0, lanes)


@given(st.integers(0, 40), members)
def test_assign_each_lane_to_one_worker_in_equal_shares(lanes: int, names: list[str]) -> None:
    shares = assign(lanes, names)
    assert set(shares) == set(names)
    if names:
        assert sorted(lane for share in shares.values() for lane in share) == list(range(lanes))
        sizes = [len(share) for share in shares.values()]
        assert max(sizes) - min(sizes) <= 1
    assert all(list(share) == sorted(share) for share in shares.values())


@given(st.integers(0, 40), members, st.randoms())
def test_assign_ignores_order_of_members(lanes: int, names: list[str], random: object) -> None:
    shuffled = list(names)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert assign(lanes, shuffled) == assign(lanes, names) == assign(lanes, names + names[:1])


@pytest.mark.parametrize("workers", [2, 3, 5, 8])
def test_assign_leaving_worker_moves_few_other_lanes(workers: int) -> None:
    lanes, moved, kept = 48, 0, 0
    for trial in range(20):
        names = [f"worker-{trial}-{n}" for n in range(workers)]
        before = {lane: m for m, share in assign(lanes, names).items() for lane in share}
        after = {lane: m for m, share in assign(lanes, names[1:]).items() for lane in share}
        others = [lane for lane in before if before[lane] != names[0]]
        moved += sum(before[lane] != after[lane] for lane in others)
        kept += len(others)
    assert moved < 0.2 * kept  # round robin would move nearly all of them


@given(st.integers(0, 40), st.lists(st.binary(min_size=1, max_size=16), unique=True, max_size=12))
def test_assign_worker_has_the_same_lanes_in_each_of_its_groups(lanes: int, workers: list[bytes]) -> None:
    """Members' names are the broker's: they differ by group, and change when a worker joins again."""
    groups = [
        {f"{group}-{number}": worker for number, worker in enumerate(order)}
        for group, order in (("a", workers), ("b", workers[::-1]))
    ]
    found = [
        {members[member]: share for member, share in assign(lanes, sorted(members), members).items()}
        for members in groups
    ]
    assert found[0] == found[1]


def test_assign_to_a_worker_that_joined_twice_gives_each_lane_once() -> None:
    """Until the group gives up the member that it was before."""
    shares = assign(8, ["a-1", "a-2", "b"], {"a-1": b"a", "a-2": b"a", "b": b"b"})
    assert sorted(lane for share in shares.values() for lane in share) == list(range(8))
    assert sorted(map(len, shares.values())) == [2, 3, 3]


def test_assign_more_workers_than_lanes() -> None:
    shares = assign(2, ["a", "b", "c"])
    assert sorted(len(share) for share in shares.values()) == [0, 1, 1]


def test_assign_without_members_is_empty() -> None:
    assert assign(4, []) == {}


def test_lanes_invalid_count_raises_value_error() -> None:
    with pytest.raises(ValueError, match="0 lanes"):
        lane_of("orders", 0, 0)
    with pytest.raises(ValueError, match="-1 lanes"):
        assign(-1, ["a"])
