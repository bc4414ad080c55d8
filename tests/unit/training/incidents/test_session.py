"""An incident's scorecard."""

from __future__ import annotations

import json

import pytest

from drlib.errors import UsageError
from drlib.runs.check import Verdict
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.avoided_loss import Sample
from drlib.training.incidents.rules.reveal import build_reveal
from drlib.training.incidents.session import IncidentSession, scorecard


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


def test_debriefing_is_written_on_request_and_then_named(record: IncidentRecord) -> None:
    session = IncidentSession(Incident(record.folder))
    assert "drlib incident debriefing --write" in session.debriefing().note
    page, markdown = session.write_debriefing()
    assert (page.name, markdown.name) == ("debriefing.html", "debriefing.md")
    assert "75 of 100 points" in page.read_text()
    assert "75 of 100 points" in markdown.read_text()
    assert str(page) in session.debriefing().note
    assert len(session.replay().table.rows) == len(session.incident.reveal().entries)


def test_reveal_says_that_what_was_avoidable_is_unknown_without_samples(record: IncidentRecord) -> None:
    assert "there are no samples from before the symptom" in IncidentSession(Incident(record.folder)).reveal().note


def test_reveal_says_what_an_earlier_right_move_would_have_avoided(record: IncidentRecord) -> None:
    start = record.started_ms()
    record.save_samples([Sample(start + 10 * n, n, 0, 0) for n in range(-100, 500)])
    assert record.samples()[0].unmirrored == -100
    note = IncidentSession(Incident(record.folder)).reveal().note
    assert note.startswith("The first right move, heal-link RIGHT, ")


def test_debriefing_that_cannot_be_written_says_what_to_do(record: IncidentRecord) -> None:
    (record.folder / "debriefing.html").mkdir()
    (record.folder / "debriefing.html" / "taken").touch()
    with pytest.raises(UsageError, match="the debriefing was not written") as refused:
        IncidentSession(Incident(record.folder)).write_debriefing()
    assert "drlib incident debriefing --write" in refused.value.remedy
