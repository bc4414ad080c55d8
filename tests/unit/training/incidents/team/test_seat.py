"""Seats that real processes hold in an incident's folder. No lab: what is refused is refused before one is needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.cli.process import run_command
from drlib.errors import UsageError
from drlib.runs.table import Table
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.rules.seed import draw_plan
from drlib.training.incidents.session import IncidentSession
from drlib.training.incidents.store import open_incident
from drlib.training.incidents.team.seat import TeamSeat
from drlib.training.incidents.team.seats import Access, Right

HOLDER = """
import sys
from pathlib import Path
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.team.seat import TeamSeat
seat = TeamSeat(Incident(Path(sys.argv[1])), "Ana", "acting")
with seat.turn("nothing"):
    print("holds", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def incident(tmp_path: Path) -> Incident:
    """One whose lab is not there."""
    record, plan = IncidentRecord(tmp_path), draw_plan(1, 1)
    record.write(
        EventKind.STARTED, seed=1, level=1, sealed=record.seal_plan(plan), lab=str(tmp_path / "lab"), own_lab=True
    )
    return Incident(tmp_path)


def events(incident: Incident) -> list[str]:
    return [line.event for line in incident.record.lines()]


def test_seat_is_held_by_one_process_and_free_after_its_death(incident: Incident) -> None:
    argv = [sys.executable, "-c", HOLDER, str(incident.folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "holds\n"
        with pytest.raises(UsageError, match="another notebook that runs holds it"):
            TeamSeat(incident, "Ana", "acting")
        bo = TeamSeat(incident, "Bo", "acting")
        with pytest.raises(UsageError, match="another seat makes a move"):
            bo.act("heal-link LEFT", estimate_s=5)
        incident.record.write(EventKind.BEGUN, seat="Ana", move="restart-broker LEFT", estimate_s=9)
        with pytest.raises(
            UsageError, match=r"heal-link LEFT was not made: Ana makes restart-broker LEFT since .* UTC"
        ):
            bo.act("heal-link LEFT", estimate_s=5)
        other.send_signal(signal.SIGKILL)
    again = TeamSeat(incident, "Ana", "acting")
    assert again.access is Access.ACTING
    with again.turn("nothing"):
        pass
    assert events(incident).count("seated") == 2, "who continues does not join again"
    again.leave()
    bo.leave()
    TeamSeat(incident, "Ana", "acting").leave()


def test_role_that_the_trainer_changes_counts_at_once(incident: Incident) -> None:
    tom, bo = TeamSeat(incident, "Tom", "trainer"), TeamSeat(incident, "Bo", "read-only")
    with pytest.raises(
        UsageError, match="its role is read-only; those who make moves, diagnose and take hints: none yet"
    ):
        bo.act("acknowledge")
    with pytest.raises(UsageError, match="its role is read-only"):
        bo.admit("Bo", "acting")
    assert tom.admit("Bo", "acting") is Access.ACTING
    bo.require(Right.ACT)
    with pytest.raises(UsageError, match="estimated before it begins"):
        bo.act("restart-broker LEFT")
    assert "begun" not in events(incident)
    tom.leave()
    bo.leave()


def test_session_without_a_seat_may_look_and_nothing_else(incident: Incident) -> None:
    TeamSeat(incident, "Tom", "trainer").leave()
    alone = IncidentSession(incident)
    calls: tuple[Callable[[], object], ...] = (
        lambda: alone.act("acknowledge"),
        lambda: alone.diagnose("wrong-acl"),
        alone.hint,
        alone.master,
        lambda: alone.inject("wrong-acl"),
        alone.finish,
        lambda: alone.admit("Bo", "acting"),
    )
    for call in calls:
        with pytest.raises(UsageError, match=r"seat"):
            call()
    assert events(incident) == ["started", "seated"]
    shown = repr(alone.seats())
    assert "trainer" in shown
    assert "seat=" in shown
    with pytest.raises(UsageError, match="is not over"):
        alone.debriefing()


def test_session_of_each_role_is_refused_what_is_not_its_own(incident: Incident) -> None:
    tom = open_incident(incident.folder, seat="Tom", role="trainer")
    bo = open_incident(incident.folder, seat="Bo", role="read-only")
    with pytest.raises(UsageError, match="its role is trainer"):
        tom.act("acknowledge")
    for call in (bo.hint, bo.master, bo.finish, lambda: bo.inject("wrong-acl"), lambda: bo.diagnose("wrong-acl")):
        with pytest.raises(UsageError, match="its role is read-only"):
            call()
    assert "not recovered" in repr(tom.master())
    bo.close()
    open_incident(incident.folder, seat="Bo", role="read-only").close()
    assert not incident.record.finished()
    tom.close()


def test_acting_seat_is_in_the_history_with_its_diagnosis(incident: Incident) -> None:
    ana = open_incident(incident.folder, seat="Ana", role="acting")
    assert isinstance(ana.diagnose("wrong-acl"), Table)
    (event,) = [event for event in incident.record.events() if event.kind is EventKind.DIAGNOSED]
    assert (event.by, event.detail) == ("Ana", "wrong-acl")
    assert "Ana, acting" in repr(ana.live())
    assert "Ana: diagnosis: wrong-acl" in repr(ana.live())
    ana.close()


def test_wrong_seat_or_role_is_refused_before_a_lab_is_started(tmp_path: Path) -> None:
    for seat, role in (("../x", "acting"), ("Ana", "boss")):
        with pytest.raises(UsageError):
            open_incident(tmp_path / "new", seat=seat, role=role)
    assert not (tmp_path / "new").exists()


def test_finished_incident_is_looked_at_without_joining(record: IncidentRecord) -> None:
    before = sorted(path.name for path in record.folder.iterdir())
    late = open_incident(record.folder, seat="Late", role="acting")
    with pytest.raises(UsageError, match="this incident is over"):
        late.act("acknowledge")
    assert late.score().rows
    assert "No action was made from a seat" in repr(late.debriefing())
    assert sorted(path.name for path in record.folder.iterdir()) == before
    late.close()


def typed(incident: Incident, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code of `drlib incident ...` in a terminal."""
    monkeypatch.setattr(sys, "argv", ["drlib", "incident", *words, "--run", str(incident.folder)])
    return run_command()


def test_command_in_a_terminal_is_given_from_a_seat_which_it_leaves(
    incident: Incident, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(incident, monkeypatch, "diagnose", "broker-killed", "--seat", "Ana") == 0
    assert typed(incident, monkeypatch, "diagnose", "full-disk", "--seat", "Ana") == 0
    lines = incident.record.lines()
    assert [line.data.get("seat") for line in lines if line.event == EventKind.DIAGNOSED] == ["Ana", "Ana"]
    assert [line.data for line in lines if line.event == EventKind.SEATED] == [{"seat": "Ana", "access": "acting"}]
    notebook = TeamSeat(incident, "Ana", "acting")
    assert typed(incident, monkeypatch, "hint", "--seat", "Ana") == 2
    assert "seat Ana is taken" in capsys.readouterr().err
    notebook.leave()
    assert typed(incident, monkeypatch, "act", "heal-link", "LEFT", "--seat", "Ana") == 2
    assert "in a terminal: --estimate 30" in capsys.readouterr().err
    assert typed(incident, monkeypatch, "act", "heal-link", "LEFT", "--seat", "Ana", "--estimate", "0") == 2
    assert "between 1 and 3600" in capsys.readouterr().err
    assert typed(incident, monkeypatch, "act", "heal-link", "LEFT", "--estimate", "30") == 2
    assert "Give --seat NAME too" in capsys.readouterr().err
    assert typed(incident, monkeypatch, "act", "acknowledge") == 2
    assert "in a terminal --seat NAME" in " ".join(capsys.readouterr().err.split())
    assert EventKind.BEGUN not in events(incident)
    assert EventKind.ACTED not in events(incident)


def test_command_in_a_terminal_has_the_role_of_its_seat(
    incident: Incident, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tom = TeamSeat(incident, "Tom", "trainer")
    tom.admit("Cy", "read-only")
    assert typed(incident, monkeypatch, "diagnose", "broker-killed", "--seat", "Cy") == 2
    assert "its role is read-only" in capsys.readouterr().err
    assert typed(incident, monkeypatch, "hint", "--seat", "no/name") == 2
    tom.admit("Cy", "acting")
    assert typed(incident, monkeypatch, "diagnose", "broker-killed", "--seat", "Cy") == 0
    tom.leave()
