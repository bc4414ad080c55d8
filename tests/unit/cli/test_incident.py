"""`drlib incident` without a lab: its list, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from drlib.cli.process import run_command


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
    code, missing = run("status", "--runs-dir", str(tmp_path))
    assert code == 2
    assert "no incident in" in missing
    code, refused = run("start", "--seed", "1", "--level", "9", "--runs-dir", str(tmp_path))
    assert code == 2
    assert "level 9" in refused
