"""What a drill measured, in words."""

from __future__ import annotations

import pytest
import sample_scorecard as sample

from drlib.runs.check import Verdict
from drlib.runs.scorecard import Kind, Records, Rpo, RtoSeconds
from drlib.ui import words


def test_rpo_as_text() -> None:
    assert words.at_risk(Rpo()) == "unknown"
    assert words.at_risk(Rpo(measured=False)) == "not measured by this drill"
    assert words.at_risk(Rpo(records=1, seconds=0.5)) == "1 record, 0.500 s"
    assert words.at_risk(Rpo(records=0)) == "0 records, unknown"
    assert words.at_risk(Rpo(records=60, seconds=60.5, seconds_at_least=58.0, at_least=True)) == (
        "at least 60 records, 58.0 s to 60.5 s"
    )


def test_rto_as_text() -> None:
    assert words.served_again(RtoSeconds()) == "not measured by this drill"
    assert words.served_again(RtoSeconds(why="no fault")) == "not measured: no fault"
    assert words.served_again(RtoSeconds(total=66.0)) == "66.0 s"
    assert words.served_again(RtoSeconds(total=66.0, at_least=65.5)) == "between 65.5 s and 66.0 s"


@pytest.mark.parametrize(
    ("counted", "at_most", "said"),
    [
        (None, None, "unknown"),
        (None, 1200, "at most 1,200"),
        (0, None, "0"),
        (12, 1200, "12 of at most 1,200"),
    ],
)
def test_re_read_is_what_was_counted_else_what_was_predicted(
    counted: int | None, at_most: int | None, said: str
) -> None:
    assert words.re_read(counted, at_most) == said


@pytest.mark.parametrize(
    ("lost", "kind", "said"),
    [
        (0, Kind.DRILL, "Every check holds, and no acknowledged record was lost."),
        (None, Kind.DRILL, "Every check holds."),
        (33, Kind.DRILL, "Every check holds."),
        (0, Kind.ANALYSIS, "Every check holds."),
    ],
)
def test_meaning_says_that_nothing_was_lost_only_where_that_was_counted(
    lost: int | None, kind: Kind, said: str
) -> None:
    card = sample.scorecard(verdict=Verdict.PASS, kind=kind, records=Records(lost=lost))
    assert words.meaning(card) == said
