"""Analysis runbooks by `drlib run ... --lab`: verdict, exit code, report, and no processes left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.runs import folder


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "parameters", "code", "verdict", "duplicated"),
    [
        ("duplicates-audit", (), 0, "pass", 125),
        ("duplicates-audit", ("plant=false",), 0, "pass", 0),
        ("nightly-audit", (), 0, "pass", 0),
        ("nightly-audit", ("topics=nowhere",), 2, "unknown", None),
        ("continuous-audit", (), 0, "pass", None),
    ],
)
def test_analysis_runbook_ends_with_its_verdict_and_exit_code(
    name: str, parameters: tuple[str, ...], code: int, verdict: str, duplicated: int | None, tmp_path: Path
) -> None:
    argv = [sys.executable, "-m", "drlib.cli", "run", str(ROOT / "runbooks" / f"{name}.yaml"), "--lab"]
    done = subprocess.run(
        [*argv, "--runs-dir", str(tmp_path / "runs"), *(word for pair in parameters for word in ("-p", pair))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == code, done.stdout[-4000:] + done.stderr[-4000:]
    assert "Traceback" not in done.stdout + done.stderr
    assert "does not apply" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]  # the lab's folder is gone
    (run,) = (tmp_path / "runs").iterdir()
    card = json.loads((run / "scorecard.json").read_text())
    assert (card["runbook"], card["verdict"], card["kind"]) == (name, verdict, "analysis")
    assert card["records"]["duplicated"] == duplicated
    assert all(check["evidence"] for check in card["checks"])
    assert folder.differences(run) == ()
    if code == 2:
        assert "LEFT has no topic nowhere" in done.stderr
        return
    assert card["records"]["mirrored"] > 8000
    executed = json.loads((run / "executed.ipynb").read_text())
    shown = [o for c in executed["cells"] if c["cell_type"] == "code" for o in c["outputs"]]
    assert any("tasks in" in "".join(output.get("data", {}).get("text/plain", "")) for output in shown)
    if name == "duplicates-audit":
        found = {check["name"].removeprefix("planted-orders: "): check["evidence"] for check in card["checks"]}
        planted = [text.partition(" of ")[0] for name, text in found.items() if "all of that was found" in name]
        assert sorted(planted) == (["25", "40", "60"] if duplicated else [])
        assert any("application/vnd.plotly.v1+json" in output.get("data", {}) for output in shown)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_size_the_link_runbook_measures_and_gives_a_verdict(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "drlib.cli", "run", str(ROOT / "runbooks" / "size-the-link.yaml"), "--lab"]
    done = subprocess.run(
        [*argv, "--runs-dir", str(tmp_path / "runs"), "-p", "outage=48h"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 6, done.stdout[-4000:] + done.stderr[-4000:]
    (run,) = (tmp_path / "runs").iterdir()
    card = json.loads((run / "scorecard.json").read_text())
    assert (card["runbook"], card["verdict"], card["kind"]) == ("size-the-link", "fail", "analysis")
    reported = {check["name"]: check["verdict"] for check in card["checks"]}
    assert reported["the link carries the flow"] == "pass"
    assert reported["an outage of 2 d loses nothing"] == "fail"  # retention keeps a day
    assert reported["clients that wait reach at least 50% of what was predicted"] == "pass"
    assert "drlib mirror reaches at least 50% of what was predicted" in reported
    assert folder.differences(run) == ()
