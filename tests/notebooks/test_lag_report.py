"""The lag report by `drlib run ... --lab`: an outage of the mirror, and a group that is slow or keeps up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from own_processes import processes_of
from repository_root import ROOT

from drlib.runs import folder


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("slow", [False, True], ids=["keeps-up", "falls-behind"])
def test_lag_report_passes_for_a_fast_group_and_predicts_loss_for_a_slow_one(slow: bool, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "drlib.cli", "run", str(ROOT / "runbooks" / "lag-report.yaml"), "--lab"]
    done = subprocess.run(
        [*argv, "--runs-dir", str(tmp_path / "runs"), "-p", f"slow_group={str(slow).lower()}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    said = done.stdout[-6000:] + done.stderr[-3000:]
    assert processes_of(tmp_path) == []
    (run,) = (tmp_path / "runs").iterdir()
    card = json.loads((run / "scorecard.json").read_text())
    assert card["verdict"] == ("fail" if slow else "pass"), said
    assert (done.returncode != 0) is slow, said
    checks = {check["name"]: check for check in card["checks"]}
    assert checks["LEFT->RIGHT on LEFT: its lag on readings is within limits"]["verdict"] == "pass"
    group = checks["dashboards on LEFT: its lag on readings is within limits"]
    assert {row["reader"] for row in card["lag"]} >= {"LEFT->RIGHT", "dashboards"}
    assert ("retention may reach it" in group["evidence"]) is slow, group
    assert card["records"]["produced"] > 5000
    assert folder.differences(run) == ()
    executed = json.loads((run / "executed.ipynb").read_text())
    shown = [o for c in executed["cells"] if c["cell_type"] == "code" for o in c["outputs"]]
    pictures = [o for o in shown if "application/vnd.plotly.v1+json" in o.get("data", {})]
    assert len(pictures) == 2
