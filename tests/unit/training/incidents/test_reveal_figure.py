"""The figure of the reveal and its animation."""

from __future__ import annotations

from itertools import pairwise

import pytest

from drlib.errors import UsageError
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.reveal_figure import replay_figure, reveal_figure
from drlib.training.incidents.rules.causes import CAUSES, InjectedCause
from drlib.training.incidents.rules.reveal import Reveal, TimelineEntry, Track, build_reveal
from drlib.training.incidents.rules.score import Measurements
from drlib.ui.figures import figures

NOTHING = Measurements(True, 0, 0)
LONG = max(
    (InjectedCause(cause.name, cause.wheres[0], cause.hows[0]) for cause in CAUSES.values()),
    key=lambda c: len(c.render(c.definition.story)),
)
SYMPTOM = "committed offsets of groups move on LEFT but not on RIGHT"


def reveal_of(*entries: TimelineEntry) -> Reveal:
    return Reveal((LONG,), entries, build_reveal((), NOTHING).score, NOTHING)


def labels(figure: object) -> list[str]:
    return [one.text.replace("<br>", " ") for one in figure.layout.annotations]  # type: ignore[attr-defined]


def test_every_text_is_whole_in_lines_of_300_pixels(record: IncidentRecord) -> None:
    long = "a word and another " * 12
    reveal = reveal_of(
        TimelineEntry(0, Track.CAUSE, LONG.render(LONG.definition.story)),
        TimelineEntry(3, Track.SYMPTOM, SYMPTOM),
        TimelineEntry(5, Track.MOVE, f"hint: {long}", hint=True),
    )
    figure = reveal_figure(reveal, 0)
    assert sorted(labels(figure)) == sorted(
        [f"0 s fault: {reveal.entries[0].text}", f"3 s symptom: {SYMPTOM}", f"5 s move: hint: {long.strip()}"]
    )
    lines = [line for one in figure.layout.annotations for line in one.text.split("<br>")]
    assert max(map(len, lines)) * figures.CHARACTER <= 310
    title = figure.layout.title.text.removeprefix("<b>").removesuffix("</b>")
    assert title == f"The incident: {reveal.score.points:g} of 100 points"
    assert len(title) <= 32, "one line of 300 pixels"
    assert "…" not in figure.to_json()


def test_marks_differ_for_right_wrong_hint_and_what_is_not_judged() -> None:
    reveal = reveal_of(
        TimelineEntry(0, Track.MOVE, "acknowledge"),
        TimelineEntry(1, Track.MOVE, "heal-link LEFT", correct=True),
        TimelineEntry(2, Track.MOVE, "stop-mirror (wrong)", correct=False),
        TimelineEntry(3, Track.MOVE, "hint: look", hint=True),
    )
    (marks,) = [trace for trace in reveal_figure(reveal, 0).data if trace.mode == "markers" and len(trace.x)]
    assert dict(zip([data[0] for data in marks.customdata], marks.marker.symbol, strict=True)) == {
        "acknowledge": "circle",
        "heal-link LEFT": "diamond",
        "stop-mirror (wrong)": "x",
        "hint: look": "triangle-up",
    }


def test_symptom_has_one_row_with_a_line_for_each_time_it_was_there() -> None:
    entries = [
        TimelineEntry(0, Track.SYMPTOM, SYMPTOM),
        TimelineEntry(4, Track.SYMPTOM, f"gone: {SYMPTOM}"),
        TimelineEntry(6, Track.SYMPTOM, SYMPTOM),
        TimelineEntry(9, Track.OUTCOME, "finished"),
    ]
    figure = reveal_figure(reveal_of(*entries), 0)
    assert labels(figure) == ["9 s state: finished", f"0 s symptom: {SYMPTOM}"]
    seconds = [None if at is None else float(at[-6:]) for at in figure.data[0].x]
    assert seconds == [0, 4, None, 6, 9, None]


def test_rows_do_not_overlap_whatever_the_texts(record: IncidentRecord) -> None:
    reveal = build_reveal(record.events(), record.measurements())
    figure = reveal_figure(reveal, record.started_ms())
    spans = sorted((one.y, one.y + len(one.text.split("<br>"))) for one in figure.layout.annotations)
    assert all(lower[1] <= higher[0] for lower, higher in pairwise(spans))
    assert len(spans) == len(reveal.entries), "every entry has a row; no symptom came twice"


def test_replay_has_a_frame_for_each_moment_and_what_happened_in_words() -> None:
    entries = (
        TimelineEntry(10, Track.CAUSE, "a fault"),
        TimelineEntry(14, Track.SYMPTOM, SYMPTOM),
        TimelineEntry(14, Track.MOVE, "acknowledge"),
        TimelineEntry(20, Track.SYMPTOM, f"gone: {SYMPTOM}"),
    )
    figure = replay_figure(reveal_of(*entries), 0, 5.0)
    assert [frame.name for frame in figure.frames] == ["0.0 s", "4.0 s", "10.0 s"]
    counts = [sum(len(trace.x) for trace in frame.data if trace.mode == "markers") for frame in figure.frames]
    assert counts == [1, 3, 4]
    assert all(len(frame.data) == len(figure.data) for frame in figure.frames)
    assert [len(frame.data[0].x) for frame in figure.frames] == [0, 3, 3]
    assert [[at[-6:] for at in frame.data[0].x if at] for frame in figure.frames[1:]] == [
        ["14.000", "14.000"],
        ["14.000", "20.000"],
    ]
    meta = figure.layout.meta
    assert meta["speed"] == 5.0
    assert [one["after_s"] for one in meta["replay"]] == [0, 4, 10]
    assert meta["replay"][1]["text"] == f"symptom: {SYMPTOM}; move: acknowledge"
    assert [step.label for step in figure.layout.sliders[0].steps] == [frame.name for frame in figure.frames]
    assert [button.label for button in figure.layout.updatemenus[0].buttons] == ["Play", "Stop"]
    with pytest.raises(UsageError, match="speed 0"):
        replay_figure(reveal_of(*entries), 0, 0.0)


def test_replay_of_a_long_incident_has_a_bounded_number_of_frames() -> None:
    figure = replay_figure(reveal_of(*(TimelineEntry(n, Track.MOVE, "acknowledge") for n in range(700))), 0)
    assert 10 < len(figure.frames) <= 20
    assert figure.frames[-1].name == "699.0 s"


def test_incident_without_events_says_so() -> None:
    for figure in (reveal_figure(reveal_of(), 0), replay_figure(reveal_of(), 0)):
        assert labels(figure) == ["No events were recorded."]
