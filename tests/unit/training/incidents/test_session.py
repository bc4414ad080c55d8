"""An incident's scorecard."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from drlib.cli.process import run_command
from drlib.errors import UsageError
from drlib.runs.check import Verdict
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.avoided_loss import Sample
from drlib.training.incidents.rules.reveal import build_reveal
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.rules.seed import draw_plan
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


def test_hint_says_its_price_first_and_nothing_about_the_fault(tmp_path: Path) -> None:
    record = IncidentRecord(tmp_path)
    plan = draw_plan(1, 1)
    record.write(
        EventKind.STARTED, seed=1, level=1, sealed=record.seal_plan(plan), lab=str(tmp_path / "lab"), own_lab=True
    )
    session = IncidentSession(Incident(record.folder))
    before = session.hint().note
    assert "costs 5 of 100 points; nothing was charged yet" in before
    assert "incident.hint(take=True)" in before
    assert "drlib incident hint --take" in before
    with pytest.raises(UsageError, match="no fault was injected yet"):
        session.hint(take=True)
    (cause,) = plan.causes
    record.write_sealed(EventKind.CAUSE_IN, cause=cause.cause, where=cause.where, how=cause.how, by="the seed")
    assert session.hint().note == before  # whether there is a fault would be an answer, for nothing
    assert EventKind.HINTED not in [line.event for line in record.lines()]
    (injected,) = record.injected_causes()
    assert session.hint(take=True).note == injected.render(injected.definition.hints[0])
    assert [line.event for line in record.lines()].count(EventKind.HINTED) == 1
    assert session.hint().note == before


def test_command_hint_says_its_price_first(
    record: IncidentRecord, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (record.folder / "running").mkdir()
    running = IncidentRecord(record.folder / "running")
    plan = draw_plan(2, 1)
    running.write(EventKind.STARTED, seed=2, level=1, sealed=running.seal_plan(plan), lab="lab", own_lab=True)
    (cause,) = plan.causes
    running.write_sealed(EventKind.CAUSE_IN, cause=cause.cause, where=cause.where, how=cause.how, by="the seed")
    for options, hints in (((), 0), (("--take",), 1)):
        monkeypatch.setattr(sys, "argv", ["drlib", "incident", "hint", *options, "--run", str(running.folder)])
        assert run_command() == 0
        assert ("nothing was charged yet" in capsys.readouterr().out) is not bool(options)
        assert [line.event for line in running.lines()].count(EventKind.HINTED) == hints
    monkeypatch.setattr(sys, "argv", ["drlib", "incident", "hint", "--run", str(record.folder)])
    assert run_command() == 2  # it is over


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
