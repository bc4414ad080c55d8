"""Findings about clients that write to the cluster that stands by."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_observation import NOW

from drlib.drill.readiness.checks.writers import standby as checks
from drlib.drill.readiness.checks.writers.standby import standby
from drlib.drill.readiness.score import Severity
from drlib.drill.writers.rules import HOUR_MS, Standby, StandbyWriters, Writer
from drlib.kafka.protocol.batch import NO_PRODUCER

BY = Standby("lyon", "paris", 0, "the pointer names paris")
NONE = StandbyWriters(BY, since_ms=NOW - HOUR_MS, partitions=3, own=1)
SHOP = Writer("orders", 4001, 2, (0, 2), 1234, NOW - 12_000, "shop")


def one(found: StandbyWriters) -> tuple[str, Severity, str, str]:
    (row,) = standby(found, NOW)
    return row


@pytest.mark.parametrize(
    ("found", "evidence"),
    [
        (NONE, "lyon stands by (the pointer names paris): no client wrote to 3 partitions there since 20"),
        (NONE, "; 1 producer there is the mirror's"),
        (replace(NONE, own=2), "; 2 producers there are the mirror's"),
        (replace(NONE, partitions=0), "has none of the flow's topics yet"),
        (StandbyWriters(None, "clients may write to both"), "not asked: clients may write to both"),
    ],
)
def test_cluster_that_no_client_writes_to_is_ok(found: StandbyWriters, evidence: str) -> None:
    entity, severity, said, fix = one(found)
    assert (entity, severity, fix) == ("", Severity.OK, "")
    assert evidence in said


def test_client_that_writes_is_named_with_all_that_is_known_of_it() -> None:
    entity, severity, said, fix = one(replace(NONE, writers=(SHOP,)))
    assert (entity, severity) == ("producer ID 4001", Severity.WARN)
    assert said == (
        "orders on lyon, which stands by (the pointer names paris), partitions 0, 2: 1,234 records, the last 12 s ago "
        "(2026-11-21 09:59:48.000 UTC), epoch 2, transactional ID shop"
    )
    assert fix.startswith("Let it write to paris;")


def test_client_of_which_less_is_known_is_named_too() -> None:
    writer = Writer("orders", 4001, -1, (0,), 1, -1, at_least=True)
    _, severity, said, _ = one(replace(NONE, writers=(writer,)))
    assert severity is Severity.WARN, "its records are there"
    assert said.endswith(
        "partition 0: at least 1 record, the last at an unknown time, epoch unknown, no transactional ID is known"
    )


@pytest.mark.parametrize(
    ("last_ms", "records", "severity"),
    [
        (NOW - HOUR_MS, 0, Severity.WARN),
        (NOW - HOUR_MS - 1, 9, Severity.ADVICE),
        (-1, 9, Severity.WARN),
        (-1, 0, Severity.ADVICE),
    ],
)
def test_client_that_wrote_within_the_hour_is_a_warning_and_before_that_advice(
    last_ms: int, records: int, severity: Severity
) -> None:
    assert one(replace(NONE, writers=(replace(SHOP, last_ms=last_ms, records=records),)))[1] is severity


def test_of_producers_without_an_id_only_the_number_of_their_records_is_known() -> None:
    entity, _, said, _ = one(replace(NONE, writers=(replace(SHOP, producer_id=NO_PRODUCER),)))
    assert entity == "orders"
    assert "1,234 records of producers without an ID, the last 12 s ago" in said
    assert said.endswith("how many producers that are, and which, is not known")


def test_partition_that_was_not_asked_about_is_unknown_beside_what_was_found() -> None:
    rows = standby(replace(NONE, writers=(SHOP,), missing=(("orders-1", "no leader"),)), NOW)
    assert [(row[0], row[1]) for row in rows] == [
        ("producer ID 4001", Severity.WARN),
        ("orders-1", Severity.UNKNOWN),
    ]
    assert rows[1][2] == "not asked: no leader"


def test_log_that_was_not_read_to_its_end_is_no_pass() -> None:
    entity, severity, said, fix = one(replace(NONE, unread=70_000))
    assert (entity, severity) == ("lyon", Severity.UNKNOWN)
    assert said.startswith("70,000 offsets of lyon")
    assert "drlib doctor" in fix


def test_flow_of_mirror_maker_is_not_checked_and_that_costs_nothing() -> None:
    ((_, severity, said, _),) = standby(None, NOW)
    assert severity is Severity.ADVICE
    assert said.startswith("not checked: MirrorMaker 2")


def test_of_many_clients_the_first_are_named_and_the_rest_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MOST", 1)
    old = replace(SHOP, producer_id=4003, last_ms=NOW - 2 * HOUR_MS)
    rows = standby(replace(NONE, writers=(SHOP, replace(SHOP, producer_id=4002), old)), NOW)
    assert [(row[0], row[1]) for row in rows] == [("producer ID 4001", Severity.WARN), ("lyon", Severity.WARN)]
    assert rows[1][2] == "and 2 producers more"
    assert standby(replace(NONE, writers=(SHOP, old)), NOW)[1][1] is Severity.ADVICE
