"""Findings about topics that clients of both clusters write to."""

from __future__ import annotations

import pytest

from drlib.drill.readiness.checks.writers.both_sides import written_on_both
from drlib.drill.readiness.score import Severity
from drlib.drill.writers.rules import TopicWritten, Written


def orders(left: Written | str, right: Written | str) -> TopicWritten:
    return TopicWritten("orders", {"LEFT": left, "RIGHT": right})


@pytest.mark.parametrize(
    ("found", "evidence"),
    [
        (None, "no topic is copied in both directions under one name"),
        ((), "exists on both clusters yet"),
        ((orders(Written(0), Written(0)),), "1 topic that both directions copy: in the last hour clients wrote to 0"),
        (
            (orders(Written(5), Written(0)), orders(Written(0), Written(0))),
            "clients wrote to 1 of them, on one cluster",
        ),
        ((orders(Written(5, at_least=True), Written(0)),), "clients wrote to 1 of them"),
    ],
)
def test_topic_that_is_written_to_on_one_side_is_ok(found: tuple[TopicWritten, ...] | None, evidence: str) -> None:
    ((entity, severity, said, fix),) = written_on_both(found)
    assert (entity, severity, fix) == ("", Severity.OK, "")
    assert evidence in said


@pytest.mark.parametrize(
    ("left", "right", "rates"),
    [
        (Written(1200), Written(1), "1,200 on LEFT and 1 on RIGHT"),
        (Written(1200, at_least=True), Written(1), "at least 1,200 on LEFT and 1 on RIGHT"),
    ],
)
def test_topic_that_is_written_to_on_both_sides_is_a_warning_with_both_rates(
    left: Written, right: Written, rates: str
) -> None:
    ((entity, severity, said, fix),) = written_on_both([orders(left, right)])
    assert (entity, severity) == ("orders", Severity.WARN)
    assert f"records in the last hour: {rates}." in said
    assert "deny_write" in fix


@pytest.mark.parametrize(
    ("left", "right", "why"),
    [
        ("orders-1 has no leader that answers", Written(5), "not counted on LEFT: orders-1 has no leader that answers"),
        (Written(5), "no answer", "not counted on RIGHT: no answer"),
        (Written(0), "no answer", "not counted on RIGHT: no answer"),
        (Written(5), Written(0, at_least=True), "not counted on RIGHT: too much of its log"),
        (Written(0, at_least=True), Written(0), "not counted on LEFT: too much of its log"),
    ],
)
def test_side_that_was_not_counted_is_unknown_with_the_reason(
    left: Written | str, right: Written | str, why: str
) -> None:
    ((entity, severity, said, fix),) = written_on_both([orders(left, right)])
    assert (entity, severity) == ("orders", Severity.UNKNOWN)
    assert said.startswith(why)
    assert fix


def test_what_is_ok_is_not_named_beside_what_is_not() -> None:
    found = written_on_both([orders(Written(1), Written(0)), orders(Written(1), Written(1))])
    assert [each[1] for each in found] == [Severity.WARN]
