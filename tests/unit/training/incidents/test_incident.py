"""What is kept and shown of an incident: sealed and public journals, the reveal, its picture, its replay, and its losses."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from drlib.cli import main
from drlib.errors import UsageError
from drlib.lab.checker.history import History, Mirrored, Produced, ProducedStatus
from drlib.lab.processes import wait_until
from drlib.runs import journal
from drlib.runs.journal import JOURNAL, JournalTampered
from drlib.training.incidents import pictures as views
from drlib.training.incidents import store as incidents
from drlib.training.incidents.incident import Incident, choose
from drlib.training.incidents.lab.measure import lost_of
from drlib.training.incidents.notebook import scorecard
from drlib.training.incidents.record import GAME, Record
from drlib.training.incidents.rules.causes import CAUSES, Planted
from drlib.training.incidents.rules.moves import KINDS
from drlib.training.incidents.rules.reveal import Lane, Moment, due, tell
from drlib.training.incidents.rules.score import Facts, Happened
from drlib.training.incidents.rules.seed import draw
from drlib.training.incidents.rules.symptoms import GroupLook, Look, TopicLook

WELL = Facts(recovered=True, lost=0, read_again=0, doubled=0)
LOOK = Look(
    1_700_000_000_000,
    ("RIGHT",),
    (TopicLook("flights", 900, None, None, None, (4, None, None)), TopicLook("gates", 9, 9, 0, 1_699_999_000_000)),
    (),
    (GroupLook("arrivals", 5, None),),
    False,
    (),
)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """A game that was played, as its files say."""
    kept = Record(tmp_path)
    incident = draw(1, 1)
    kept.write(Happened.STARTED, seed=1, level=1, sealed=kept.hide(incident), lab=str(tmp_path / "lab"), own_lab=True)
    (cause,) = incident.causes
    kept.seal(Happened.CAUSE_IN, cause=cause.cause, where=cause.where, how=cause.how, by="the seed")
    kept.write(Happened.SYMPTOM, word="a topic does not cross, or slower than it is written")
    kept.write(Happened.ACTED, move="acknowledge", said="noted")
    kept.write(Happened.ACTED, move="move-applications RIGHT", said="done")
    kept.write(Happened.HINTED, word="Look at the link.")
    kept.write(Happened.DIAGNOSED, word=cause.cause)
    kept.write(Happened.ACTED, move=str(cause.repair[0]), said="done")
    moved = time.time_ns() // 1_000_000
    wait_until(lambda: time.time_ns() // 1_000_000 > moved, 5, every_s=0.001)  # nothing recovers within a millisecond
    kept.seal(Happened.RECOVERED)
    kept.write(Happened.FINISHED, recovered=True, lost=0, read_again=0)
    kept.keep_facts(WELL)
    return kept


def test_both_journals_are_one_story_in_its_order(record: Record) -> None:
    told = [event.what for event in record.events()]
    assert told[0] is Happened.STARTED
    assert told[1] is Happened.CAUSE_IN
    assert told[-2:] == [Happened.RECOVERED, Happened.FINISHED]
    assert record.planted() == draw(1, 1).causes
    assert record.finished()
    assert "link-cut-one-way" not in (record.folder / JOURNAL).read_text().split('"diagnosed"')[0]


def test_what_happened_within_a_millisecond_keeps_its_order(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cause, and the symptom and move that follow it at once: neither may be told, or judged, as if it came before."""
    lines = {path: journal.read(path) for path in (record.folder / JOURNAL, record.folder / GAME / JOURNAL)}
    at = lines[record.folder / JOURNAL][0].at
    monkeypatch.setattr(Record, "_lines", lambda _, path: tuple(replace(line, at=at) for line in lines[path]))
    told = [event.what for event in record.events()]
    assert told[:2] == [Happened.STARTED, Happened.CAUSE_IN]
    assert told.index(Happened.CAUSE_IN) < told.index(Happened.SYMPTOM)
    assert told[-1] is Happened.FINISHED


def test_a_line_or_an_incident_that_was_changed_afterwards_shows(record: Record) -> None:
    sealed = record.folder / GAME / "incident.json"
    sealed.write_text(sealed.read_text().replace("link-cut-one-way", "full-disk"))
    with pytest.raises(UsageError, match="not the one that was started"):
        Incident(record.folder).reveal()
    path = record.folder / GAME / JOURNAL
    path.write_text(path.read_text().replace("RIGHT", "LEFT"))
    with pytest.raises(JournalTampered):
        record.events()


def test_the_reveal_says_what_was_done_and_what_would_have_been_right(record: Record) -> None:
    reveal = tell(record.events(), record.facts())
    assert reveal.title == "The link is cut one way"
    assert [moment.good for moment in reveal.moments if moment.lane is Lane.OPERATOR] == [
        None,
        False,
        False,
        True,
        True,
    ]
    assert any("(harmful)" in moment.text for moment in reveal.moments)
    assert reveal.score.points == 75
    assert "heal-link" in reveal.reference[0]


