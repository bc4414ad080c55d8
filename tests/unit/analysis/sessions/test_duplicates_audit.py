"""Which partitions' duplicates are found by their offset map."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from drlib.analysis.duplicates.result import Cause, DuplicateReport, Reread, doubts_of, judge
from drlib.analysis.sessions.analysed_flow import AnalysedFlow, TopicPair
from drlib.analysis.sessions.duplicates_audit import DuplicatesAudit, cause_check, segments
from drlib.mirror.journal.entries import Ack, ClaimId, Entry, Placement, Run, SourcePartition, Thinned, TopicNames
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.model import Segment
from drlib.runs.check import Check, Verdict

ALL_FOUND = "orders: nothing was copied twice but what was planted, and all of that was found"
TOPIC, C = UUID(int=1), ClaimId(9, 0)


def mapped(number: int, *more: Entry) -> Maps:
    maps = Maps(names={TOPIC: TopicNames(TOPIC, "orders", "A.orders", UUID(int=2))})
    key = SourcePartition(TOPIC, number)
    for entry in (Placement(key, C, 0, 1), Run(key, C, 0, 10), Run(key, C, 5, 16), Ack(key, C, 7, 8), *more):
        maps.get(key).apply(entry)
    return maps


def test_segments_of_a_thinned_map_are_left_out() -> None:
    maps = mapped(0)
    maps.merge([mapped(1, Thinned(SourcePartition(TOPIC, 1), 15, 6, 5, (Segment(10, 1, 5),)))])
    assert segments(maps, "orders", (0, 1, 2)) == {0: (Segment(10, 1, 5), Segment(16, 6, 2))}


@pytest.mark.parametrize(
    ("count", "allowed", "planted", "name", "verdict", "evidence"),
    [
        (0, (), 0, "orders: nothing was copied twice", Verdict.PASS, "0 of 100 records were copied twice"),
        (4, (), 0, "orders: nothing was copied twice", Verdict.FAIL, "4 of 100 records were copied twice"),
        (
            4,
            (Cause.REPLICATOR,),
            0,
            "orders: nothing was copied twice, apart from what the runbook allows",
            Verdict.CONDITIONS,
            "4 of 100 records were copied twice; the runbook allows duplicates of cause replicator",
        ),
        (4, (), 4, ALL_FOUND, Verdict.PASS, "4 of 100 records were copied twice; 4 were planted"),
        (3, (), 4, ALL_FOUND, Verdict.FAIL, "3 of 100 records were copied twice; 4 were planted"),
        (0, (Cause.REPLICATOR,), 4, ALL_FOUND, Verdict.FAIL, "0 of 100 records were copied twice; 4 were planted"),
        (5, (), 4, ALL_FOUND, Verdict.FAIL, "5 of 100 records were copied twice; 4 were planted"),
        (
            5,
            (Cause.REPLICATOR,),
            4,
            f"{ALL_FOUND}, apart from what the runbook allows",
            Verdict.CONDITIONS,
            "5 of 100 records were copied twice; 4 were planted; the runbook allows duplicates of cause replicator",
        ),
    ],
)
def test_cause_check_allowed_and_planted_duplicates_are_named_as_such(
    count: int, allowed: tuple[Cause, ...], planted: int, name: str, verdict: Verdict, evidence: str
) -> None:
    assert cause_check("orders", Cause.REPLICATOR, count, 100, allowed, planted) == Check(name, verdict, evidence)


def test_cause_check_where_no_duplicate_could_be_found_is_no_pass() -> None:
    check = cause_check("orders", Cause.REPLICATOR, 0, 0, (), blind="the mirror topic holds no record")
    assert check.verdict is Verdict.UNKNOWN
    assert check.evidence == "0 of 0 records were copied twice; the mirror topic holds no record"
    found = cause_check("orders", Cause.REPLICATOR, 2, 5, (), blind="some are not seen")
    assert found.verdict is Verdict.FAIL


def test_checks_of_what_groups_may_have_read_again_are_unknown_unless_that_is_allowed() -> None:
    unsure = Reread("billing", "B", "A.orders", 0, 5, 9, 4, 1, "went back", unsure="positions were deleted")
    counted = dict.fromkeys(Cause, 0)

    def verdicts(*allowed: Cause) -> list[Verdict]:
        verdict, reasons = judge(counted, doubts_of([unsure], allowed), allowed)
        report = DuplicateReport("A.orders", verdict, reasons, target_records=9, counts=counted, rereads=(unsure,))
        audit = DuplicatesAudit.__new__(DuplicatesAudit)
        audit._allowed, audit._groups_unread, audit.reports = allowed, "", {"orders": report}
        audit.analysed = cast(AnalysedFlow, SimpleNamespace(practice=None))
        checks = audit._checks(TopicPair("orders", "A.orders"))
        assert [c.evidence for c in checks if c.verdict is Verdict.UNKNOWN] == [
            "0 of 9 records were read again by a group; positions were deleted"
        ] * (not allowed)
        return [check.verdict for check in checks]

    assert verdicts() == [Verdict.PASS, Verdict.PASS, Verdict.UNKNOWN, Verdict.PASS]
    assert verdicts(Cause.FAILOVER) == [Verdict.PASS] * 4
