"""What the watch of an incident records."""

from __future__ import annotations

from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.watch import symptom_changes


def test_symptom_changes_records_new_ones_and_those_that_are_gone() -> None:
    assert symptom_changes(set(), set()) == ()
    assert symptom_changes({"a", "b"}, {"b", "c", "d"}) == (
        (EventKind.SYMPTOM, "c"),
        (EventKind.SYMPTOM, "d"),
        (EventKind.SYMPTOM_GONE, "a"),
    )