def test_a_replay_keeps_order_and_distance_at_any_speed(record: Record) -> None:
    moments = tell(record.events(), record.facts()).moments
    for speed in (0.5, 1.0, 60.0):
        shown = due(moments, speed)
        assert [moment for _, moment in shown] == list(moments)
        assert all(at == pytest.approx((moment.at_s - moments[0].at_s) / speed) for at, moment in shown)
    with pytest.raises(UsageError, match="speed 0"):
        due(moments, 0.0)
    assert views.replay_line(moments[1]).startswith(f"{moments[1].at_s:7.1f} s")
    long = views.replay_line(Moment(1.0, Lane.CAUSE, "every word of a long story " * 6))
    assert max(map(len, long.splitlines())) <= 100
    assert " ".join(long.split()).endswith("every word of a long story")


def test_the_picture_has_every_moment_in_its_lane_and_a_cross_for_what_was_wrong(record: Record) -> None:
    reveal = tell(record.events(), record.facts())
    shown = views.reveal_shown(reveal, record.began_ms())
    assert shown.figure is not None
    points = [
        text for trace in shown.figure.data for text, _ in (trace.customdata if trace.customdata is not None else ())
    ]
    assert sorted(points) == sorted(moment.text for moment in reveal.moments)
    crosses = [symbol for trace in shown.figure.data for symbol in trace.marker.symbol if symbol == "x"]
    assert len(crosses) == 2
    assert "75 of 100 points" in shown.figure.layout.title.text
    assert "A good operator:" in repr(shown)
    (row,) = views.reference_shown(reveal).rows
    assert (row["cause"], row["moves"]) == ("link-cut-one-way", "heal-link RIGHT")
    assert "harmful" in repr(views.score_shown(reveal))


def test_a_player_sees_symptoms_and_what_is_unknown_is_said(record: Record) -> None:
    text = repr(views.status_shown(LOOK, (), "FILE"))
    assert "unknown" in text
    assert "does not run" in text
    assert "1,000 s old" in text
    assert not [name for name in CAUSES if name in text]
    everything = repr(views.catalogue_shown())
    assert all(name in everything for name in (*KINDS, *CAUSES))
    assert "heal-link RIGHT" in repr(views.master_shown(record.planted(), ("flights does not cross",), ()))


def test_a_scorecard_passes_from_its_points_on(record: Record) -> None:
    game = Incident(record.folder)
    reveal = tell(record.events(), record.facts())
    assert scorecard(reveal, "game-day", game, 75).verdict.value == "pass"
    card = scorecard(reveal, "game-day", game, 76)
    assert card.verdict.value == "fail"
    assert {check.name for check in card.checks} >= {"the score", "recovery", "harmful moves", "hints"}
    assert json.loads(card.model_dump_json())["records"]["lost"] == 0


def _row(name: str, status: ProducedStatus = ProducedStatus.ACKED) -> Produced:
    return Produced(name, "k", 0, "LEFT", "flights", 0, 0, 0, 0, status)


def test_a_record_is_lost_when_nobody_has_it_where_it_has_to_be() -> None:
    history = History(produced=(_row("a"), _row("b"), _row("c"), _row("d", ProducedStatus.IN_DOUBT)))
    a, b = (Mirrored("t", 0, n, name, "k", 0, 0) for n, name in enumerate("ab"))
    assert lost_of(history, "flights", (a, b), (), recovered=True) == 1
    assert lost_of(history, "flights", (a,), (b,), recovered=True) == 2, "it is over, and still not on RIGHT"
    assert lost_of(history, "flights", (a,), (b,), recovered=False) == 1, "it may still cross"
    assert lost_of(history, "flights", (a,), None, recovered=False) is None
    assert lost_of(history, "flights", None, (a,), recovered=True) is None
    assert lost_of(History(missing=("flights.jsonl",)), "flights", (a,), (b,), recovered=True) is None


def test_a_choice_there_is_not_is_refused() -> None:
    assert choose("full-disk", "LEFT") == Planted("full-disk", "LEFT")
    with pytest.raises(UsageError, match="It can be RIGHT, LEFT"):
        choose("full-disk", "UP")
    with pytest.raises(UsageError, match="none of that name"):
        choose("gremlins")


def test_the_newest_incident_is_found_and_none_is_said(record: Record, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no incident in"):
        incidents.find(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no folder of one"):
        incidents.find(tmp_path, Path("other"))
    assert incidents.find(tmp_path.parent, record.folder).folder == record.folder
    assert incidents.find(tmp_path.parent).folder.parent == tmp_path.parent
    game = Incident(record.folder)
    for call in (
        lambda: game.act("stop-mirror"),
        lambda: game.diagnose("full-disk"),
        game.hint,
        game.finish,
        game.status,
    ):
        with pytest.raises(UsageError, match="is over"):
            call()


def test_the_commands_say_what_there_is_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*words: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["drlib", "incident", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return ended.value.code, said.out + said.err

    code, listed = run("list")
    assert code == 0
    assert "restart-broker SITE" in listed
    code, missing = run("status", "--runs-dir", str(tmp_path))
    assert code == 2
    assert "no incident in" in missing
    code, refused = run("start", "--seed", "1", "--level", "9", "--runs-dir", str(tmp_path))
    assert code == 2
    assert "level 9" in refused
