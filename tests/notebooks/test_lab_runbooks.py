"""The other lab runbooks by `drlib run ... --lab`: verdict and report.

nbval runs their notebooks with default parameters; these tests run the runbook on a lab with its clusters, and check what is
left afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from own_processes import processes_of
from repository_root import ROOT

from drlib.runs import folder, journal

RUNS = {
    "active-active": ["-p", "records_per_second=40", "-p", "records=200", "-p", "groups=3"],
    "ordering-drill": ["-p", "records_per_second=150", "-p", "backlog=4000", "-p", "scope=partition"],
}


@pytest.mark.long
@pytest.mark.timeout(420)
@pytest.mark.parametrize("name", RUNS)
def test_lab_runbook_passes_on_its_lab_and_leaves_only_evidence(name: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "drlib.cli", "run", str(ROOT / "runbooks" / f"{name}.yaml"), "--lab"]
    done = subprocess.run(
        [*argv, "--runs-dir", str(tmp_path / "runs"), *RUNS[name]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert processes_of(tmp_path) == []
    (run,) = (tmp_path / "runs").iterdir()
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]  # the lab's folder is gone
    card = json.loads((run / "scorecard.json").read_text())
    assert (card["runbook"], card["verdict"]) == (name, "pass")
    assert card["records"]["produced"] > 2000
    assert card["records"]["lost"] == card["records"]["duplicated"] == card["records"]["out_of_order"] == 0
    assert card["rto_seconds"]["total"] > 0
    assert all(check["verdict"] == "pass" and check["evidence"] for check in card["checks"])
    samples, last = card["samples"], card["samples"][-1]
    assert len(samples) > 20
    assert samples[0]["produced"] < last["produced"] == last["mirrored"] == card["records"]["produced"]
    assert set(last["consumed"].values()) == {last["produced"]}  # every group has processed every record, once
    assert "No traffic was sampled" not in (run / "report.html").read_text()
    assert folder.differences(run) == ()
    assert journal.verify(run / "journal.jsonl").lines > 10
    executed = json.loads((run / "executed.ipynb").read_text())
    shown = [o for c in executed["cells"] if c["cell_type"] == "code" for o in c["outputs"]]
    assert any("application/vnd.plotly.v1+json" in output.get("data", {}) for output in shown)
