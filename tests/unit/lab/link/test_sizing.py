"""What a link carries and what a mirror over it needs: the formulas, their limits, and the engine's own numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.lab.link import sizing
from drlib.lab.link.sizing import (
    LinkSpec,
    Outage,
    after_outage,
    clients_needed,
    falls_off_after,
    ours,
    sequential,
    size,
)
from drlib.mirror.engine.fetch import backlog_reader as backlog
from drlib.mirror.engine.fetch import memory

GIGABIT = LinkSpec(125e6, 0.2)
links = st.builds(LinkSpec, st.floats(1e3, 1e10), st.floats(0, 2))


def test_sequential_matches_mirror_maker_measured_at_200_ms() -> None:
    assert sequential(GIGABIT, sizing.MIB) == pytest.approx(5.03e6, rel=0.01)  # measured: 4.8 MB/s
    assert sequential(GIGABIT, 32 * sizing.MIB) == pytest.approx(71.6e6, rel=0.01)  # measured: 55 MB/s


def test_ours_default_memory_fills_the_link() -> None:
    reach, bound = ours(GIGABIT)
    assert (reach, bound) == (pytest.approx(122.5e6), "the link")  # measured: 114 and 124 MB/s
    assert ours(LinkSpec(125e6, 2.0))[1] == "memory"
    assert ours(LinkSpec(10e9, 0.0))[1] == "cores"


def test_window_is_two_bandwidth_delay_products_and_a_start_within_half_of_the_data() -> None:
    assert sizing.window(GIGABIT, 1 << 30) == 16 * sizing.MIB + 2 * 25e6
    assert sizing.window(LinkSpec(1e9, 10), 1 << 30) == (1024 - 128) // 2 * sizing.MIB
    assert sizing.window(LinkSpec(1e9, 10), 128 * sizing.MIB) == 16 * sizing.MIB


def test_size_of_ten_gigabit_is_by_cores_and_memory_by_the_round_trip() -> None:
    found = size(LinkSpec(1.25e9, 0.187), 1e9, 100)
    assert (found.workers, found.lanes, found.memory) == (9, 18, 288 * sizing.MIB)
    slow = size(LinkSpec(1e6, 0.1), 98e4, 100)
    assert (slow.workers, slow.lanes, slow.memory, slow.bound) == (1, 2, 256 * sizing.MIB, "the link")
    assert (slow.reach, slow.enough) == (98e4, False)  # it would never catch up
    for rate, partitions in ((-1, 1), (0, 0)):
        with pytest.raises(ValueError, match="no flow has"):
            size(GIGABIT, rate, partitions)
    assert size(GIGABIT, 0, 1).workers == 1


def test_sizing_constants_equal_the_engines() -> None:
    assert sizing.REQUESTS[-1] == sizing.usual_request(10_000) == 52_428_800  # fetch.max.bytes of Kafka's consumer
    assert sizing.LEAST_FETCH == backlog.LEAST_WINDOW
    assert sizing.STEP_SHARE == backlog.STEP_SHARE
    assert sizing.RESERVED == memory.RESERVED
    assert sizing.RESERVED + sizing.LEAST_DATA == memory.LEAST_WORKER
    assert sizing.DEFAULT_MEMORY == memory.DEFAULT_WORKER


@given(links, st.floats(1, 1e9), st.floats(1, 1e9))
def test_sequential_grows_with_request_up_to_the_link(link: LinkSpec, one: float, other: float) -> None:
    small, large = sequential(link, min(one, other)), sequential(link, max(one, other))
    assert small <= large * (1 + 1e-9)
    assert large <= link.bandwidth


@given(links, st.floats(1024, 1e8), st.floats(1, 1e10))
def test_clients_needed_is_the_minimum(link: LinkSpec, request: float, rate: float) -> None:
    count = clients_needed(link, request, rate)
    if count is None:
        assert rate > link.bandwidth
        return
    assert sequential(link, request, count) >= rate * (1 - 1e-6)
    assert count == 1 or sequential(link, request, count - 1) < rate * (1 + 1e-6)


@given(links, st.floats(0, 1e9), st.integers(1, 1000))
def test_size_is_bounded_by_link_or_partitions(link: LinkSpec, rate: float, partitions: int) -> None:
    found = size(link, rate, partitions)
    assert 1 <= found.workers <= found.lanes <= partitions
    assert found.bound == "the link" or found.workers == partitions
    assert found.enough == (found.reach > rate)


def test_outage_beyond_retention_loses_records() -> None:
    within = after_outage(3600, 5e6, 45e6, 86400)
    assert (within.backlog, within.catch_up_s, within.lost) == (18e9, 450, 0)
    assert within.left_s == 82800
    beyond = after_outage(90000, 5e6, 45e6, 86400)
    assert (beyond.lost, beyond.left_s) == (3600 * 5e6, 0)
    assert beyond.catch_up_s == pytest.approx(86400 * 5e6 / 40e6)
    assert after_outage(3600, 5e6, 5e6) == Outage(3600, 18e9, None, 0.0, None)
    assert after_outage(0, 5e6, 5e6).catch_up_s == 0
    assert after_outage(3600, 0, 5e6).catch_up_s == 0


def test_falls_off_after_of_a_slow_mirror_is_when_records_are_lost() -> None:
    after = falls_off_after(10e6, 8e6, 7200, 86400)
    assert after is not None
    assert after == pytest.approx((86400 - 7200) / 0.2)
    # second by second: what it reads next was written at 7200 + t*0.2 before now
    behind = 7200.0
    for _ in range(int(after)):
        behind += 1 - 0.8
    assert behind == pytest.approx(86400, abs=2)
    assert falls_off_after(10e6, 10e6, 7200, 86400) is None
    assert falls_off_after(10e6, 8e6, 86400, 86400) == 0
    assert falls_off_after(10e6, 20e6, 86400, 86400) == 0


def test_clients_needed_for_exactly_what_three_reach_is_three() -> None:
    assert clients_needed(GIGABIT, sizing.MIB, 3 * sequential(GIGABIT, sizing.MIB)) == 3
    assert clients_needed(GIGABIT, sizing.MIB, 3.001 * sequential(GIGABIT, sizing.MIB)) == 4


def test_usual_request_is_a_mebibyte_a_partition_and_50_at_most() -> None:
    assert [sizing.usual_request(count) / sizing.MIB for count in (1, 50, 51)] == [1, 50, 50]


def test_link_spec_may_be_slow_and_near() -> None:
    assert LinkSpec(0.5, 0).in_transit == 0


@pytest.mark.parametrize(("bandwidth", "rtt"), [(0, 1), (-1, 1), (1, -1), (float("nan"), 1), (1, float("inf"))])
def test_link_spec_invalid_is_refused(bandwidth: float, rtt: float) -> None:
    with pytest.raises(ValueError, match="no link has"):
        LinkSpec(bandwidth, rtt)
