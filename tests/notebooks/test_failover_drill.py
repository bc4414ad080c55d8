"""The failover drill by `drlib run`: to its end, and stopped half-way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from own_processes import processes_of, said_until_end
from repository_root import ROOT

from drlib.drill.actions.failover.transactions import CHECK, IN_PART, NOT_DETERMINED
from drlib.drill.run import stored_run
from drlib.drill.step import rto_clock as moments
from drlib.drill.step import step_output
from drlib.errors import UsageError
from drlib.lab.checker import history_files
from drlib.lab.checker.history import ProducedStatus
from drlib.lab.clients import runtimes
from drlib.lab.clients.families import BY_NAME
from drlib.runbook import plans
from drlib.runs import folder, journal
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Scorecard

RUNBOOK = ROOT / "runbooks" / "failover-drill.yaml"
ROLES = ("produce", "consume")
SMALL = ["-p", "backlog=20000", "-p", "records_per_second=2000"]


def start(runs: Path, *more: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "drlib.cli", "run", str(RUNBOOK), "--lab", "--runs-dir", str(runs), *SMALL, *more]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Folder and terminal output of one drill that was run to its end."""
    place = tmp_path_factory.mktemp("drill")
    process = start(place / "runs", "-p", "clients=librdkafka")
    shown, _ = said_until_end(process, 600)
    assert process.returncode == 0, shown[-6000:]
    (run,) = (place / "runs").iterdir()
    assert processes_of(place) == []
    return run, shown


@pytest.mark.timeout(660)
def test_failover_drill_passes_and_accounts_for_every_record(drill: tuple[Path, str]) -> None:
    card = json.loads((drill[0] / "scorecard.json").read_text())
    assert card["verdict"] in {"pass", "conditions"}
    assert card["runbook"] == "failover-drill"
    records = card["records"]
    assert records["produced"] > 20_000
    assert records["lost"] == card["rpo"]["records"]
    assert records["mirrored"] >= records["produced"] - records["lost"]  # more where an answer to a producer was lost
    assert (records["duplicated"], records["out_of_order"]) == (0, 0)
    assert {group["group"] for group in card["groups"]} == {"arrivals", "delays"}
    for group in card["groups"]:
        assert group["skipped"] == 0
        assert group["re_read"] == 0 or not group["reached"]
    again = "reads again only records whose commits were lost with LEFT"
    priced = {f"group {group['group']} {again}" for group in card["groups"] if not group["reached"]}
    if records["lost"]:
        priced |= {check["name"] for check in card["checks"] if check["name"].startswith("at most ")}
        assert "no acknowledged record is lost" not in {check["name"] for check in card["checks"]}
    # What was committed last may be on RIGHT in part; the last ones without transaction version 2 are not determined.
    priced |= {IN_PART, NOT_DETERMINED}
    (listed,) = [check for check in card["checks"] if check["name"] in {CHECK, IN_PART, NOT_DETERMINED}]
    assert listed["verdict"] == ("pass" if listed["name"] == CHECK else "conditions")
    if listed["name"] == IN_PART:
        (spark,) = [check for check in card["checks"] if check["name"].startswith("Spark: flights-tx is copied")]
        assert "only on LEFT, all behind the last one that was mirrored" in spark["evidence"]
        assert "Transactions in part" in [table["title"] for table in card["tables"]]
    assert " transactions of LEFT have records on RIGHT" in listed["evidence"]
    assert all(check["verdict"] == "pass" for check in card["checks"] if check["name"] not in priced)
    assert all(check["evidence"] for check in card["checks"])
    copied = {
        f"Spark: {topic} is copied up to one point, without a fault"
        for topic in ("flights", "flights-2013", "flights-tx")
    }
    assert {*copied, "checker and Spark agree"} <= {check["name"] for check in card["checks"]}
    rto = card["rto_seconds"]
    stages = sum(rto[stage] for stage in ("detect", "decide", "act", "verify"))
    assert stages == pytest.approx(rto["total"], abs=0.01)


def test_failover_drill_rto_is_what_the_applications_experienced(drill: tuple[Path, str]) -> None:
    """From SIGKILL to the first record that the slowest of them produced or processed on RIGHT, by their own histories."""
    run, card = drill[0], Scorecard.read(drill[0] / "scorecard.json")
    fault = moments.at(run, "fault")
    assert fault is not None
    firsts = {}
    for name in ("flights", "arrivals", "delays"):
        rows = history_files.read_history(run / "history" / f"{name}.jsonl")
        acked = [r.acked_ms for r in rows.produced if r.cluster == "RIGHT" and r.status is ProducedStatus.ACKED]
        firsts[name] = min([*acked, *(r.at_ms for r in rows.consumed if r.cluster == "RIGHT")])
    rto, experienced_s = card.rto_seconds, (max(firsts.values()) - fault) / 1000
    assert rto.at_least is not None
    assert rto.total is not None
    assert rto.at_least - 0.1 <= experienced_s <= rto.total + 0.1, firsts
    apart_s = max(1.0, rto.total - rto.at_least)  # two looks at the positions of groups
    shown = {str(row["name"]): row for row in step_output.read_rows(run, "verify")}
    for name, row in (("flights", "producers of flights"), ("arrivals", "arrivals"), ("delays", "delays")):
        assert shown[row]["seen"] == "served"
        assert shown[row]["seconds after the fault"] == pytest.approx((firsts[name] - fault) / 1000, abs=apart_s)


