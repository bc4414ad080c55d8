"""`drlib runs` and `drlib schedule emit`, as a person types them."""

from __future__ import annotations

import ast
import json
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path

import nbformat
import pytest
import sample_scorecard as sample
from command_line import drlib_here
from hostile_text import HOSTILE
from repository_root import ROOT
from testbed_moves import drill, step
from tiny_notebook import write_notebook

from drlib.drill.plan.plan import Plan, StepPlan
from drlib.drill.run import planning
from drlib.drill.run.request import Request
from drlib.runbook.file.jupyter_job import JobDefinition
from drlib.runbook.file.model import Runbook, Schedule
from drlib.runbook.file.schedule import Scheduler, emit
from drlib.runs.check import Verdict

BOOK = """\
name: {name}
title: "A drill of 100 % of it"
notebook: n.ipynb
{more}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["drlib"])
    (tmp_path / "runbooks").mkdir()
    write_notebook(tmp_path / "runbooks" / "n.ipynb", "pass", parameters='topic: str = "orders"')
    (tmp_path / "runs").mkdir()
    return tmp_path


def book(place: Path, name: str = "monthly", more: str = "schedule: {every: 30d}") -> Path:
    path = place / "runbooks" / f"{name}.yaml"
    path.write_text(BOOK.format(name=name, more=more))
    return path


def ran(place: Path, begun: str, name: str = "monthly", card: bool = True, **changes: object) -> Path:
    folder = place / "runs" / f"{begun}-{name}-abcdef"
    if card:
        return sample.finished_run(folder, sample.scorecard(runbook=name, started_ms=0, **changes))
    folder.mkdir(mode=0o700)
    return folder


def cut(path: Path) -> None:
    path.write_text("{")


def test_runs_lists_past_runs_trends_and_overdue_runbooks(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book(place)
    book(place, "weekly", "schedule: {every: 1w}")
    for day in ("01", "02", "03"):
        ran(place, f"202601{day}T000000Z")
    ran(place, "20260104T000000Z", card=False)
    (place / "runs" / "notes").mkdir()
    assert drlib_here("runs", "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert [run["verdict"] for run in output["runs"]] == ["conditions"] * 3 + ["unknown"]
    assert output["runs"][3]["problem"].endswith("it was not finished")
    monthly, weekly = output["runbooks"]
    assert (monthly["runs"], monthly["overdue"], monthly["rto"]["direction"]) == (4, True, "steady")
    assert (weekly["runs"], weekly["overdue"], weekly["due_ms"]) == (0, True, 0)
    assert drlib_here("runs") == 0
    shown = capsys.readouterr().out
    assert "OVERDUE" in shown
    assert "never run" in shown
    assert drlib_here("runs", "--check") == 3
    assert capsys.readouterr().err.endswith(" Run it: drlib run monthly\n"), "its notebook takes no clusters"


def test_runs_are_listed_by_name_newest_first_and_plans_apart(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    old, new = ran(place, "20260101T000000Z"), ran(place, "20260103T000000Z", "weekly")
    unfinished = ran(place, "20260102T000000Z", card=False)
    (unfinished / "plan.json").write_text("{}")
    (unfinished / "journal.jsonl").write_text("")
    spoilt, planned = ran(place, "20260104T000000Z", card=False), ran(place, "20260105T000000Z", card=False)
    (spoilt / "plan.json").write_text("{}")
    plan = Plan(drill(step("caught-up", "reverse.wait")), (StepPlan("caught-up"),))
    planning.write(plan, planned)
    assert drlib_here("runs") == 0
    runs, _, plans = capsys.readouterr().out.partition("Plans that were not run, newest first")
    assert re.findall(r"│ (\S+-abcdef)", runs) == [new.name, unfinished.name, old.name]
    assert f"\n{unfinished.name}: unknown, pending: " in runs, "below the table, where it has the width of the terminal"
    assert re.search(r"│ monthly +│ +2 │", plans), "a plan is no run of its runbook"
    assert re.findall(r"(\S+-abcdef) │ (\S+)", plans) == [(planned.name, plan.hash[:12]), (spoilt.name, "unknown")]
    assert "drlib run --plan HASH" in plans
    assert drlib_here("runs", "--limit", "1") == 0
    assert re.findall(r"\S+-abcdef", capsys.readouterr().out) == [new.name, planned.name]
    assert drlib_here("runs", "--json") == 0
    listed = json.loads(capsys.readouterr().out)["runs"]
    assert [run["plan_hash"] for run in listed] == [None, None, None, "", plan.hash]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (
            lambda f: cut(f / "scorecard.json"),
            "contradictory: scorecard.json: it is not what manifest.sha256 says",
        ),
        (
            lambda f: (f / "scorecard.json").write_text((f / "scorecard.json").read_text().replace("8.145", "3.145")),
            "contradictory: scorecard.json: it is not what manifest.sha256 says",
        ),
        (lambda f: (f / "manifest.sha256").unlink(), "incomplete: manifest.sha256: it is missing"),
        (lambda f: (f / "late").write_text("x"), "contradictory: late: it is not in manifest.sha256"),
    ],
    ids=["cut", "edited", "scorecard alone", "added"],
)
def test_runs_unverified_run_has_no_verdict_says_why_and_fails_the_check(
    place: Path, capsys: pytest.CaptureFixture[str], edit: Callable[[Path], object], why: str
) -> None:
    folder = ran(place, "20260101T000000Z")
    assert drlib_here("runs", "--check") == 0
    edit(folder)
    capsys.readouterr()
    assert drlib_here("runs", "--json") == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["runs"][0]["verdict"], output["runs"][0]["rto_seconds"]) == ("unknown", None)
    assert output["runs"][0]["problem"].startswith(why)
    assert output["runbooks"][0]["last"]["verdict"] == "unknown"
    assert drlib_here("runs") == 0
    assert "unknown, " in capsys.readouterr().out
    assert drlib_here("runs", "--check") == 3
    assert "is not verified" in capsys.readouterr().err


def test_runs_name_of_a_run_is_on_one_line_of_a_narrow_terminal(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    cut(ran(place, "20261128T081629Z", "rehearse-failover") / "journal.jsonl")
    assert drlib_here("runs") == 0
    assert "20261128T081629Z-rehearse-failover" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (None, "game-day"),
        ({"properties": "my mm2.properties"}, "game-day '{0}/my mm2.properties'"),
        ({"lab_dir": "gone"}, "game-day --lab"),
        ({"lab_dir": "runs", "lab_ends": True, "parameters": {"seed": 7}}, "game-day --lab -p seed=7"),
        ({"lab_dir": "runs"}, "game-day --lab-dir {0}/runs"),
    ],
)
def test_runs_check_names_the_next_run_by_its_name_on_the_clusters_that_it_had(
    place: Path, capsys: pytest.CaptureFixture[str], asked: dict[str, object] | None, said: str
) -> None:
    folder = ran(place, "20260101T000000Z", "game-day", verdict=Verdict.UNKNOWN, checks=())
    if asked is not None:
        paths = {key: place / str(value) for key, value in asked.items() if key in ("properties", "lab_dir")}
        Request.model_validate({"runbook": ROOT / "runbooks" / "game-day.yaml", **asked, **paths}).write(folder)
    assert drlib_here("runs", "--check") == 3
    assert f"Run it: drlib run {said.format(place)}\n" in capsys.readouterr().err


def test_runs_check_never_says_to_run_what_moves_applications(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A failover that was not proven is not repeated: its applications are on the other cluster."""
    folder = ran(place, "20260101T000000Z", "emergency-failover", verdict=Verdict.UNKNOWN, checks=())
    asked = {"runbook": ROOT / "runbooks" / "emergency-failover.yaml", "properties": place / "mm2.properties"}
    Request.model_validate(asked).write(folder)
    assert drlib_here("runs", "--check") == 3
    said = capsys.readouterr().err
    assert "drlib run " not in said
    assert said.endswith(f"drlib runs report {folder.name}\n")
    book(place)
    assert drlib_here("runs", "--check") == 3
    assert capsys.readouterr().err.endswith(" Run it: drlib run monthly\n")


