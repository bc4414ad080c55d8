"""A whole failback on a real lab: LEFT fails, returns with a tail, the applications move back; killed twice meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fix_engine import wait_for
from own_processes import said_until_end
from repository_root import ROOT

from drlib.drill.step import step_output as details
from drlib.lab.lab import Lab
from drlib.runs import journal
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Scorecard

RUN = """
import sys
import drlib

with drlib.open_drill(
    "failback-drill", sys.argv[1], lab_dir=sys.argv[2], tail=sys.argv[3],
    records_per_second=800.0, backlog=5000, stopped_seconds=30.0,
) as drill:
    print(drill.finish())
"""


def start(run: Path, lab: Path, tail: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(run), str(lab), tail],
        cwd=ROOT,
        env={**os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def begun(run: Path, step: str) -> bool:
    path = run / "journal.jsonl"
    return path.exists() and any(
        line.event == "step-started" and line.data.get("step") == step for line in journal.read(path)
    )


@pytest.mark.long
@pytest.mark.timeout(500)
@pytest.mark.parametrize("tail", ["quarantine", "recover", "leave"])
def test_failback_killed_while_settling_and_while_holding_is_complete(tmp_path: Path, tail: str) -> None:
    run, place = tmp_path / "run", tmp_path / "lab"
    with Lab(place):
        for step in ("settle", "go-home"):
            process = start(run, place, tail)
            wait_for(f"{step} begins", lambda p=process, s=step: begun(run, s) or p.poll() is not None, 240)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            shown, _ = process.communicate(timeout=10)
            assert process.returncode == -signal.SIGKILL, shown[-6000:]
        process = start(run, place, tail)
        shown, _ = said_until_end(process, 240)
        assert process.returncode == 0, shown[-6000:]

    card = Scorecard.read(run / "scorecard.json")
    assert card.verdict in (Verdict.PASS, Verdict.CONDITIONS)
    assert card.records.lost == 0
    named = {check.name: check for check in card.checks}
    for name in (
        "no acknowledged record is lost",
        "the tail is accounted for",
        "no record is there twice",
        "group arrivals skips nothing",
        "group delays skips nothing",
    ):
        assert named[name].verdict is Verdict.PASS, named[name]
    assert all(check.verdict in (Verdict.PASS, Verdict.CONDITIONS) for check in card.checks)
    positions = details.read_rows(run, "go-home")
    assert {row["meaning"] for row in positions} == {"exact"}
    if tail == "quarantine":  # nothing came late
        assert named["group arrivals sees every key in order"].verdict is Verdict.PASS
