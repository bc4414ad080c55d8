"""What the counts of an audit lead to: a fault fails, a tail is measured, what cannot be seen is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.analysis.audit.compare import read_failure
from drlib.analysis.audit.result import PartitionAudit, conclude, unreadable
from drlib.runs.check import Verdict

CLEAN = PartitionAudit(
    partition=0,
    source_records=10,
    target_records=10,
    missing=0,
    invented=0,
    duplicated=0,
    out_of_order=0,
    altered=0,
    holes=0,
    unseen=0,
    rpo_seconds=0.0,
)


def test_conclude_clean_copy_passes_without_reasons() -> None:
    result = conclude([CLEAN])
    assert (result.verdict, result.reasons, result.rpo_seconds) == (Verdict.PASS, (), 0.0)


def test_conclude_missing_tail_passes_and_is_rpo() -> None:
    late = replace(CLEAN, partition=1, missing=3, rpo_seconds=1.5)
    result = conclude([late, replace(CLEAN, missing=1, rpo_seconds=0.5)])
    assert (result.verdict, result.rpo_records, result.rpo_seconds) == (Verdict.PASS, 4, 1.5)
    assert result.missing_in_tail is True
    assert [row.partition for row in result.per_partition] == [0, 1]


@pytest.mark.parametrize("fault", ["invented", "duplicated", "out_of_order", "altered"])
def test_conclude_one_fault_in_one_partition_fails(fault: str) -> None:
    result = conclude([CLEAN, replace(CLEAN, partition=1, **{fault: 1})])
    assert result.verdict is Verdict.FAIL
    assert getattr(result, fault) == 1
    assert len(result.reasons) == 1


def test_conclude_hole_fails_and_is_not_in_tail() -> None:
    result = conclude([replace(CLEAN, missing=2, holes=1)])
    assert (result.verdict, result.missing_in_tail) == (Verdict.FAIL, False)


def test_conclude_unseen_is_unknown_unless_a_fault_exists() -> None:
    assert conclude([replace(CLEAN, unseen=1)]).verdict is Verdict.UNKNOWN
    both = conclude([replace(CLEAN, unseen=1, altered=1)])
    assert both.verdict is Verdict.FAIL
    assert len(both.reasons) == 2


def test_conclude_empty_source_is_unknown() -> None:
    assert conclude([]).verdict is Verdict.UNKNOWN
    assert conclude([replace(CLEAN, source_records=0, target_records=0)]).verdict is Verdict.UNKNOWN


def test_conclude_empty_target_is_unknown() -> None:
    nothing = conclude([replace(CLEAN, target_records=0, missing=9)])
    assert (nothing.verdict, nothing.reasons) == (Verdict.UNKNOWN, ("the target holds no record to compare",))


def test_unreadable_has_no_counts() -> None:
    result = unreadable("gone")
    assert (result.verdict, result.reasons) == (Verdict.UNKNOWN, ("gone",))
    assert (result.missing, result.source_records, result.rpo_seconds, result.missing_in_tail) == (None,) * 4


def test_read_failure_recognises_read_errors_only() -> None:
    lost = "Job aborted\n  Caused by: Cannot fetch offset 3. Some data may have been lost because they expired\n at x"
    assert read_failure(lost) == (
        "the records could not be read: Caused by: Cannot fetch offset 3. Some data may have been lost because they expired"
    )
    assert read_failure("[UNRESOLVED_COLUMN] a column 'keys' cannot be resolved") is None
    assert read_failure("java.lang.OutOfMemoryError: Java heap space") is None
