"""The game-day runbook: the reference player runs the notebook; the folder holds score, reveal and timeline."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from own_processes import processes_of
from repository_root import ROOT

from drlib.runs import folder, journal


@pytest.mark.long
@pytest.mark.timeout(300)
def test_game_day_runbook_gets_full_marks_and_leaves_only_evidence(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "drlib.cli", "run", str(ROOT / "runbooks" / "game-day.yaml"), "-p", "level=2"]
    done = subprocess.run(
        [*argv, "--runs-dir", str(tmp_path / "runs")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert processes_of(tmp_path) == []
    (run,) = (tmp_path / "runs").iterdir()
    card = json.loads((run / "scorecard.json").read_text())
    assert (card["runbook"], card["verdict"], card["records"]["lost"]) == ("game-day", "pass", 0)
    assert json.loads((run / "score.json").read_text())["points"] == 100
    assert not (run / "lab").exists()
    assert folder.differences(run) == ()
    assert len(journal.read(run / "journal.jsonl")) > 4
    executed = json.loads((run / "executed.ipynb").read_text())
    shown = [o for c in executed["cells"] if c["cell_type"] == "code" for o in c["outputs"]]
    assert any("application/vnd.plotly.v1+json" in output.get("data", {}) for output in shown)
