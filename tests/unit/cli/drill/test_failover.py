"""`drlib failover` for what it refuses, without brokers; and what its screen reads of a run's folder."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from command_line import drlib, error_line
from rich.console import Console
from sample_assessment import MADE
from silent_clusters import silent_clusters
from testbed_moves import drill, step

from drlib.cli.drill import failover
from drlib.cli.drill import run as running
from drlib.cli.drill.confirmation import choose_runbook
from drlib.cli.drill.followed_run import Follower
from drlib.drill.actions.groups import decided
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.assessment import assessment, observe
from drlib.drill.assessment.assessment import Next
from drlib.drill.plan.plan import Mode, Plan, StepPlan
from drlib.drill.run import planning
from drlib.drill.run.request import Request, Scalar
from drlib.drill.session.unfinished_runs import UnfinishedRun
from drlib.drill.step.step_output import write_rows
from drlib.errors import UsageError
from drlib.model import Flow, TopicPartition, TranslationKind
from drlib.runbook.execution import early_kernel
from drlib.runbook.just_found import NOTHING_FOUND
from drlib.runs.journal import JOURNAL, DrillJournal
from drlib.ui.terminal.run import Progress

OTHER = Path("other.yaml")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    with silent_clusters(tmp_path / "mm2.properties", "paris", "lyon") as path:
        yield path


def test_failover_to_a_target_that_does_not_answer_is_refused_with_the_assessment(file: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    refused = drlib("failover", str(file), "--yes", "lyon", "--json", "--runs-dir", str(runs))
    assert "lyon cannot take over" in error_line(refused, 11)
    (made,) = map(json.loads, refused.stdout.splitlines())
    assert (made["event"], made["flow"], made["next"], made["target_answers"]) == (
        "assessment",
        "paris->lyon",
        "refuse",
        False,
    )
    assert made["loss"]["records"] is None
    assert made["groups_unknown"] == "lyon does not answer"
    assert not runs.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--yes", "paris"), "'paris' was given to confirm it. Give lyon."),
        (("--yes", "Lyon"), "'Lyon' was given to confirm it. Give lyon."),
        (("--witness", "abc"), "--witness abc: it has no port"),
        (("--witness", "w1:9470", "--witness", "w2:9470/x"), "--witness w2:9470/x: it has more than"),
        (("--fault-at", "yesterday"), "'yesterday': it is no time with a zone"),
        (("lyon->paris",), "Name one: drlib failover"),
        (("paris->nice",), "has no flow paris->nice"),
        (("--runbook", "runbooks/rehearse-failover.yaml"), "it is not one of an emergency"),
        (("--runbook", "notebooks"), "none of failover-paris-lyon.yaml, failover.yaml is in notebooks"),
    ],
)
def test_failover_that_is_not_meant_is_refused_before_anything_is_asked(
    file: Path, arguments: tuple[str, ...], words: str
) -> None:
    refused = drlib("failover", str(file), *arguments)
    assert words in error_line(refused, 2)
    assert refused.stdout == ""


def emergency(path: Path, flow: str) -> Path:
    """The shipped runbook, written for `flow`."""
    path.parent.mkdir(exist_ok=True)
    shipped = (Path("runbooks") / "emergency-failover.yaml").read_text()
    notebook = (Path("notebooks") / "10_run_a_drill.ipynb").absolute()
    path.write_text(
        shipped.replace('"${flow}"', f'"{flow}"').replace("../notebooks/10_run_a_drill.ipynb", str(notebook))
    )
    return path


def test_failover_refuses_the_runbook_of_another_flow_that_was_given(file: Path) -> None:
    given = emergency(file.parent / "written" / "failover.yaml", "lyon->paris")
    for path in (given, given.parent):
        refused = drlib("failover", str(file), "--runbook", str(path))
        assert "it is for lyon->paris, not for paris->lyon" in error_line(refused, 2)


def test_failover_takes_the_runbook_of_its_flow_beside_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two flows the second's runbook replaced the first's, or one that was left was taken, and the emergency ended there."""
    file, folder = tmp_path / "mm2.properties", tmp_path / "runbooks"

    def chosen(flow: str) -> Path:
        return choose_runbook(None, file, Flow.parse(flow), "failover", "emergency-failover.yaml", "fail over")

    shipped = Path("runbooks").absolute() / "emergency-failover.yaml"
    assert chosen("paris->lyon") == shipped
    plain = emergency(folder / "failover.yaml", "paris->lyon")
    assert (chosen("paris->lyon"), capsys.readouterr().err) == (plain, "")
    assert chosen("rome->lyon") == shipped
    assert "failover.yaml is for paris->lyon, so rome->lyon has the runbook" in capsys.readouterr().err
    rome = emergency(folder / "failover-rome-lyon.yaml", "rome->lyon")
    capital = emergency(folder / "failover-rome-lyon-2.yaml", "ROME->lyon")
    assert [chosen(flow) for flow in ("paris->lyon", "rome->lyon", "ROME->lyon")] == [plain, rome, capital]
    own = emergency(folder / "failover-paris-lyon.yaml", "paris->lyon")
    assert chosen("paris->lyon") == own
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("options", "refused", "own"),
    [
        ({}, "", ""),
        ({"force_reason": "no power"}, "", ""),
        ({"witness": ["w1:9470", "w2:9470"]}, "", ""),
        ({"runbook": Path("runbooks/emergency-failover.yaml")}, "", ""),
        ({"force_reason": "fire"}, "--force-reason fire", "--force-reason 'no power'"),
        ({"fault_at": "2026-11-21T03:12:05Z"}, "--fault-at 2026-11-21T03:12:05Z", "no --fault-at"),
        ({"witness": ["w1:9470"]}, "--witness w1:9470", "--witness w1:9470 --witness w2:9470"),
        ({"runbook": OTHER}, "--runbook OTHER", "--runbook SHIPPED"),
    ],
)
def test_failover_that_continues_refuses_options_that_it_was_not_begun_with(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], refused: str, own: str
) -> None:
    folder, resumed = tmp_path / "runs" / "r7", list[str]()
    folder.mkdir(parents=True)
    shipped, other = Path("runbooks/emergency-failover.yaml").absolute(), tmp_path / "other.yaml"
    notebook = str((Path("notebooks") / "10_run_a_drill.ipynb").absolute())
    other.write_text(shipped.read_text().replace("../notebooks/10_run_a_drill.ipynb", notebook))
    wanted = drill(step("decide", "failover.triage"), mode=Mode.EMERGENCY)
    planning.write(Plan(wanted, (StepPlan("decide"),)), folder)
    parameters: dict[str, Scalar | list[Scalar]] = {"force_reason": "no power", "witnesses": ["w1:9470", "w2:9470"]}
    Request(runbook=shipped, parameters=parameters).write(folder)
    run = UnfinishedRun("paris->lyon", "r7", "incomplete", "emergency", 1, "ops", str(folder), (), "", "", "")
    made = replace(MADE, next=Next.CONTINUE, unfinished=run)

    def resume(folder: Path, *_: object) -> int:
        resumed.append(folder.name)
        return 0

    monkeypatch.setattr(running, "resume", resume)
    monkeypatch.setattr(observe, "observe", lambda *_, **__: None)
    monkeypatch.setattr(assessment, "assess", lambda _: made)
    monkeypatch.setattr(failover, "found", lambda _: NOTHING_FOUND)
    monkeypatch.setattr(early_kernel, "EarlyKernel", lambda _: io.StringIO())
    monkeypatch.setattr(failover, "_load_what_runs", lambda: None)
    chosen = other if options.get("runbook") is OTHER else options.get("runbook")
    assert chosen is None or isinstance(chosen, Path)
    reason, at = str(options.get("force_reason", "")), str(options.get("fault_at", ""))
    witness = list(map(str, given)) if isinstance(given := options.get("witness"), list) else None
    for word, path in (("OTHER", other), ("SHIPPED", shipped)):
        refused, own = refused.replace(word, str(path)), own.replace(word, str(path))
    with pytest.raises((typer.Exit, UsageError)) as ended:
        failover.failover(file, "paris->lyon", "lyon", chosen, reason, at, witness, "", False, folder.parent)
    if not refused:
        assert resumed == ["r7"]
        return
    assert resumed == []
    assert isinstance(ended.value, UsageError)
    assert ended.value.what == f"{refused} is not applied, nothing was changed"
    assert ended.value.why == f"run r7 is unfinished and continues with the same parameters: {own}"
    assert f"begin: drlib failover {file} 'paris->lyon' {refused} --supersede r7." in ended.value.remedy


