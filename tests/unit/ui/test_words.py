"""What a drill measured, in words."""

from __future__ import annotations

from drlib.runs.scorecard import Rpo
from drlib.ui import words


def test_rpo_as_text() -> None:
    assert words.at_risk(Rpo()) == "unknown"
    assert words.at_risk(Rpo(measured=False)) == "not measured by this drill"
    assert words.at_risk(Rpo(records=1, seconds=0.5)) == "1 record, 0.500 s"
    assert words.at_risk(Rpo(records=0)) == "0 records, unknown"
