"""`drlib runs report`, as a person types it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import sample_scorecard as sample
from command_line import drlib_here

from drlib.runs import folder as folders

RUN = "20261121T100000Z-failover-drill-4be0a7"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["drlib"])
    return sample.finished_run(tmp_path / "runs" / RUN, sample.scorecard(started_ms=0))


def test_report_prints_markdown_and_changes_nothing_in_the_folder(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert drlib_here("runs", "report", RUN) == 0
    assert capsys.readouterr().out.startswith("# PASS WITH CONDITIONS: `failover-drill`")
    assert drlib_here("runs", "report", str(run), "--md", "out.md") == 0
    assert Path("out.md").read_text().startswith("# PASS WITH CONDITIONS: `failover-drill`")
    assert capsys.readouterr().out == "written: out.md\n"
    assert folders.differences(run) == ()


def test_report_of_a_changed_run_is_refused_with_its_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = run / "scorecard.json"
    card.write_text(card.read_text().replace("8.145", "3.145"))
    assert drlib_here("runs", "report", RUN, "--md", "out.md") == 3
    assert "scorecard.json: it is not what manifest.sha256 says" in capsys.readouterr().err
    assert not Path("out.md").exists()


@pytest.mark.parametrize("option", ["--md", "--pdf"])
def test_report_into_the_folder_of_the_run_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert drlib_here("runs", "report", RUN, option, f"runs/x/../{RUN}/out") == 2
    assert "it is in the run's folder, which is sealed" in capsys.readouterr().err
    assert folders.differences(run) == ()


def test_report_pdf_without_a_browser_names_what_to_install(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert drlib_here("runs", "report", RUN, "--pdf", "out.pdf") == 2
    assert "apt-get install chromium" in capsys.readouterr().err


def test_report_of_no_run_or_to_no_folder_is_a_usage_error(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert drlib_here("runs", "report", "20260101T000000Z-x-abcdef") == 2
    assert drlib_here("runs", "report", RUN, "--md", "missing/out.md") == 2
    assert "missing/out.md cannot be written" in capsys.readouterr().err
