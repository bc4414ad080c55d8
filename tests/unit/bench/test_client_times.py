"""Which cases are measured, and what the table says of runs that were in time and of those that were not."""

from __future__ import annotations

import pytest
from repository_root import ROOT

from bench.client_times import BEGIN, END, Case, Times, cases, cell, placed, row, table
from drlib.lab.clients.families import BY_NAME

TIMES = [Times(1.01, 2.0, 3.0, 0.1), Times(1.0, 2.5, None, 0.4), Times(1.02, 4.0, 9.0, 0.0)]


def test_family_is_measured_both_ways_where_its_recommended_settings_are_no_defaults() -> None:
    found = [(case.family.name, case.settings) for case in cases(["java", "java-3.9", "aiokafka"])]
    assert found == [
        ("java", "default"),
        ("java-3.9", "default"),
        ("java-3.9", "`metadata.recovery.strategy=rebootstrap`"),
        ("aiokafka", "default"),
        ("aiokafka", "begun again after 8 s without a record"),
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ([1.24], "1.2 s (1.2 to 1.2)"),
        ([3.0, 1.0, 2.0], "2.0 s (1.0 to 3.0)"),
        ([3.0, None, 2.0], "2.5 s (2.0 to 3.0); 1 of 3 not within 70 s"),
        ([None, None], "not within 70 s"),
    ],
)
def test_cell_has_median_range_and_what_was_not_in_time(seconds: list[float | None], said: str) -> None:
    assert cell(seconds, 70.0) == said


def test_table_reports_the_delay_apart_and_how_busy_the_machine_was() -> None:
    java = row(Case(BY_NAME["java"], recommended=False), "4.3.1", TIMES, 70.0)
    assert java == (
        "| Java kafka-clients 4.3.1 | default | 2.5 s (2.0 to 4.0) | 6.0 s (3.0 to 9.0); 1 of 3 not within 70 s |"
    )
    console = row(Case(BY_NAME["console"], recommended=False), "4.3.1", TIMES, 70.0)
    assert "| not reported |" in console
    found = table([java, console], TIMES, 3)
    assert "The pointer moved 1.0 to 1.0 s after SIGKILL" in found
    assert "at most 0.4 of them busy" in found
    assert found.endswith(f"{java}\n{console}\n")


def test_page_of_clients_has_a_place_for_the_table() -> None:
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    made = placed(page, "the table\n")
    assert f"{BEGIN}\nthe table\n{END}" in made
    assert placed(made, "another\n") != made
    with pytest.raises(ValueError, match="has no"):
        placed("nothing", "the table\n")
