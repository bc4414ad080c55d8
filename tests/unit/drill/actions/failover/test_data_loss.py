"""What a failover loses by partition, from literal evidence."""

from dataclasses import replace

import pytest

from drlib.drill.actions.failover.data_loss import PartitionEvidence, loss, worst_s

FAULT = 1_000_000
#: 60 records a minute, the mirror's link was cut 60 s before the source died; all was mirrored when it reported last
CUT = PartitionEvidence("orders", 0, 500, 500, 500, as_of_ms=FAULT - 60_000, last_mirrored_ms=FAULT - 60_500)


def test_loss_source_that_kept_producing_after_its_last_report_is_bounded_by_the_fault() -> None:
    found = loss(CUT, FAULT)
    assert (found.records, found.at_least_s, found.at_most_s) == (0, 0.0, 60.0)
    assert "all was mirrored of what the source had" in found.basis


def test_loss_known_records_span_the_time_since_the_last_mirrored_one() -> None:
    parked = replace(CUT, source_end=560, as_of_ms=FAULT - 100, oldest_missing_s=58.0)
    found = loss(parked, FAULT)
    assert (found.records, found.at_least_s, found.at_most_s) == (60, 58.0, 60.5)


def test_loss_without_a_report_of_the_source_has_unknown_records_and_bounded_seconds() -> None:
    found = loss(replace(CUT, source_end=None, as_of_ms=None), FAULT)
    assert (found.records, found.at_least_s, found.at_most_s) == (None, None, 60.5)
    assert "is not known" in found.basis


@pytest.mark.parametrize(
    ("evidence", "basis"),
    [
        (replace(CUT, source_end=None, as_of_ms=None, last_mirrored_ms=None), "no record of it is on the target"),
        (replace(CUT, as_of_ms=None, last_mirrored_ms=FAULT + 5_000), "5.0 s after the fault, so clocks differ"),
    ],
)
def test_loss_without_a_usable_time_is_unknown_and_not_zero(evidence: PartitionEvidence, basis: str) -> None:
    found = loss(evidence, FAULT)
    assert found.at_most_s is None
    assert basis in found.basis


def test_loss_source_that_answers_with_everything_mirrored_is_exactly_zero() -> None:
    assert loss(CUT, FAULT, exact=True).at_most_s == 0.0


def test_loss_report_after_the_fault_with_everything_mirrored_leaves_nothing() -> None:
    assert loss(replace(CUT, as_of_ms=FAULT + 40), FAULT).at_most_s == 0.0


def test_worst_names_the_widest_partition_and_one_unknown_makes_all_unknown() -> None:
    near = loss(replace(CUT, partition=1, as_of_ms=FAULT - 300), FAULT)
    assert worst_s([near, loss(CUT, FAULT)])[:2] == (0.0, 60.0)
    assert worst_s([near, loss(CUT, FAULT)])[2].startswith("orders-0: ")
    unknown = loss(PartitionEvidence("orders", 2, None, 0, 0), FAULT)
    assert worst_s([near, unknown])[:2] == (None, None)
    assert worst_s([])[:2] == (None, None)
