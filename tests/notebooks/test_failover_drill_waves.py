"""The failover drill of a lab with waves: its applications move one after another, while the source is dead."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from own_processes import processes_of
from repository_root import ROOT

from drlib.lab.checker.history import ProducedStatus
from drlib.lab.checker.history_files import read_history
from drlib.runs import journal
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Scorecard

WAVES = [
    {
        "name": "writers",
        "applications": [
            {"name": "flights", "written": ["flights"]},
            {"name": "flights-tx", "written": ["flights-tx"]},
        ],
    },
    {
        "name": "readers",
        "applications": [{"name": "arrivals", "groups": ["arrivals"]}, {"name": "delays", "groups": ["delays"]}],
    },
]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_waves_of_a_lab_move_each_application_alone_once_the_source_is_dead(tmp_path: Path) -> None:
    book = yaml.safe_load((ROOT / "runbooks" / "failover-drill.yaml").read_text())
    book["drill"]["waves"] = WAVES
    book["notebook"] = str(ROOT / "notebooks" / "02_fail_over.ipynb")
    book["objectives"] = {}  # of the applications, not of the order in which they move
    path = tmp_path / "failover-waves.yaml"
    path.write_text(yaml.safe_dump(book, sort_keys=False))
    argv = [sys.executable, "-m", "drlib.cli", "run", str(path), "--lab", "--runs-dir", str(tmp_path / "runs")]
    small = ["-p", "backlog=2000", "-p", "records_per_second=300"]
    done = subprocess.run([*argv, *small], cwd=ROOT, capture_output=True, text=True, timeout=350, check=False)
    print(done.stdout[-9000:])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    (run,) = (tmp_path / "runs").iterdir()
    ended = [line for line in journal.read(run / "journal.jsonl") if line.event == "step-succeeded"]
    at_ms = {str(line.data["step"]): datetime.fromisoformat(line.at).timestamp() * 1000 for line in ended}
    first = {}
    for name in ("flights", "flights-tx", "arrivals", "delays"):
        rows = read_history(run / "history" / f"{name}.jsonl")
        on_right = [row.at_ms for row in rows.consumed if row.cluster == "RIGHT"]
        acked = [r.acked_ms for r in rows.produced if r.cluster == "RIGHT" and r.status is ProducedStatus.ACKED]
        first[name] = min([*on_right, *acked])
    assert max(first["flights"], first["flights-tx"]) <= at_ms["move-writers-served"]
    assert min(first["arrivals"], first["delays"]) > at_ms["move-writers-served"]
    card = Scorecard.read(run / "scorecard.json")
    served = {check.name: check.verdict for check in card.checks if check.name.endswith(": applications are served")}
    assert served == {
        f"wave {n} of 2, {name}: applications are served": Verdict.PASS for n, name in ((1, "writers"), (2, "readers"))
    }
    assert (card.records.duplicated, card.records.out_of_order) == (0, 0)
    assert all(group.skipped == 0 for group in card.groups)
    assert processes_of(tmp_path) == []
