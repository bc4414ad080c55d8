"""What did not pass comes first, each check once, and no verdict is left without a reason."""

from __future__ import annotations

import pytest
import sample_scorecard as sample

from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Kind, Objectives, Records, Rpo, RtoSeconds
from drlib.ui.severity import SHORT, Row, State, open_rows, rows

WRONG = (
    Check("a", Verdict.PASS, "1"),
    Check("b", Verdict.CONDITIONS, "2"),
    Check("c", Verdict.UNKNOWN, "3"),
    Check("d", Verdict.FAIL, "4"),
    Check("e", Verdict.FAIL, "5"),
)


def test_rows_most_severe_first_and_otherwise_in_the_order_of_the_scorecard() -> None:
    assert [row.name for row in rows(sample.scorecard(checks=WRONG))] == ["d", "e", "c", "b", "a"]


def test_rows_check_made_twice_is_one_row_with_its_worst_state_and_each_evidence_once() -> None:
    again = (Check("a", Verdict.PASS, "1"), Check("a", Verdict.PASS, "1"), Check("a", Verdict.FAIL, "2"))
    assert rows(sample.scorecard(checks=again, verdict=Verdict.FAIL)) == (Row(State.FAIL, "a", "2; pass: 1"),)
    assert rows(sample.scorecard(checks=again[:2], verdict=Verdict.PASS)) == (Row(State.PASS, "a", "1"),)


def test_rows_what_no_step_measured_stands_between_conditions_and_passed_checks() -> None:
    card = sample.scorecard(
        checks=WRONG,
        objectives=Objectives(),
        rto_seconds=RtoSeconds(why="no fault was observed"),
        rpo=Rpo(measured=False),
        records=Records(),
    )
    assert [(row.state, row.name) for row in rows(card)][4:] == [
        (State.NOT_MEASURED, "recovery time (RTO)"),
        (State.NOT_MEASURED, "data at risk (RPO)"),
        (State.NOT_MEASURED, "records lost, duplicated and out of order"),
        (State.PASS, "a"),
    ]
    assert rows(card)[4].evidence == "no fault was observed"


def test_rows_objective_that_was_not_measured_is_its_check_and_no_second_row() -> None:
    missed = Check("objective: RTO in seconds", Verdict.UNKNOWN, "not measured: no fault")
    card = sample.scorecard(
        checks=(missed,), verdict=Verdict.UNKNOWN, rto_seconds=RtoSeconds(), objectives=Objectives(rto_seconds=3)
    )
    assert [row.name for row in rows(card)] == ["objective: RTO in seconds"]


def test_rows_analysis_has_nothing_that_only_a_drill_measures() -> None:
    card = sample.scorecard(
        kind=Kind.ANALYSIS, checks=WRONG[:1], rto_seconds=RtoSeconds(), rpo=Rpo(), records=Records()
    )
    assert [row.name for row in rows(card)] == ["a"]


@pytest.mark.parametrize(
    ("objectives", "limit"),
    [(Objectives(rpo_records=500), "the objective allows 500 records"), (Objectives(), "no objective limits it")],
)
def test_open_rows_verdict_with_conditions_names_its_condition(objectives: Objectives, limit: str) -> None:
    card = sample.scorecard(checks=WRONG[:1], objectives=objectives)
    (row,) = open_rows(card)
    assert (row.state, row.evidence) == (
        State.CONDITIONS,
        f"118 of 181,600 acknowledged records were lost; {limit}",
    )


def test_open_rows_loss_that_only_a_step_measured_is_named() -> None:
    figures = {"records": Records(), "rpo": Rpo(records=3), "objectives": Objectives()}
    card = sample.scorecard(checks=WRONG[:1], verdict=Verdict.CONDITIONS, **figures)
    assert "3 records were lost; no objective limits it" in [row.evidence for row in open_rows(card)]


def test_open_rows_without_any_check_say_that_nothing_is_proven() -> None:
    assert open_rows(sample.unmeasured())[0] == Row(State.UNKNOWN, "no check was made", "so nothing is proven")


def test_row_short_evidence_ends_between_words_and_is_whole_where_it_fits() -> None:
    assert Row(State.PASS, "a", "word " * 30).short == "word " * 30
    cut = Row(State.FAIL, "a", "word, " * 60).short
    assert cut.endswith("word …")
    assert len(cut) <= SHORT + 2
    assert Row(State.FAIL, "a", "x" * 400).short == f"{'x' * SHORT} …"
