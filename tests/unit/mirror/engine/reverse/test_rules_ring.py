"""Which batches each lane of a ring copies: cases, and random schedules of flows that go round over one topic."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ring_model import RULES, Ring
from two_way_model import Batch

from drlib.mirror.engine.reverse.rules import Known

LANE, RELAY, CLIENT = 11, 12, 22


def schedule(seed: int, *, faults: bool, without: str = "", size: int = 3) -> Ring:
    world = Ring(random.Random(seed), size, RULES - {without}, filled=seed % 2 == 1)
    world.run(160, faults=faults)
    return world


def test_each_batch_is_copied_by_one_lane_and_what_has_passed_all_other_flows_by_none() -> None:
    newest = {LANE: 1, RELAY: 1}
    own, relay = Known(newest, {CLIENT}), Known(newest, {CLIENT}, relayed=frozenset({LANE}))
    copied = [
        [not lane.leaves_out(Batch(0, 1, producer, 0).header) for lane in (own, relay)]
        for producer in (CLIENT, -1, LANE, RELAY)
    ]
    assert copied == [[True, False], [True, False], [False, True], [False, False]]


@pytest.mark.parametrize("faults", [False, True], ids=["journals kept", "journals lost"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_random_schedules_of_a_ring_copy_each_record_once_or_name_why_not(size: int, faults: bool) -> None:
    for seed in range(60):
        assert not (found := schedule(seed, faults=faults, size=size).findings()), (seed, found)


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.booleans())
def test_any_schedule_of_a_ring_copies_each_record_once_or_names_why_not(seed: int, faults: bool) -> None:
    assert not schedule(seed, faults=faults).findings()


@pytest.mark.parametrize("rule", sorted(RULES))
def test_schedules_of_a_ring_without_a_rule_show_records_that_are_lost_copied_twice_or_go_round(rule: str) -> None:
    def fails(seed: int) -> bool:
        try:
            return bool(schedule(seed, faults=True, without=rule).findings())
        except AssertionError:
            return True

    assert any(fails(seed) for seed in range(500))
