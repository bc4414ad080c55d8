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

from drlib.drill.step import step_output
from drlib.lab.checker import history_files
from drlib.runs import folder, journal
from drlib.runs.scorecard import Scorecard

RUNS = {
    "active-active": ["-p", "records_per_second=40", "-p", "records=200", "-p", "groups=3"],
    "ordering-drill": ["-p", "records_per_second=150", "-p", "backlog=4000", "-p", "scope=partition"],
}
IDENTICAL = ["-p", "names=identical"]


def run_of(name: str, tmp_path: Path, *more: str) -> Path:
    """The folder of a run that ended well on a lab of its own."""
    argv = [sys.executable, "-m", "drlib.cli", "run", str(ROOT / "runbooks" / f"{name}.yaml"), "--lab"]
    done = subprocess.run(
        [*argv, "--runs-dir", str(tmp_path / "runs"), *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    print(done.stdout[-9000:])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert processes_of(tmp_path) == []
    (run,) = (tmp_path / "runs").iterdir()
    return run


@pytest.mark.long
@pytest.mark.timeout(420)
def test_failover_drill_with_identical_names_moves_clients_by_their_address_alone(tmp_path: Path) -> None:
    run = run_of("failover-drill", tmp_path, *IDENTICAL, "-p", "backlog=20000", "-p", "clients=librdkafka")
    card = Scorecard.read(run / "scorecard.json")
    assert card.verdict.value in {"pass", "conditions"}
    assert card.records.duplicated == card.records.out_of_order == 0
    assert card.rpo is not None
    assert card.records.lost == card.rpo.records  # of those that had crossed none
    verdicts = {check.name: check.verdict.value for check in card.checks}
    for crossed in ("what is lost is the unmirrored tail", "checker and Spark agree", "no record is there twice"):
        assert verdicts[crossed] == "pass"
    for topic in ("flights", "flights-2013", "flights-tx"):
        assert verdicts[f"Spark: {topic} is copied up to one point, without a fault"] == "pass"
    assert {group.group: group.skipped for group in card.groups if group.skipped is not None} == {
        "arrivals": 0,
        "delays": 0,
    }
    (client,) = card.clients
    assert (client.verdict.value, client.lost, client.skipped) == ("pass", 0, 0)
    moved = {row["topic"] for row in step_output.read_rows(run, "move")}
    assert moved == {"flights", "flights-2013", "flights-tx", "flights-client-librdkafka"}
    assert not [name for name in topics_read(run) if name.startswith("LEFT.")]


@pytest.mark.long
@pytest.mark.timeout(420)
def test_failback_drill_with_identical_names_loses_nothing_and_both_clusters_end_with_the_same_records(
    tmp_path: Path,
) -> None:
    run = run_of("failback-drill", tmp_path, *IDENTICAL, "-p", "stopped_seconds=10")  # other tests may have the cores
    card = Scorecard.read(run / "scorecard.json")
    assert card.verdict.value in {"pass", "conditions"}
    assert card.records.lost == card.records.duplicated == card.records.out_of_order == 0
    verdicts = {check.name: check.verdict.value for check in card.checks}
    for claim in ("no acknowledged record is lost", "the tail is accounted for", "both clusters have the same records"):
        assert verdicts[claim] == "pass"
    assert verdicts["LEFT has every key in order"] == "pass"
    assert {group.skipped for group in card.groups if group.skipped is not None} == {0}
    listed = [line.data for line in journal.read(run / "journal.jsonl") if line.event == "step-succeeded"]
    (tail,) = [data for data in listed if data.get("step") == "tail"]
    assert "still_to_cross_records" in str(tail)
    assert topics_read(run) == {"flights"}


@pytest.mark.long
@pytest.mark.timeout(420)
@pytest.mark.parametrize("name", ["switchover-drill", "rolling-switchover-drill"])
def test_switchover_drill_with_identical_names_loses_nothing(name: str, tmp_path: Path) -> None:
    run = run_of(name, tmp_path, *IDENTICAL, "-p", "clients=java,librdkafka,console")
    card = Scorecard.read(run / "scorecard.json")
    assert {(row.family, row.verdict.value, row.lost, row.skipped) for row in card.clients} == {
        ("java", "pass", 0, 0),
        ("librdkafka", "pass", 0, 0),
        ("console", "pass", None, 0),
    }
    assert not [name for name in topics_read(run) if name.startswith("LEFT.")]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["failover-drill", "-p", "names=same"], "'same' is not one of identical, prefixed"),
        (["ordering-drill", "-p", "names=identical"], "unknown parameter names"),
    ],
)
def test_names_that_a_drill_does_not_have_are_refused_before_it_begins(
    more: list[str], said: str, tmp_path: Path
) -> None:
    argv = [sys.executable, "-m", "drlib.cli", "run", str(ROOT / "runbooks" / f"{more[0]}.yaml"), "--lab"]
    done = subprocess.run(
        [*argv, "--runs-dir", str(tmp_path / "runs"), *more[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


def topics_read(run: Path) -> set[str]:
    """By the applications and clients of a drill, as their histories say."""
    found = history_files.read_history(*sorted((run / "history").glob("*.jsonl")))
    return {row.topic for row in found.consumed}


@pytest.mark.long
@pytest.mark.timeout(420)
@pytest.mark.parametrize("name", RUNS)
def test_lab_runbook_passes_on_its_lab_and_leaves_only_evidence(name: str, tmp_path: Path) -> None:
    run = run_of(name, tmp_path, *RUNS[name])
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
    assert len(journal.read(run / "journal.jsonl")) > 10
    executed = json.loads((run / "executed.ipynb").read_text())
    shown = [o for c in executed["cells"] if c["cell_type"] == "code" for o in c["outputs"]]
    assert any("application/vnd.plotly.v1+json" in output.get("data", {}) for output in shown)
