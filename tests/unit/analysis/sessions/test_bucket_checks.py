"""Reports on buckets against the checks they come to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drlib.analysis.continuous.compare import BucketReport, PartitionBuckets
from drlib.analysis.continuous.rules import Bucket, BucketFinding, BucketState, Difference, ReadEnds
from drlib.analysis.sessions.bucket_checks import read_check, topic_checks
from drlib.model import TopicPartition
from drlib.runs.check import Verdict

AT = TopicPartition("orders", 0)
ALL_EQUAL = BucketReport((PartitionBuckets(AT, 5, 5, 100, 100, 0, 0),), (), ReadEnds(1, 1))


def with_one(state: BucketState, topic: str = "orders", **more: Any) -> BucketReport:
    found = BucketFinding(Bucket(TopicPartition(topic, 0), 60_000, None, None), state, Difference.FEWER, "it is so")
    counts = PartitionBuckets(AT, 6, 5, 100, 100, 0, 0)
    return BucketReport((counts,), (found,), ReadEnds(1, 1), **more)


NONE_PASSED = replace(with_one(BucketState.NOT_YET), partitions=(PartitionBuckets(AT, 1, 0, 100, 0, 0, 0),))


@pytest.mark.parametrize(
    ("report", "whole", "in_time"),
    [
        (ALL_EQUAL, Verdict.PASS, Verdict.PASS),
        (with_one(BucketState.DIFFERS), Verdict.FAIL, Verdict.PASS),
        (with_one(BucketState.UNKNOWN), Verdict.UNKNOWN, Verdict.PASS),
        (with_one(BucketState.NOT_YET), Verdict.PASS, Verdict.CONDITIONS),
        (with_one(BucketState.OVERDUE), Verdict.PASS, Verdict.FAIL),
        (with_one(BucketState.DIFFERS, "others"), Verdict.PASS, Verdict.PASS),
        (with_one(BucketState.DIFFERS, unjudged=3), Verdict.FAIL, Verdict.PASS),
        (replace(ALL_EQUAL, unjudged=3), Verdict.UNKNOWN, Verdict.PASS),
        (BucketReport((), (), ReadEnds(1, 1)), Verdict.UNKNOWN, Verdict.UNKNOWN),
        (NONE_PASSED, Verdict.UNKNOWN, Verdict.CONDITIONS),
    ],
)
def test_topic_checks_use_buckets_of_the_topic_only(report: BucketReport, whole: Verdict, in_time: Verdict) -> None:
    assert [check.verdict for check in topic_checks(report, "orders")] == [whole, in_time]


def test_topic_checks_name_oldest_differing_bucket() -> None:
    first, _ = topic_checks(with_one(BucketState.DIFFERS), "orders")
    assert first.evidence == (
        "5 of 6 buckets that the mirror has passed are equal; 1 differ, the oldest orders-0 from 1970-01-01 00:01:00"
    )


@pytest.mark.parametrize("state", [BucketState.NOT_YET, BucketState.OVERDUE])
def test_topic_checks_complete_buckets_are_counted_among_those_that_the_mirror_has_passed(state: BucketState) -> None:
    whole, _ = topic_checks(with_one(state), "orders")
    assert (whole.verdict, whole.evidence) == (
        Verdict.PASS,
        "5 of 5 buckets that the mirror has passed are equal",
    )


@pytest.mark.parametrize(
    ("read_to_ms", "why", "verdict"),
    [
        (70_000, "", Verdict.PASS),
        (69_000, "", Verdict.UNKNOWN),
        (None, "", Verdict.UNKNOWN),
        (99_000, "it is silent", Verdict.UNKNOWN),
    ],
)
def test_read_check_stale_side_is_unknown(read_to_ms: int | None, why: str, verdict: Verdict) -> None:
    found = read_check("LEFT", read_to_ms, 100_000, 30.0, why)
    assert found.verdict is verdict
    assert why in found.evidence
