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


def without(record: IncidentRecord, name: str) -> None:
    path = record.folder / GAME / JOURNAL
    first = journal.read(path)[0]
    path.unlink()
    book = journal.DrillJournal(path)
    book.write(first.event, **{key: value for key, value in first.data.items() if key != name})
    book.close()


@pytest.mark.parametrize("name", ["cause", "where", "how"])
def test_record_cause_without_its_parts_is_refused(record: IncidentRecord, name: str) -> None:
    without(record, name)
    with pytest.raises(UsageError, match="line 1 is none of an incident"):
        record.events()


@pytest.mark.parametrize(("event", "data"), [("danced", {}), ("acted", {}), ("acted", {"move": "fly"})])
def test_record_event_that_no_incident_writes_is_refused(
    record: IncidentRecord, event: str, data: dict[str, str]
) -> None:
    book = journal.DrillJournal(record.folder / JOURNAL)
    book.write(event, **data)
    book.close()
    with pytest.raises(UsageError):
        record.events()


def test_record_without_a_line_is_no_incident(record: IncidentRecord) -> None:
    (record.folder / JOURNAL).write_bytes(b"")
    with pytest.raises(UsageError, match="no incident"):
        record.events()
    with pytest.raises(UsageError, match="no incident"):
        record.started_ms()
