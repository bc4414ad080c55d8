"""What the checks of an audit claim, against their figures."""

from __future__ import annotations

import pytest

from drlib.analysis.audit.result import CheckpointAudit, PartitionAudit, conclude
from drlib.analysis.sessions.nightly_audit import checkpoints_check, copy_checks, lost_check
from drlib.model import TopicPartition
from drlib.runs.check import Verdict

BEHIND = "orders: nothing was lost, and at most 300 s are not mirrored yet"


@pytest.mark.parametrize(
    ("missing", "holes", "seconds", "name", "verdict", "evidence"),
    [
        (0, 0, 0.0, "orders: nothing was lost", Verdict.PASS, "0 of 58,441 records were lost"),
        (4, 4, 1.0, "orders: nothing was lost", Verdict.FAIL, "4 of 58,441 records were lost"),
        (
            9,
            4,
            1.0,
            "orders: nothing was lost",
            Verdict.FAIL,
            "4 of 58,441 records were lost; 5 are not mirrored yet, ",
        ),
        (
            4,
            0,
            1.0,
            BEHIND,
            Verdict.CONDITIONS,
            "0 of 58,441 records were lost; 4 are not mirrored yet, 1.0 s of traffic",
        ),
        (
            4,
            0,
            301.0,
            BEHIND,
            Verdict.FAIL,
            "0 of 58,441 records were lost; 4 are not mirrored yet, 301.0 s of traffic",
        ),
    ],
)
def test_lost_check_name_verdict_and_figure_agree(
    missing: int, holes: int, seconds: float, name: str, verdict: Verdict, evidence: str
) -> None:
    result = conclude([PartitionAudit(0, 58_441, 58_441 - missing, missing, 0, 0, 0, 0, holes, 0, seconds)])
    check = lost_check("orders", result, holes, Verdict.PASS, 300.0)
    assert (check.name, check.verdict) == (name, verdict)
    assert check.evidence.startswith(evidence)


@pytest.mark.parametrize(
    ("re_read", "skipped", "allowed", "exact", "verdict"),
    [
        (0, 0, 10, True, Verdict.PASS),
        (4, 0, 10, False, Verdict.CONDITIONS),
        (11, 0, 10, False, Verdict.FAIL),
        (4, 0, 0, True, Verdict.FAIL),
        (4, 1, 10, True, Verdict.FAIL),
    ],
)
def test_checkpoints_check_is_exact_only_where_nothing_is_read_again(
    re_read: int, skipped: int, allowed: int, exact: bool, verdict: Verdict
) -> None:
    row = CheckpointAudit("g", TopicPartition("A.orders", 0), 10, 10, re_read, skipped)
    check = checkpoints_check("orders", [row], allowed)
    assert (check.name.endswith("checkpoints are exact"), check.verdict) == (exact, verdict)
    assert exact or "reads at most 10 records again" in check.name


@pytest.mark.parametrize(
    ("re_read", "skipped", "allowed", "verdict"),
    [
        (0, 0, 0, Verdict.PASS),
        (7, 0, 0, Verdict.CONDITIONS),  # the logs differ in order
        (7, 0, 6, Verdict.FAIL),
        (7, 1, 0, Verdict.FAIL),
    ],
)
def test_checkpoints_where_both_directions_copy_may_read_again_but_not_skip(
    re_read: int, skipped: int, allowed: int, verdict: Verdict
) -> None:
    found = CheckpointAudit("billing", TopicPartition("orders", 0), 10, 10, re_read, skipped)
    check = checkpoints_check("orders", [found], allowed, in_any_order=True)
    assert check.verdict is verdict
    assert (check.name == "orders: checkpoints are exact") == (
        verdict is not Verdict.CONDITIONS and not (allowed and not skipped)
    )


def test_copy_checks_of_a_target_without_records_are_unknown() -> None:
    empty = conclude([PartitionAudit(0, 5, 0, 5, 0, 0, 0, 0, 0, 0, 1.0)])
    assert {check.verdict for check in copy_checks("orders", empty, Verdict.PASS, 0)} == {Verdict.UNKNOWN}
    one = conclude([PartitionAudit(0, 5, 1, 4, 0, 0, 0, 0, 0, 0, 1.0)])
    assert {check.verdict for check in copy_checks("orders", one, Verdict.PASS, 0)} == {Verdict.PASS}


def test_copy_checks_without_a_record_on_both_sides_are_unknown() -> None:
    """The source's log has expired: 30 copies are in order and unaltered because none was compared."""
    expired = conclude([PartitionAudit(0, 0, 30, 0, 0, 0, 0, 0, 0, 30, 0.0)])
    assert {check.verdict for check in copy_checks("orders", expired, Verdict.UNKNOWN, 30)} == {Verdict.UNKNOWN}
    newer = conclude([PartitionAudit(0, 5, 30, 0, 0, 0, 0, 0, 0, 25, 0.0)])
    found = {check.name: check.verdict for check in copy_checks("orders", newer, Verdict.UNKNOWN, 25)}
    assert found["orders: every key is in order"] is Verdict.PASS
    assert found["orders: nothing was invented"] is Verdict.UNKNOWN
    others = conclude([PartitionAudit(0, 5, 6, 5, 6, 0, 0, 0, 0, 0, 1.0)])
    found = {check.name: check.verdict for check in copy_checks("orders", others, Verdict.PASS, 0)}
    assert found["orders: nothing was invented"] is Verdict.FAIL
    assert found["orders: every key is in order"] is Verdict.UNKNOWN


def test_checkpoints_of_which_one_number_is_unknown_are_no_pass() -> None:
    half = CheckpointAudit("g", TopicPartition("orders", 0), 5, 5, re_read=0, skipped=None)
    assert checkpoints_check("orders", [half], 10).verdict is Verdict.UNKNOWN
    assert checkpoints_check("orders", [], 10).verdict is Verdict.UNKNOWN
