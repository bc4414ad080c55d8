"""The active/active and the ordering drill on real clusters: to their end, after a kill in mid-step, and refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fix_engine import wait_for
from repository_root import ROOT

from drlib import open_drill
from drlib.drill.plan.progress import Noted
from drlib.drill.scenarios.active.proof import prove
from drlib.drill.scenarios.active.testbed import ActiveTestbed
from drlib.drill.step import step_output as details
from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.lab import Lab
from drlib.runs import journal
from drlib.runs.check import Verdict
from drlib.runs.journal import JOURNAL
from drlib.runs.scorecard import Scorecard

RUNBOOKS = ROOT / "runbooks"
ACTIVE: dict[str, Any] = {"records_per_second": 60.0, "records": 300, "groups": 3, "watch_seconds": 4.0}
ORDERING: dict[str, Any] = {"records_per_second": 150.0, "backlog": 4000}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("three") / "lab", ("LEFT", "RIGHT", "THIRD")) as lab:
        yield lab


def killed_in(step: str, runbook: str, run_dir: Path, lab: Lab, parameters: dict[str, object]) -> None:
    """Run the drill in a process of its own, and SIGKILL that as soon as `step` has begun."""
    code = (
        "import json, sys, drlib\n"
        "given = json.loads(sys.argv[4])\n"
        "drlib.open_drill(sys.argv[1], sys.argv[2], lab_dir=sys.argv[3], **given).finish()\n"
    )
    argv = [sys.executable, "-c", code, str(RUNBOOKS / runbook), str(run_dir), str(lab.root), json.dumps(parameters)]
    with (run_dir.parent / "first.log").open("wb") as log:
        process = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log)

    def begun() -> bool:
        assert process.poll() is None, (run_dir.parent / "first.log").read_text()
        path = run_dir / JOURNAL
        lines = journal.read(path) if path.exists() else ()
        return any(line.event == Noted.STEP_STARTED and line.data.get("step") == step for line in lines)

    try:
        wait_for(f"{step} has begun", begun, 150)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)


def leftovers(lab: Lab, topic: str, *, journals: bool = True) -> list[str]:
    """Topics of the drill, and its processes that run; with `journals` the mirror's own topics as well."""
    found = [one.name for one in lab.status() if one.alive and one.name.startswith(f"{topic}-")]
    for cluster in lab.clusters.values():
        with Cluster(cluster.settings()) as handle:
            found += [name for name in handle.topics() if name.endswith(topic) or (journals and "-journal." in name)]
    return found


@pytest.mark.long
@pytest.mark.timeout(400)
def test_active_active_drill_killed_during_a_failure_completes(three: Lab, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    killed_in("kill", "active-active.yaml", run_dir, three, ACTIVE)
    with open_drill(RUNBOOKS / "active-active.yaml", run_dir, lab_dir=three.root, **ACTIVE) as drill:
        drill.finish()
    card = Scorecard.read(run_dir / "scorecard.json")
    assert card.verdict is Verdict.PASS, card.checks
    assert (card.records.lost, card.records.duplicated, card.records.out_of_order) == (0, 0, 0)
    assert card.records.produced is not None
    assert card.records.produced > 2000
    assert card.records.mirrored == 2 * card.records.produced  # each record on two more clusters
    exact = {check.name for check in card.checks if check.name.endswith("is exact")}
    assert len(exact) == 6
    one, many = details.read_rows(run_dir, "count")
    assert (one["groups"], many["groups"]) == (1, 3)
    assert float(str(many["bytes per record"])) < 1.5 * float(str(one["bytes per record"]))
    assert int(str(many["records read"])) >= 2 * int(str(one["records crossed"]))
    pauses = {row["application"]: row["longest pause after it (s)"] for row in details.read_rows(run_dir, "kill")}
    assert set(pauses) == {f"{who} on {where}" for who in ("producer", "readers") for where in ("RIGHT", "THIRD")}
    assert {mark.name for mark in card.marks} == {"LEFT killed", "LEFT is back", "THIRD joins"}
    assert leftovers(three, "TOPIC1") == []


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("scope", ["topic", "partition"])
def test_order_is_kept_there_and_back_through_a_kill_in_the_switch(three: Lab, tmp_path: Path, scope: str) -> None:
    run_dir = tmp_path / "run"
    given: dict[str, Any] = {**ORDERING, "scope": scope, "topic": f"orders-{scope}"}
    killed_in("failover", "ordering-drill.yaml", run_dir, three, given)
    with open_drill(RUNBOOKS / "ordering-drill.yaml", run_dir, lab_dir=three.root, **given) as drill:
        drill.finish()
    card = Scorecard.read(run_dir / "scorecard.json")
    assert card.verdict is Verdict.PASS, card.checks
    ordered, ordinary = details.read_rows(run_dir, "prove")
    assert (ordered["out of order"], ordered["missing"], ordered["twice"]) == (0, 0, 0)
    assert int(str(ordinary["out of order"])) > 0
    assert (ordinary["missing"], ordinary["twice"]) == (0, 0)
    before, *_ = details.read_rows(run_dir, "disturb")
    assert int(str(before["still to read"])) > 0
    assert leftovers(three, f"orders-{scope}") == []


def test_scenario_lab_without_a_cluster_is_refused_first(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no cluster THIRD"):
        open_drill(RUNBOOKS / "active-active.yaml", tmp_path / "run", lab_dir=lab.root)
    assert not (tmp_path / "run" / JOURNAL).exists()


def test_plan_changes_nothing_and_refuses_a_topic_with_records(lab: Lab, tmp_path: Path) -> None:
    with open_drill(RUNBOOKS / "ordering-drill.yaml", tmp_path / "one", lab_dir=lab.root, topic="planned") as drill:
        output = repr(drill.plan())
    assert "topic LEFT.planned on RIGHT" in output
    assert "process planned-ordered-2" in output
    assert leftovers(lab, "planned", journals=False) == []
    with Cluster(lab.clusters["RIGHT"].settings()) as right:
        right.create_topic("planned", 1, 1)
        with pytest.raises(UsageError, match="topic planned on RIGHT already exists"):
            open_drill(RUNBOOKS / "ordering-drill.yaml", tmp_path / "two", lab_dir=lab.root, topic="planned")
        right.delete_topic("planned")


def test_active_proof_finds_cycles_and_missing_histories_are_unknown(lab: Lab, tmp_path: Path) -> None:
    testbed = ActiveTestbed(lab, tmp_path, "rounds")
    names = {"LEFT": ("rounds", "RIGHT.rounds"), "RIGHT": ("rounds", "LEFT.rounds", "RIGHT.LEFT.rounds")}
    for alias, topics in names.items():
        with Cluster(lab.clusters[alias].settings()) as handle:
            for topic in topics:
                handle.create_topic(topic, 1, 1)
    found = {check.name: check for check in prove(testbed, ["LEFT", "RIGHT"]).checks}
    for alias, topics in names.items():
        with Cluster(lab.clusters[alias].settings()) as handle:
            for topic in topics:
                handle.delete_topic(topic)
    went_round = found["no record was copied in a cycle"]
    assert (went_round.verdict, went_round.evidence) == (Verdict.FAIL, "RIGHT.LEFT.rounds on RIGHT")
    assert found["LEFT->RIGHT is exact"].verdict is Verdict.UNKNOWN
    assert found["readers on LEFT saw everything once"].verdict is Verdict.FAIL