def test_runs_check_names_the_clusters_that_a_runbook_needs_and_its_path_where_its_name_is_not_found(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran(place, "20260101T000000Z", "nightly-audit", verdict=Verdict.UNKNOWN, checks=())
    assert drlib_here("runs", "--check") == 3
    assert "Run it: drlib run nightly-audit FILE, or --lab in place of FILE\n" in capsys.readouterr().err
    book(place)
    (place / "runbooks").rename(place / "books")
    assert drlib_here("runs", "--check", "--runs-dir", "nowhere", "--runbooks", "books") == 3
    assert f"Run it: drlib run {place / 'books' / 'monthly.yaml'}\n" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["nowhere", "runbooks/n.ipynb"])
def test_runs_folder_of_runbooks_that_is_none_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    ran(place, "20260101T000000Z")
    for more in ((), ("--check",), ("--json",)):
        assert drlib_here("runs", "--runbooks", given, *more) == 2
        assert f"--runbooks {given}: " in capsys.readouterr().err


def test_runs_check_of_nothing_is_no_pass(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert drlib_here("runs", "--check", "--runs-dir", "nowhere") == 3
    assert "nothing was checked" in capsys.readouterr().err


def test_runs_check_fails_by_the_last_run_that_ended(place: Path) -> None:
    ran(place, "20260101T000000Z", verdict=Verdict.UNKNOWN, checks=())
    assert drlib_here("runs", "--check") == 3
    (ran(place, "20260102T000000Z", card=False) / "plan.json").write_text("{}")  # one that still runs hides nothing
    assert drlib_here("runs", "--check") == 3
    ran(place, "20260103T000000Z")
    assert drlib_here("runs", "--check") == 0


def test_runs_check_fails_by_the_last_run_whatever_one_of_a_wrong_clock_says(place: Path) -> None:
    ran(place, "29990101T000000Z")
    ran(place, "20260101T000000Z", verdict=Verdict.UNKNOWN, checks=())
    assert drlib_here("runs", "--check") == 3


def test_runs_folder_named_with_an_impossible_time_is_listed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(place, "20269999T999999Z", card=False)
    assert drlib_here("runs", "--json") == 0
    assert [run["started_ms"] for run in json.loads(capsys.readouterr().out)["runs"]] == [0]


def test_runs_run_that_has_not_ended_fails_no_check(place: Path) -> None:
    (ran(place, "20251231T000000Z", name="incident", card=False) / "journal.jsonl").touch()
    (ran(place, "20260101T000000Z", card=False) / "plan.json").write_text("{}")
    assert drlib_here("runs", "--check") == 0
    assert drlib_here("runs", "--runs-dir", "nowhere") == 0


def test_runs_verify_says_for_each_file_what_differs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert drlib_here("runs", "verify") == 3
    assert "nothing was verified: runs has no run" in capsys.readouterr().err
    good, bad = ran(place, "20260101T000000Z"), ran(place, "20260102T000000Z")
    assert drlib_here("runs", "verify") == 0
    (bad / "journal.jsonl").unlink()
    (bad / "late\n").write_text("x")
    capsys.readouterr()
    assert drlib_here("runs", "verify") == 3
    output = capsys.readouterr()
    assert output.out.splitlines() == [
        f"{good.name}: verified",
        f"{bad.name}: contradictory",
        "  journal.jsonl: it is missing",
        "  late : it is not in manifest.sha256",
    ]
    assert f"1 of 2 runs not verified: {bad.name}" in output.err
    assert drlib_here("runs", "verify", good.name) == 0
    capsys.readouterr()
    assert drlib_here("runs", "verify", str(good), str(bad), "--json") == 3
    first, second = json.loads(capsys.readouterr().out)
    assert (first["evidence"], first["problem"], first["differences"]) == ("verified", "", [])
    assert second["differences"][0] == {"file": "journal.jsonl", "why": "it is missing", "missing": True}
    assert drlib_here("runs", "verify", "unheard-of") == 2


def test_runs_verify_planned_run_fails_only_by_name(place: Path) -> None:
    folder = ran(place, "20260101T000000Z", card=False)
    (folder / "plan.json").write_text("{}")
    assert drlib_here("runs", "verify") == 0
    assert drlib_here("runs", "verify", folder.name) == 3


def test_schedule_cron_line_is_one_shell_command(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = book(place)
    assert (
        drlib_here("schedule", "emit", str(path), "--as", "cron", "--user", "drill", "--runs-dir", "my runs", "--lab")
        == 0
    )
    line = capsys.readouterr().out.splitlines()[-1]
    fields, command = line.split(" cd ")
    assert fields == "0 3 1 * *"
    words = shlex.split(command)
    assert words[0] == str(place)
    assert words[2:] == [
        sys.executable, "-P", "-m", "drlib.cli", "run", str(path), "--runs-dir", str(place / "my runs"), "--lab",
    ]  # fmt: skip


def test_schedule_systemd_has_a_service_and_a_timer(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = book(place, more="schedule: {every: 7d, cron: '15 2 * * 0'}")
    assert drlib_here("schedule", "emit", str(path), "--as", "systemd", "--user", "daemon") == 0
    text = capsys.readouterr().out
    service, timer = text.split("# --- drlib-monthly.timer ---\n")
    assert "OnCalendar=Sun *-*-* 02:15:00 UTC\n" in timer
    assert f"ExecStart={sys.executable} -P -m drlib.cli run {path} --runs-dir {place / 'runs'}\n" in service
    assert "Description=A drill of 100 %% of it\n" in service
    assert "\nUser=daemon\n" in service
    assert f"\nWorkingDirectory={place}\n" in service
    for part in (service, timer):
        parser = ConfigParser(strict=True, interpolation=None)
        parser.read_string(part)
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        (place / "drlib-monthly.service").write_text(service)
        (place / "drlib-monthly.timer").write_text(timer)
        done = subprocess.run([analyze, "verify", str(place / "drlib-monthly.timer")], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


def test_schedule_airflow_dag_is_valid_python(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = book(place)
    assert drlib_here("schedule", "emit", str(path), "--as", "airflow") == 0
    tree = ast.parse(capsys.readouterr().out)
    keywords = {
        word.arg: ast.literal_eval(word.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg in {"dag_id", "schedule", "bash_command", "cwd", "retries"}
    }
    assert keywords["dag_id"] == "drlib_monthly"
    assert keywords["schedule"] == "0 3 1 * *"
    assert shlex.split(keywords["bash_command"])[4:6] == ["run", str(path)]
    assert (keywords["cwd"], keywords["retries"]) == (str(place), 0)


@pytest.mark.parametrize("scheduler", ["cron", "systemd"])
def test_schedule_runs_as_who_asks_and_as_root_only_where_that_is_said(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, scheduler: str
) -> None:
    path = str(book(place))
    names = {"cron": "crontab -u {} -e", "systemd": "User={}\n"}
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert drlib_here("schedule", "emit", path, "--as", scheduler) == 2
    assert "would be root's" in capsys.readouterr().err
    assert drlib_here("schedule", "emit", path, "--as", scheduler, "--user", "root") == 0
    assert names[scheduler].format("root") in capsys.readouterr().out
    for number, name in ((pwd.getpwnam("daemon").pw_uid, "daemon"), (54321, "54321")):
        monkeypatch.setattr("os.geteuid", lambda number=number: number)
        assert drlib_here("schedule", "emit", path, "--as", scheduler) == 0
        assert names[scheduler].format(name) in capsys.readouterr().out
    assert drlib_here("schedule", "emit", path, "--as", scheduler, "--user", "x\nUser=root") == 2
    assert drlib_here("schedule", "emit", path, "--as", "airflow", "--user", "drill") == 2


FIELDS = {  # of jupyter-scheduler's CreateJobDefinition, and whether it requires them
    "input_uri": True, "input_filename": False, "runtime_environment_name": True, "runtime_environment_parameters": False,
    "output_formats": False, "parameters": False, "tags": False, "name": True, "output_filename_template": False,
    "compute_type": False, "schedule": False, "timezone": False,
}  # fmt: skip


def test_schedule_jupyter_job_definition_has_the_fields_that_its_api_takes(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = book(place, more="schedule: {every: 7d, cron: '15 2 * * 0'}")
    assert (
        drlib_here("schedule", "emit", str(path), "--as", "jupyter-scheduler", "--runs-dir", "it's my runs", "--lab")
        == 0
    )
    text = capsys.readouterr().out
    definition = json.loads(text.partition("# --- drlib-monthly.json ---\n")[2])
    assert set(JobDefinition.model_fields) == set(FIELDS)
    assert {name for name, needed in FIELDS.items() if needed} <= set(definition) <= set(FIELDS)
    assert (definition["schedule"], definition["timezone"]) == ("15 2 * * 0", "UTC")
    assert all(isinstance(value, str) for value in definition["parameters"].values())
    command = ast.literal_eval(definition["parameters"]["command"])
    assert command[command.index("run") + 1 :] == [str(path), "--runs-dir", str(place / "it's my runs"), "--lab"]
    assert ast.literal_eval(definition["parameters"]["folder"]) == str(path.parent.parent)
    notebook = nbformat.reads(
        text.partition(f"# --- {definition['input_uri']} ---\n")[2].partition("\n#")[0], as_version=4
    )
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3", "jupyter-scheduler refuses a notebook without a kernel"
    assert notebook.cells[0].metadata.tags == ["parameters"]
    assert drlib_here("schedule", "emit", str(path), "--as", "jupyter-scheduler", "--user", "drill") == 2
    assert "jobs run as JupyterLab does" in capsys.readouterr().err


def test_schedule_of_a_runbook_without_clusters_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of its runs would be."""
    emit = ("schedule", "emit", str(ROOT / "runbooks" / "nightly-audit.yaml"), "--as", "airflow")
    assert drlib_here(*emit) == 2
    output = capsys.readouterr()
    assert "none were given. Give FILE, or --lab for clusters of its own." in output.err
    assert output.out == ""
    assert drlib_here(*emit, "--lab") == 0
    capsys.readouterr()
    assert drlib_here(*emit, str(place / "mm2.properties")) == 2
    assert "No such file" in capsys.readouterr().err
    assert drlib_here(*emit, str(place)) == 2
    output = capsys.readouterr()
    assert ("Is a directory" in output.err, output.out) == (True, "")
    (place / "mm2.properties").write_text("clusters = paris, lyon\n")
    assert drlib_here(*emit, str(place / "mm2.properties")) == 0


@pytest.mark.parametrize("scheduler", ["cron", "systemd", "airflow", "jupyter-scheduler"])
def test_schedule_names_the_variables_that_the_run_needs(
    place: Path, scheduler: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the shell that it was typed in are not there when a scheduler runs it."""
    path = book(place, more="schedule: {every: 30d}\nalert: {url: '${env:HOOK}'}")
    provider = "config.providers.of.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    (place / "mm2.properties").write_text(f"clusters = a, b\n{provider}\na.sasl.jaas.config = M pw=${{of:A_PW}};\n")
    user = () if scheduler in ("airflow", "jupyter-scheduler") else ("--user", "drill")
    emitted = ("schedule", "emit", str(path), str(place / "mm2.properties"), "--as", scheduler, *user)
    assert drlib_here(*emitted) == 0
    text = capsys.readouterr().out
    assert "# The run refers to A_PW, HOOK of its environment: " in text
    assert ("\nEnvironmentFile=/etc/drlib-monthly.env\n" in text) is (scheduler == "systemd")
    if scheduler == "airflow":
        compile(text, "dag.py", "exec")
    (place / "mm2.properties").write_text("clusters = a, b\n")
    book(place)
    assert drlib_here(*emitted) == 0
    assert "refers" not in capsys.readouterr().out


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("scheduler", ["cron", "systemd", "airflow", "jupyter-scheduler"])
def test_schedule_title_from_outside_adds_no_line(place: Path, scheduler: Scheduler, text: str) -> None:
    runbook = Runbook(name="n", title=text, notebook=place, schedule=Schedule(every="30d"), file=place / "r" / "n.yaml")
    plain = runbook.model_copy(update={"title": "plain"})
    user = None if scheduler in ("airflow", "jupyter-scheduler") else "drill"
    made, expected = (
        emit(each, Scheduler(scheduler), runs_dir=place, user=user).splitlines() for each in (runbook, plain)
    )
    assert [line for line, plain in zip(made, expected, strict=True) if line != plain and "plain" not in plain] == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "monthly has no schedule"),
        ("schedule: {every: 5h}", "a scheduler's calendar cannot say that"),
        ("schedule: {every: soon}", "schedule.every"),
        ("schedule: {every: 1d, cron: '0 25 * * *'}", "'25' is no hour"),
        ("schedule: {evry: 1d}", "Did you mean every"),
        ("schedule: {every: 1d, cron: '0 3 1 * 1'}", "cron takes either"),
        ("alert: {ulr: x}", "Did you mean url"),
    ],
)
def test_schedule_impossible_requests_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str], more: str, said: str
) -> None:
    assert drlib_here("schedule", "emit", str(book(place, more=more)), "--as", "systemd", "--user", "drill") == 2
    output = capsys.readouterr().err
    assert said in output
    assert "Traceback" not in output


@pytest.mark.parametrize("command", ["verify", "report"])
def test_folder_of_anything_else_is_no_run(place: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "dir").mkdir()
    (place / "dir" / "notes.txt").write_text("x")
    assert drlib_here("runs", command, "dir") == 2
    assert "run dir: there is no such run, here or in runs." in capsys.readouterr().err
    (place / "runs" / "dir").mkdir()
    shutil.copytree(ran(place, "20261121T100000Z"), place / "dir", dirs_exist_ok=True)
    assert drlib_here("runs", command, "dir") == 3  # a run, with a file more
