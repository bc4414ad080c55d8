"""`drlib evidence`, as a person types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import sample_scorecard as sample
from command_line import drlib_here

from drlib.runs.check import Check, Verdict

RUN = "20261121T100000Z-failover-drill-4be0a7"
FILE = """\
clusters = paris, lyon
paris.bootstrap.servers = 127.0.0.1:1
lyon.bootstrap.servers = 127.0.0.1:2
paris->lyon.enabled = true
"""
BOOK = """\
name: failover-drill
title: t
notebook: n.ipynb
schedule: {every: 30d}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["drlib"])
    (tmp_path / "mirror.properties").write_text(FILE)
    (tmp_path / "runs").mkdir()
    return tmp_path


def ran(place: Path, **changes: object) -> Path:
    given = {"environment": {"flow": "paris->lyon", "environment": "production"}, **changes}
    return sample.finished_run(place / "runs" / RUN, sample.scorecard(**given))


def test_evidence_of_a_year_is_a_sealed_folder(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(place)
    assert drlib_here("evidence", "mirror.properties", "--year", "2026") == 0
    said = capsys.readouterr().out
    assert said.startswith("evidence-2026: conditions; runs: 1, drills with a verdict: 1\n")
    package = json.loads((place / "evidence-2026" / "evidence.json").read_text())
    assert (package["year"], package["verdict"], len(package["runs"])) == (2026, "conditions", 1)
    assert [each["field"] for each in package["missing"]] == ["report", "scenario"]
    assert package["overdue"] == []
    assert (place / "evidence-2026" / "manifest.sha256").exists()


def test_evidence_names_overdue_runbooks_and_open_gaps(place: Path) -> None:
    (place / "runbooks").mkdir()
    (place / "runbooks" / "n.ipynb").write_text("{}")
    (place / "runbooks" / "x.yaml").write_text(BOOK.replace("failover-drill", "never-run"))
    ran(place, checks=(Check("order", Verdict.FAIL, "3 wrong"),), verdict=Verdict.FAIL)
    assert drlib_here("evidence", "mirror.properties", "--year", "2026", "--out", "out") == 0
    package = json.loads((place / "out" / "evidence.json").read_text())
    assert [(each["runbook"], each["since"]) for each in package["overdue"]] == [("never-run", None)]
    assert [(gap["check"], gap["remediation"]) for run in package["runs"] for gap in run["gaps"]] == [("order", "open")]


def test_evidence_with_a_changed_byte_is_written_named_and_fails(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = ran(place) / "scorecard.json"
    card.write_text(card.read_text().replace("8.145", "8.144", 1))
    assert drlib_here("evidence", "mirror.properties", "--year", "2026") == 3
    error = capsys.readouterr().err
    assert RUN in error
    assert "scorecard.json: it is not what manifest.sha256 says" in error
    package = json.loads((place / "evidence-2026" / "evidence.json").read_text())
    assert (package["verdict"], package["runs"]) == ("fail", [])


def test_evidence_over_no_run_is_no_pass(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert drlib_here("evidence", "mirror.properties", "--year", "2026") == 3
    assert "no drill of paris->lyon came to a verdict" in capsys.readouterr().err
    assert json.loads((place / "evidence-2026" / "evidence.json").read_text())["verdict"] == "unknown"


@pytest.mark.parametrize(
    "argv",
    [
        ("missing.properties", "--year", "2026"),
        ("mirror.properties",),
        ("mirror.properties", "--year", "26"),
        ("mirror.properties", "--year", "2026", "--out", "runs"),
    ],
)
def test_evidence_that_cannot_be_made_is_a_usage_error(place: Path, argv: tuple[str, ...]) -> None:
    ran(place)
    assert drlib_here("evidence", *argv) == 2
