"""How much of logs is read."""

from __future__ import annotations

import pytest

from drlib.drill.writers import logs
from drlib.drill.writers.logs import limited
from drlib.model import TopicPartition

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_all_is_read_within_the_limits() -> None:
    assert limited({A: [(0, 5), (9, 10)], B: []}) == ({A: [(0, 5), (9, 10)], B: []}, {A: 0, B: 0})


def test_partition_with_less_to_read_is_read_first_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_OFFSETS", 10)
    assert limited({A: [(0, 5), (9, 20)], B: [(3, 7)]}) == ({B: [(3, 7)], A: [(0, 5), (9, 10)]}, {B: 0, A: 10})
    assert limited({A: [(0, 10)], B: [(0, 11)]}) == ({A: [(0, 10)], B: []}, {A: 0, B: 11})


def test_parts_are_limited_too_as_each_is_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_PARTS", 2)
    assert limited({A: [(0, 1), (2, 3), (4, 6)]}) == ({A: [(0, 1), (2, 3)]}, {A: 2})
