"""The files of an incident: both journals, and the sealed plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.errors import UsageError
from drlib.runs import journal
from drlib.runs.journal import JOURNAL, JournalTampered
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.record import GAME, IncidentRecord
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.rules.seed import draw_plan


def test_record_events_merges_both_journals_in_order(record: IncidentRecord) -> None:
    kinds = [event.kind for event in record.events()]
    assert kinds[0] is EventKind.STARTED
    assert kinds[1] is EventKind.CAUSE_IN
    assert kinds[-2:] == [EventKind.RECOVERED, EventKind.FINISHED]
    assert record.injected_causes() == draw_plan(1, 1).causes
    assert record.finished()
    assert "link-cut-one-way" not in (record.folder / JOURNAL).read_text().split('"diagnosed"')[0]


def test_record_events_same_millisecond_keeps_cause_before_symptom(
    record: IncidentRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cause precedes the symptom and the move that follow within the same millisecond."""
    lines = {path: journal.read(path) for path in (record.folder / JOURNAL, record.folder / GAME / JOURNAL)}
    at = lines[record.folder / JOURNAL][0].at
    monkeypatch.setattr(IncidentRecord, "_lines", lambda _, path: tuple(replace(line, at=at) for line in lines[path]))
    kinds = [event.kind for event in record.events()]
    assert kinds[:2] == [EventKind.STARTED, EventKind.CAUSE_IN]
    assert kinds.index(EventKind.CAUSE_IN) < kinds.index(EventKind.SYMPTOM)
    assert kinds[-1] is EventKind.FINISHED


def test_record_changed_line_or_plan_is_detected(record: IncidentRecord) -> None:
    sealed = record.folder / GAME / "incident.json"
    sealed.write_text(sealed.read_text().replace("link-cut-one-way", "full-disk"))
    with pytest.raises(UsageError, match="not the one that was started"):
        Incident(record.folder).reveal()
    path = record.folder / GAME / JOURNAL
    path.write_text(path.read_text().replace("RIGHT", "LEFT"))
    with pytest.raises(JournalTampered):
        record.events()
