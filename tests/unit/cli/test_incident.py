"""`drlib incident` without a lab: its list, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from drlib.cli.process import run_command
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.score import EventKind, Measurements
from drlib.training.incidents.rules.seed import draw_plan


def test_incident_commands_list_names_and_refuse_missing_incidents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*words: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["drlib", "incident", *words])
        code = run_command()
        said = capsys.readouterr()
        return code, said.out + said.err

    code, listed = run("list")
    assert code == 0
    assert "restart-broker SITE" in listed
    assert "drlib incident diagnose NAME" in listed
    code, missing = run("status", "--runs-dir", str(tmp_path))
    assert code == 2
    assert "no incident in" in missing
    code, refused = run("start", "--seed", "1", "--level", "9", "--runs-dir", str(tmp_path))
    assert code == 2
    assert "level 9" in refused
    assert list(tmp_path.iterdir()) == [], "a rejected start leaves nothing in history"
    run("start", "--seed", "1", "--level", "9", "--runs-dir", str(tmp_path / "runs"))
    assert list(tmp_path.iterdir()) == []


def test_incident_debriefing_is_shown_and_written_by_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = IncidentRecord(tmp_path)
    plan = draw_plan(1, 1)
    record.write(EventKind.STARTED, seed=1, level=1, sealed=record.seal_plan(plan), lab="lab", own_lab=True)
    (cause,) = plan.causes
    record.write_sealed(EventKind.CAUSE_IN, cause=cause.cause, where=cause.where, how=cause.how, by="the seed")
    record.write(EventKind.SEATED, seat="Ana", access="acting")
    record.write(EventKind.BEGUN, seat="Ana", move=str(cause.repair[0]), estimate_s=30)
    record.write(EventKind.ACTED, seat="Ana", move=str(cause.repair[0]), said="done")
    record.write(EventKind.FINISHED, recovered=True, lost=0, read_again=0)
    record.save_measurements(Measurements(recovered=True, lost=0, read_again=0))

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["drlib", "incident", "debriefing", *words, "--run", str(tmp_path)])
        assert run_command() == 0
        return capsys.readouterr().out

    assert "Write it as a page: drlib incident debriefing --write" in run()
    written = run("--write")
    assert f"Written: {tmp_path / 'debriefing.html'}" in written
    assert f"The page: {tmp_path / 'debriefing.html'}" in written
    markdown = run("--md")
    assert markdown == (tmp_path / "debriefing.md").read_text()
    assert "| `Ana` | `heal-link RIGHT` | `30.0 s` |" in markdown