def test_failover_drill_run_folder_is_complete_private_and_offline(drill: tuple[Path, str]) -> None:
    run, shown = drill
    expected = {"executed.ipynb", "report.html", "scorecard.json", "journal.jsonl", "manifest.sha256", "plan.json"}
    assert expected <= {path.name for path in run.iterdir()}
    assert run.stat().st_mode & 0o777 == 0o700
    assert folder.differences(run) == ()
    assert stored_run.read(run).evidence is stored_run.Evidence.VERIFIED
    events = [(line.event, line.data.get("step")) for line in journal.read(run / "journal.jsonl")]
    assert ("step-succeeded", "audit") in events
    assert str(run / "report.html") in shown.replace("\n", "")
    assert "Traceback" not in shown


def test_failover_drill_figures_agree_with_the_checker(drill: tuple[Path, str]) -> None:
    """Both use the applications' histories, with different code."""
    executed = json.loads((drill[0] / "executed.ipynb").read_text())
    outputs = [output["data"] for cell in executed["cells"] for output in cell.get("outputs", []) if "data" in output]
    shown = [data["application/vnd.plotly.v1+json"] for data in outputs if "application/vnd.plotly.v1+json" in data]
    positions, records = shown
    again: dict[str, int] = {}
    for row, value in zip(positions["data"][0]["y"], positions["data"][0]["x"], strict=True):
        again[row.partition(":")[0]] = again.get(row.partition(":")[0], 0) - value
    card = json.loads((drill[0] / "scorecard.json").read_text())
    judged = {group["group"]: group["re_read"] for group in card["groups"]}
    assert {group: records for group, records in again.items() if not group.startswith("client-")} == judged
    reported = [note["text"] for note in records["layout"]["annotations"]]
    assert {"LEFT killed", "groups translated", "applications moved", "groups read locally"} <= set(reported)
    ends = {text.split("</span> ")[1].split(" <b>")[0] for text in reported if "<b>" in text}
    assert ends - {"read by client-librdkafka"} == {"acknowledged", "mirrored", "read by arrivals", "read by delays"}


def test_failover_drill_unmodified_clients_continue_through_the_address(drill: tuple[Path, str]) -> None:
    """As their own histories say it, and the scorecard, the report and the terminal."""
    run, shown = drill
    (row,) = Scorecard.read(run / "scorecard.json").clients
    assert (row.family, row.verdict, row.lost, row.skipped) == ("librdkafka", Verdict.PASS, 0, 0), row
    fault = moments.at(run, "fault")
    moved = moments.at(run, "decide")
    assert fault is not None
    assert moved is not None
    written, read = (history_files.read_history(run / "history" / f"client-librdkafka-{r}.jsonl") for r in ROLES)
    wrote_ms = min(r.acked_ms for r in written.produced if r.status is ProducedStatus.ACKED and r.acked_ms > moved)
    read_ms = min(r.at_ms for r in read.consumed if r.at_ms > moved)
    assert (row.wrote_after_s, row.read_after_s) == ((wrote_ms - fault) / 1000, (read_ms - fault) / 1000)
    acked = {r.id for r in written.produced if r.status is ProducedStatus.ACKED and r.acked_ms > moved}
    assert acked
    assert acked <= {r.id for r in read.consumed}
    assert "librdkafka" in shown
    assert '<h2 id="clients">' in (run / "report.html").read_text()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_failover_drill_every_family_of_clients_is_judged_and_one_left_behind_is_reported(tmp_path: Path) -> None:
    process = start(tmp_path / "runs", "-p", "clients=all", "-p", "left_behind=java")
    shown, _ = said_until_end(process, 500)
    (run,) = (tmp_path / "runs").iterdir()
    card = Scorecard.read(run / "scorecard.json")
    print(shown[-9000:])
    assert process.returncode == 0, shown[-6000:]
    rows = {row.family: row for row in card.clients if not row.left_behind}
    assert rows.keys() == BY_NAME.keys()
    for runtime in runtimes.found():
        row = rows[runtime.family]
        if runtime.missing:
            assert (row.verdict, row.why) == (Verdict.CONDITIONS, f"not run: {runtime.missing}")
            continue
        assert (row.verdict, row.skipped, row.version) == (Verdict.PASS, 0, runtime.version), row
        family = BY_NAME[runtime.family]
        assert row.lost == (0 if family.acknowledges else None)
        assert row.read_after_s is not None
        assert (row.restarts > 0) is family.restarts
    (left,) = (row for row in card.clients if row.left_behind)
    assert (left.verdict, left.wrote_after_s, left.read_after_s) == (Verdict.CONDITIONS, None, None)
    assert "the java client left behind at LEFT is reported" in {check.name for check in card.checks}
    assert card.verdict is Verdict.CONDITIONS
    assert processes_of(tmp_path) == []


@pytest.mark.timeout(200)
@pytest.mark.parametrize("stage", ["starting clusters", "steady state", "kill LEFT"])
def test_failover_drill_ctrl_c_stops_all_processes(tmp_path: Path, stage: str) -> None:
    process = start(tmp_path / "runs")
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if stage in line:
            break
    process.send_signal(signal.SIGINT)
    rest, _ = said_until_end(process, 90)
    assert process.returncode == 8, seen + rest
    assert "Traceback" not in rest
    if stage == "starting clusters":
        assert "the run was stopped before its first step: Ctrl-C or SIGTERM. Start it again when ready." in rest
    else:  # its lab is gone: nothing to continue or to undo, and nothing was written after its manifest
        (run,) = (tmp_path / "runs").iterdir()
        assert "start it again: drlib run failover-drill --lab" in rest
        assert "--resume" not in rest
        assert "--rollback" not in rest
        assert not {"Resume", "--resume"} & set((run / "scorecard.json").read_text().split())
        assert stored_run.read(run).evidence is stored_run.Evidence.VERIFIED
        with pytest.raises(UsageError, match="gone with the lab"):
            plans.take_up(*plans.run_of(tmp_path / "runs", run), plans.Granted())
    assert processes_of(tmp_path) == []
