"""The switchover drill by `drlib run`: clients of every family leave a cluster that stays up; what a rollback gives back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fix_lab import LabFactory
from own_processes import processes_of
from repository_root import ROOT

from drlib import open_drill
from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.drill.step import rto_clock as moments
from drlib.drill.step import step_output
from drlib.errors import DeviatedRolledBack
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.checker import history_files
from drlib.lab.checker.history import ProducedStatus
from drlib.lab.clients import runtimes
from drlib.lab.clients.families import BY_NAME
from drlib.lab.workload.topics import log_ends
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Scorecard

RUNBOOK = ROOT / "runbooks" / "switchover-drill.yaml"
pytestmark = pytest.mark.long


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["switchover-drill", "rolling-switchover-drill"])
def test_switchover_drill_every_family_leaves_a_cluster_that_serves_and_nothing_is_lost(
    name: str, tmp_path: Path
) -> None:
    """Cut off from it by their network, or refused by its brokers' settings and closed by a rolling restart."""
    runs = tmp_path / "runs"
    book = RUNBOOK.with_name(f"{name}.yaml")
    argv = [sys.executable, "-m", "drlib.cli", "run", str(book), "--lab", "--runs-dir", str(runs)]
    done = subprocess.run(
        [*argv, "-p", "left_behind=java"], cwd=ROOT, capture_output=True, text=True, timeout=560, check=False
    )
    print(done.stdout[-9000:])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    (run,) = runs.iterdir()
    card = Scorecard.read(run / "scorecard.json")
    fault, moved = moments.at(run, "fault"), moments.at(run, "act")
    assert fault is not None
    assert moved is not None
    rows = {row.family: row for row in card.clients if not row.left_behind}
    assert rows.keys() == BY_NAME.keys()
    for runtime in runtimes.found():
        row, family = rows[runtime.family], BY_NAME[runtime.family]
        if runtime.missing:
            assert (row.verdict, row.why) == (Verdict.CONDITIONS, f"not run: {runtime.missing}")
            continue
        assert (row.verdict, row.skipped) == (Verdict.PASS, 0), row
        assert row.lost == (0 if family.acknowledges else None)
        assert row.not_crossed == 0
        read = history_files.read_history(run / "history" / f"client-{runtime.family}-consume.jsonl")
        assert row.read_after_s == (min(r.at_ms for r in read.consumed if r.at_ms >= moved) - fault) / 1000
    (left,) = (row for row in card.clients if row.left_behind)
    assert (left.verdict, left.wrote_after_s, left.read_after_s) == (Verdict.CONDITIONS, None, None)
    assert "the java client left behind at LEFT is reported" in {check.name for check in card.checks}
    slowest = max(each for row in rows.values() for each in (row.wrote_after_s, row.read_after_s) if each is not None)
    assert card.rto_seconds.total == pytest.approx(slowest, abs=0.002)
    assert (card.verdict, card.rpo.records if card.rpo else None) == (Verdict.CONDITIONS, 0)
    # What was written is taken back; the other drill cuts the network, and writes no limit.
    assert not step_output.read_rows(run, "client-limits.LEFT")
    assert step_output.rows_path(run, "client-limits.LEFT").exists() == (name == "rolling-switchover-drill")
    assert processes_of(tmp_path) == []


@pytest.mark.timeout(300)
def test_switchover_drill_rolled_back_gives_the_clients_their_network_to_the_source_back(
    lab_factory: LabFactory, tmp_path: Path
) -> None:
    """Another client moves the pointer before the drill does: nothing is led anywhere, and all is as it was."""
    lab, run = lab_factory(), tmp_path / "run"
    pointer = lab.root / "pointer.json"
    with open_drill(RUNBOOK, run, lab_dir=lab.root, clients=["librdkafka"]) as drill:
        drill.plan()
        drill.until("translate")
        assert all(link.cut and not link.connections for link in lab.proxy.apps_links("LEFT"))
        history = history_files.read_history(run / "history" / "client-librdkafka-produce.jsonl")
        acked = [row for row in history.produced if row.status is ProducedStatus.ACKED]
        assert acked
        ends = log_ends(lab.clusters["RIGHT"], ["LEFT.flights-client-librdkafka"])
        assert sum(ends.values()) >= len(acked)  # more where an answer was lost with the connection
        with Cluster(lab.clusters["RIGHT"].settings()) as right:
            assert right.group_offsets("client-librdkafka")
        pointer_file.write_atomic(pointer, Pointer(7, "THIRD", "127.0.0.1:1"))
        with pytest.raises(DeviatedRolledBack, match="Every change was undone"):
            drill.finish()
    assert not any(link.cut for link in lab.proxy.apps_links("LEFT"))
    with Cluster(lab.clusters["RIGHT"].settings()) as right:
        assert not right.group_offsets("client-librdkafka")
    assert pointer_file.read(pointer) == Pointer(7, "THIRD", "127.0.0.1:1")
    assert not [process.name for process in lab.status() if process.alive and "client-" in process.name]
