"""An incident's scorecard."""

from __future__ import annotations

import json

from drlib.runs.check import Verdict
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.reveal import build_reveal
from drlib.training.incidents.session import scorecard


def test_scorecard_passes_from_the_given_points_on(record: IncidentRecord) -> None:
    incident = Incident(record.folder)
    reveal = build_reveal(record.events(), record.measurements())
    passed = scorecard(reveal, "incident-day", incident, 75)
    assert passed.verdict is Verdict.CONDITIONS
    hints = next(check for check in passed.checks if check.name == "hints")  # points were deducted, and it says so
    assert (hints.verdict, hints.evidence[:11]) == (Verdict.CONDITIONS, "-5 of 0 poi")
    card = scorecard(reveal, "incident-day", incident, 76)
    assert card.verdict.value == "fail"
    assert {check.name for check in card.checks} >= {"the score", "recovery", "harmful moves", "hints"}
    assert json.loads(card.model_dump_json())["records"]["lost"] == 0
