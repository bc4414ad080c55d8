"""The reveal of an incident, and the timing of its replay."""

from __future__ import annotations

import pytest

from drlib.errors import UsageError
from drlib.training.incidents import pictures
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.causes import InjectedCause
from drlib.training.incidents.rules.moves import parse_move
from drlib.training.incidents.rules.reveal import TimelineEntry, Track, build_reveal, replay_schedule
from drlib.training.incidents.rules.score import EventKind, IncidentEvent, Measurements


def test_build_reveal_rates_every_move_and_gives_the_reference(record: IncidentRecord) -> None:
    reveal = build_reveal(record.events(), record.measurements())
    assert reveal.title == "The link is cut one way"
    assert [entry.correct for entry in reveal.entries if entry.track is Track.MOVE] == [
        None,
        False,
        None,
        True,
        True,
    ]
    (hint,) = [entry for entry in reveal.entries if entry.hint]
    assert (hint.text, hint.state) == ("hint: Look at the link.", "hint"), "it is no fault"
    assert any("(harmful)" in entry.text for entry in reveal.entries)
    assert reveal.score.points == 75
    assert "heal-link" in reveal.reference[0]


def test_build_reveal_two_causes_rate_each_entry_by_what_was_injected_before() -> None:
    killed, sync = InjectedCause("broker-killed", "LEFT"), InjectedCause("stopped-group-sync", "mirror")
    events = (
        IncidentEvent(1, EventKind.CAUSE_IN, cause=killed),
        IncidentEvent(2, EventKind.DIAGNOSED, detail="stopped-group-sync"),
        IncidentEvent(3, EventKind.CAUSE_IN, cause=sync),
        IncidentEvent(4, EventKind.DIAGNOSED, detail="stopped-group-sync"),
        IncidentEvent(5, EventKind.ACTED, move=parse_move(["restart-broker LEFT"]), failed=True),
        IncidentEvent(6, EventKind.ACTED, move=parse_move(["restart-broker LEFT"])),
        IncidentEvent(7, EventKind.RECOVERED),
        IncidentEvent(8, EventKind.RELAPSED),
    )
    reveal = build_reveal(events, Measurements(False, None, None))
    assert reveal.title == "A broker died and Group offsets are no longer synchronized"
    assert [(entry.text, entry.correct) for entry in reveal.entries if entry.track is not Track.CAUSE] == [
        ("diagnosis: stopped-group-sync (wrong)", False),
        ("diagnosis: stopped-group-sync", True),
        ("restart-broker LEFT failed (wrong)", False),
        ("restart-broker LEFT", True),
        ("recovered", True),
        ("no longer recovered", False),
    ]


def test_replay_schedule_begins_with_its_first_entry() -> None:
    entries = [TimelineEntry(at, Track.OUTCOME, "x") for at in (5.0, 7.0)]
    assert [at for at, _ in replay_schedule(entries, 4.0)] == [0.0, 0.5]
    assert replay_schedule([], 4.0) == ()


def test_replay_schedule_keeps_order_and_distances_at_any_speed(record: IncidentRecord) -> None:
    entries = build_reveal(record.events(), record.measurements()).entries
    for speed in (0.5, 1.0, 60.0):
        shown = replay_schedule(entries, speed)
        assert [entry for _, entry in shown] == list(entries)
        assert all(at == pytest.approx((entry.at_s - entries[0].at_s) / speed) for at, entry in shown)
    with pytest.raises(UsageError, match="speed 0"):
        replay_schedule(entries, 0.0)
    assert pictures.replay_line(entries[1]).startswith(f"{entries[1].at_s:7.1f} s")
    long = pictures.replay_line(TimelineEntry(1.0, Track.CAUSE, "every word of a long story " * 6))
    assert max(map(len, long.splitlines())) <= 100
    assert " ".join(long.split()).endswith("every word of a long story")


def test_build_reveal_of_a_team_names_who_did_what_and_what_was_gone() -> None:
    killed = InjectedCause("broker-killed", "LEFT")
    events = (
        IncidentEvent(0, EventKind.SEATED, detail="acting", by="Ana"),
        IncidentEvent(1, EventKind.CAUSE_IN, cause=killed),
        IncidentEvent(2, EventKind.BEGUN, detail="restart-broker LEFT", by="Ana"),
        IncidentEvent(4, EventKind.ACTED, move=parse_move(["restart-broker LEFT"]), by="Ana"),
        IncidentEvent(5, EventKind.DIAGNOSED, detail="wrong-acl", by="Bo"),
        IncidentEvent(6, EventKind.HINTED, detail="Look at LEFT.", by="Bo"),
        IncidentEvent(7, EventKind.SYMPTOM_GONE, detail="a site does not answer"),
    )
    entries = build_reveal(events, Measurements(False, None, None)).entries
    assert [(entry.track, entry.text, entry.correct) for entry in entries if entry.track is not Track.CAUSE] == [
        (Track.OUTCOME, "Ana is acting", None),
        (Track.MOVE, "Ana: restart-broker LEFT begins", None),
        (Track.MOVE, "Ana: restart-broker LEFT", True),
        (Track.MOVE, "Bo: diagnosis: wrong-acl (wrong)", False),
        (Track.MOVE, "Bo: hint: Look at LEFT.", None),
        (Track.SYMPTOM, "gone: a site does not answer", None),
    ]
