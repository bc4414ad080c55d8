"""Verdict of a duplicate report: duplicates fail unless allowed, unknown causes are unknown; steps of the heat map."""

from __future__ import annotations

import pytest

from drlib.analysis.duplicates.result import (
    MOST_STEPS,
    WIDTHS_MS,
    Cause,
    DuplicateReport,
    Reread,
    doubts_of,
    judge,
    step_for,
)
from drlib.runs.check import Verdict


@pytest.mark.parametrize("cause", [Cause.REPLICATOR, Cause.PRODUCER, Cause.FAILOVER])
def test_judge_one_duplicate_fails_unless_cause_is_allowed(cause: Cause) -> None:
    verdict, (reason,) = judge({cause: 1})
    assert (verdict, reason.split()[0]) == (Verdict.FAIL, "1")
    assert judge({cause: 1}, allowed=(cause,)) == (Verdict.PASS, ())
    assert judge({cause: 1}, ["the source was not read"])[0] is Verdict.FAIL


@pytest.mark.parametrize(
    ("found", "verdict"), [(0, Verdict.FAIL), (2, Verdict.FAIL), (3, Verdict.PASS), (4, Verdict.FAIL)]
)
def test_judge_planted_duplicates_have_to_be_found_exactly(found: int, verdict: Verdict) -> None:
    planted = {Cause.REPLICATOR: 3}
    judged, reasons = judge({Cause.REPLICATOR: found}, planted=planted)
    assert (judged, len(reasons)) == (verdict, int(verdict is Verdict.FAIL))
    assert all(reason.endswith("and 3 were planted") for reason in reasons)
    assert judge({Cause.REPLICATOR: 3}, ["the source was not read"], planted=planted)[0] is Verdict.UNKNOWN
    allowed = judge({Cause.REPLICATOR: found}, allowed=(Cause.REPLICATOR,), planted=planted)[0]
    assert allowed is (Verdict.PASS if found >= 3 else Verdict.FAIL)


def test_judge_unknown_cause_is_unknown() -> None:
    assert judge({}) == (Verdict.PASS, ())
    assert judge({Cause.UNKNOWN: 2})[0] is Verdict.UNKNOWN
    assert judge({}, ["nothing was read"]) == (Verdict.UNKNOWN, ("nothing was read",))


@pytest.mark.parametrize("span", [0, 1, 5_999, 6_000, 3_599_999, 10**9, 10**12, 10**14])
def test_step_for_gives_at_most_60_steps(span: int) -> None:
    step = step_for(span)
    assert span < step * MOST_STEPS or step * MOST_STEPS >= span
    assert step in WIDTHS_MS or step > WIDTHS_MS[-1]


def test_rate_without_counts_is_none() -> None:
    assert DuplicateReport("t", Verdict.UNKNOWN, ()).rate is None
    counted = DuplicateReport(
        "t", Verdict.FAIL, (), source_records=90, target_records=100, counts={Cause.REPLICATOR: 10}
    )
    assert (counted.total, counted.rate) == (10, 0.1)


def test_doubts_of_rereads_count_once_and_only_where_there_are_records() -> None:
    rereads = [
        Reread("billing", "B", "A.orders", partition, 5, 9, records, 1, "went back", unsure=unsure)
        for partition, records, unsure in ((0, 4, "deleted"), (1, 2, "deleted"), (2, 0, "nothing there"), (3, 4, ""))
    ]
    assert doubts_of(rereads) == ("deleted",)
    assert doubts_of(rereads, (Cause.FAILOVER,)) == ()
