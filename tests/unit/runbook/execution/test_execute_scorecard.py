"""What a notebook that ended early adds to its scorecard, and what its scorecard says already."""

from __future__ import annotations

from pathlib import Path

import pytest
import sample_scorecard as sample

from drlib.runbook.execution.execute import RAN, _scorecard
from drlib.runbook.file.model import Runbook
from drlib.runs.check import Check, Verdict
from drlib.runs.folder import RunFolder

BOOK = Runbook(name="failover-drill", title="t", notebook=Path("n.ipynb"))
MISSED = Check("objective: RPO in records", Verdict.FAIL, "33,567 of at most 20,000 records: 13,567 records too many")
OTHER = Check("every key is in order", Verdict.FAIL, "3 records")


def states(folder: Path, check: Check, error: str, missed: bool) -> dict[str, Verdict]:
    sample.scorecard(checks=(check,), verdict=Verdict.FAIL).write(folder / "scorecard.json")
    card = _scorecard(BOOK, RunFolder(folder, folder.name), 1, error, missed=missed)
    return {each.name: each.verdict for each in card.checks}


def test_scorecard_objective_that_ended_the_notebook_is_said_once(tmp_path: Path) -> None:
    assert states(tmp_path, MISSED, "missed an objective", True) == {MISSED.name: Verdict.FAIL}


@pytest.mark.parametrize(("check", "missed"), [(MISSED, False), (OTHER, True)])
def test_scorecard_notebook_that_ended_for_another_reason_is_unknown_besides(
    tmp_path: Path, check: Check, missed: bool
) -> None:
    assert states(tmp_path, check, "KeyError: x", missed) == {check.name: Verdict.FAIL, RAN: Verdict.UNKNOWN}
