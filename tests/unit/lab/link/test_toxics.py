"""Delay costs no throughput, bandwidth is kept to, and order is never lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.lab.link.toxics import Shaper, Toxics

TOXICS = st.builds(Toxics, delay_ms=st.floats(0, 1000), bandwidth=st.just(0) | st.floats(100, 1e9))
OFFERS = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 100_000)), min_size=1, max_size=50)


@given(TOXICS, OFFERS)
def test_shaper_keeps_order_and_delay(toxics: Toxics, offers: list[tuple[float, int]]) -> None:
    shaper, now, last = Shaper(toxics), 0.0, 0.0
    for pause, size in offers:
        now += pause
        due = shaper.due(now, size)
        assert due >= last
        assert due >= now + toxics.delay_ms / 1000
        last = due


@given(st.floats(100, 1e9), OFFERS)
def test_shaper_bandwidth_is_never_exceeded(bandwidth: float, offers: list[tuple[float, int]]) -> None:
    shaper, now, total, due = Shaper(Toxics(bandwidth=bandwidth)), 0.0, 0, 0.0
    for pause, size in offers:
        now += pause
        total += size
        due = shaper.due(now, size)
    assert total <= bandwidth * due * (1 + 1e-9)


def test_shaper_delay_overlaps_for_concurrent_chunks() -> None:
    shaper = Shaper(Toxics(delay_ms=100))
    assert [shaper.due(1.0, 10_000_000) for _ in range(3)] == [1.1, 1.1, 1.1]


def test_shaper_idle_time_is_not_accumulated() -> None:
    shaper = Shaper(Toxics(bandwidth=1000))
    assert shaper.due(0.0, 1000) == 1.0
    assert shaper.due(100.0, 1000) == 101.0


@given(TOXICS, st.binary(max_size=5000))
def test_toxics_slices_join_to_the_data(toxics: Toxics, data: bytes) -> None:
    assert b"".join(toxics.slices(data)) == data


def test_toxics_in_flight_bytes_follow_bandwidth_delay_product() -> None:
    assert Toxics(bandwidth=64_000).in_flight_bytes == 64 * 1024
    assert Toxics(bandwidth=20e6, delay_ms=250).in_flight_bytes == 10_000_000
    assert Toxics(delay_ms=500).in_flight_bytes == 32 * 1024 * 1024
    assert Toxics(blackhole=True).in_flight_bytes == 64 * 1024


@pytest.mark.parametrize("given_", [{"delay_ms": -1}, {"bandwidth": -1}])
def test_toxics_negative_values_are_refused(given_: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="cannot have"):
        Toxics(**given_)