def test_failover_that_continues_refuses_to_supersede_a_run_that_was_not_given_up(tmp_path: Path) -> None:
    """The same command given again names the run that the one it continues gave up."""
    (folder := tmp_path / "r7").mkdir()
    Request(runbook=Path("runbooks/emergency-failover.yaml").absolute(), parameters={}, supersede="r6").write(folder)
    run = UnfinishedRun("paris->lyon", "r7", "incomplete", "emergency", 1, "ops", str(folder), (), "", "", "")
    made = replace(MADE, next=Next.CONTINUE, unfinished=run)
    for given in ("", "r6", "runs/r6"):
        failover._refuse_other_run(made, tmp_path, given)
    failover._refuse_other_run(replace(made, next=Next.BEGIN), tmp_path, "r7")
    with pytest.raises(UsageError, match=r"--supersede nope is not applied.* is r7\..*--supersede r7\."):
        failover._refuse_other_run(made, tmp_path, "nope")


def test_follower_says_of_each_wave_what_its_own_applications_have_to_change(file: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "run", io.StringIO()
    folder.mkdir()
    waves = {"waves": ("money: billing", "shop: shop"), "readers": ("billing=billing", "shop=shop")}
    moving = [step(f"move-{name}", "wave.move", wave=name, **waves) for name in ("money", "shop")]
    served = [step(f"move-{name}-served", "wave.verify", wave=name, **waves) for name in ("money", "shop")]
    wanted = drill(moving[0], served[0], moving[1], served[1], mode=Mode.EMERGENCY)
    planning.write(Plan(wanted, tuple(StepPlan(each.name) for each in wanted.steps)), folder)
    orders, mirror = TopicPartition("orders", 0), TopicPartition("paris.orders", 0)
    groups = ("billing", "shop")
    exact = TranslationKind.EXACT
    decided.write(folder, "lyon", [PositionMove(group, orders, 5, mirror, 5, exact, 0, 1) for group in groups])
    follower = Follower(folder, "lyon", file, Progress(Console(file=out, width=200)), as_json=False)
    log = DrillJournal(folder / JOURNAL)
    for name, unmoved in (("money", "shop"), ("shop", "")):
        log.write("step-succeeded", step=f"move-{name}", detail="")
        follower.look()
        assert f"group.id = {'billing' if name == 'money' else 'shop'}: subscribe to paris.orders" in out.getvalue()
        assert not unmoved or f"group.id = {unmoved}" not in out.getvalue()
        group = "billing" if name == "money" else "shop"
        row = {"kind": "group", "name": group, "seen": "served", "detail": f"{group} reads on"}
        write_rows(folder, f"move-{name}-served", [row])
        follower.look()
        assert f"{group} reads on" in out.getvalue()
    assert out.getvalue().count("group.id = billing") == 1
    log.close()


@pytest.mark.parametrize("as_json", [False, True])
def test_follower_says_steps_then_what_to_change_once_the_pointer_moved_and_who_is_back(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    folder, out = tmp_path / "run", io.StringIO()
    folder.mkdir()
    wanted = drill(step("move", "pointer.move"), step("verify", "groups.verify"), mode=Mode.EMERGENCY)
    planning.write(Plan(wanted, tuple(StepPlan(each.name) for each in wanted.steps)), folder)
    orders, mirror = TopicPartition("orders", 0), TopicPartition("paris.orders", 0)
    decided.write(folder, "lyon", [PositionMove("billing", orders, 5, mirror, 5, TranslationKind.EXACT, 0, 1)])
    follower = Follower(folder, "lyon", file, Progress(Console(file=out, width=200)), as_json=as_json)

    def said() -> str:
        follower.look()
        return out.getvalue() + capsys.readouterr().out

    assert said() == ""
    log = DrillJournal(folder / JOURNAL)
    log.write("step-started", step="move", detail="")
    begun = said()
    assert "move" in begun
    assert "billing" not in begun
    log.write("step-succeeded", step="move", detail="")
    assert ("group.id = billing: subscribe to paris.orders, then orders" in said()) is not as_json
    for seen in ("not observed: waiting", "served"):
        write_rows(folder, "verify", [{"kind": "group", "name": "billing", "seen": seen, "detail": "x"}])
        assert seen in said()
    before = out.getvalue()
    assert said() == before  # nothing is said twice
    log.write("step-failed", step="verify", detail="", error="no answer")
    assert "failed: no answer" in said()
    if not as_json:  # continued, it says what fails now
        out.truncate(0)
        follower = Follower(folder, "lyon", file, Progress(Console(file=out, width=200)), as_json=False)
        assert "failed" not in said()
        log.write("step-failed", step="verify", detail="", error="no leader")
        assert "failed: no leader" in said()
    log.close()
