"""`drlib failback` for what it refuses, without brokers."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import sample_scorecard as sample
import typer
from command_line import drlib, error_line
from rich.console import Console
from sample_return import MADE
from silent_clusters import silent_clusters
from testbed_moves import drill, step

from drlib.cli.drill import failback, followed_run, run
from drlib.cli.drill.confirmation import choose_runbook
from drlib.drill.assessment import observe_return, returning
from drlib.drill.assessment.assessment import Next
from drlib.drill.assessment.returning import ReturnAssessment, Stage
from drlib.drill.plan.plan import Mode, Plan, Step, StepPlan
from drlib.drill.plan.progress import Noted
from drlib.drill.run import planning
from drlib.drill.run.request import Request
from drlib.drill.session.unfinished_runs import UnfinishedRun
from drlib.drill.step.step_output import write_rows
from drlib.errors import Deviated, UsageError
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.model import Flow
from drlib.runbook.execution.execute import RunResult
from drlib.runbook.file import find, model
from drlib.runbook.file.model import Runbook
from drlib.runs.journal import JOURNAL, DrillJournal
from drlib.ui.terminal.run import Progress


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    with silent_clusters(tmp_path / "mm2.properties", "paris", "lyon") as path:
        yield path


def test_failback_whose_target_does_not_answer_is_refused_with_the_assessment(file: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    refused = drlib("failback", str(file), "--yes", "paris", "--json", "--runs-dir", str(runs))
    assert refused.returncode == 11
    assert "lyon does not say where paris->lyon stands" in refused.stderr.splitlines()[-1]
    (made,) = map(json.loads, refused.stdout.splitlines())
    assert (made["event"], made["next"], made["state"]) == ("assessment", "refuse", "unknown")
    assert made["tail"] is None
    assert not runs.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--yes", "lyon"), "'lyon' was given to confirm it. Give paris."),
        (("lyon->paris",), "Name one: drlib failback"),
        (("--runbooks", "notebooks"), "none of reprotect-paris-lyon.yaml, reprotect.yaml is in notebooks"),
        (("--tail", "truncate"), "'truncate'"),
    ],
)
def test_failback_that_is_not_meant_is_refused_before_anything_is_asked(
    file: Path, arguments: tuple[str, ...], words: str
) -> None:
    said = drlib("failback", str(file), *arguments)
    assert said.returncode == 2
    assert words in said.stderr


def test_failback_takes_the_runbooks_beside_the_file_and_refuses_other_ones(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = file.parent / "runbooks"
    folder.mkdir()
    shipped = (Path("runbooks") / "reprotect.yaml").read_text()
    notebook = str((Path("notebooks") / "10_run_a_drill.ipynb").absolute())
    shipped = shipped.replace("../notebooks/10_run_a_drill.ipynb", notebook)
    (folder / "reprotect.yaml").write_text(shipped.replace("activity: reprotect", "activity: fail-over"))
    assert "its activity is not reprotect" in error_line(drlib("failback", str(file)), 2)
    (folder / "reprotect.yaml").write_text(shipped.replace('"${flow}"', '"lyon->paris"'))
    refused = drlib("failback", str(file), "--runbooks", str(folder))
    assert "it is for lyon->paris, not for paris->lyon" in error_line(refused, 2)
    monkeypatch.chdir(file.parent)  # where a runbook's name leads to the same file
    path = choose_runbook(None, file, Flow("paris", "lyon"), "reprotect", "reprotect.yaml", "reprotect")
    assert path.parent == find.shipped("runbooks")


def test_failback_does_not_recover_records_that_the_target_may_have() -> None:
    made = replace(MADE, in_doubt=12)
    with pytest.raises(UsageError, match="of 12 records it is unknown whether lyon has them") as refused:
        failback._settling(made, Settle.RECOVER)
    assert "--tail quarantine" in refused.value.remedy
    assert failback._settling(made, Settle.QUARANTINE) is Settle.QUARANTINE
    assert failback._settling(replace(made, in_doubt=0), Settle.RECOVER) is Settle.RECOVER


def shipped(stage: Stage) -> Runbook:
    return model.load(Path("runbooks") / f"{stage.value}.yaml")


@pytest.mark.parametrize(
    ("tail", "records", "settles"),
    [
        (None, False, "quarantine"),
        (Settle.QUARANTINE, False, "quarantine"),
        (Settle.LEAVE, False, "leave"),
        (Settle.RECOVER, False, "recover"),
        (Settle.LEAVE, True, "leave"),
    ],
)
def test_failback_settles_as_was_chosen_also_what_is_written_after_the_assessment(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: Settle | None, records: bool, settles: str
) -> None:
    made = MADE if records else replace(MADE, tail=())
    asked = begun_by(monkeypatch, made, file, tmp_path, tail)
    assert asked == [["tail=" + settles, "flow=paris->lyon"], ["flow=paris->lyon"]]


def test_failback_of_topics_that_both_directions_copy_passes_no_choice(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replace(MADE, both_ways=True, tail=None)
    asked = begun_by(monkeypatch, made, file, tmp_path, Settle.LEAVE)
    assert asked == [["flow=paris->lyon"], ["flow=paris->lyon"]]


def test_failback_with_a_runbook_that_fixes_what_becomes_of_records_refuses_another_choice() -> None:
    book = shipped(Stage.REPROTECT)
    fixed = book.model_copy(update={"parameters": {}})
    nothing = replace(MADE, tail=())
    assert failback._tail_of(fixed, nothing, None, Settle.QUARANTINE) == []
    for made, tail in ((nothing, Settle.LEAVE), (MADE, Settle.LEAVE), (MADE, None)):
        with pytest.raises(UsageError, match="has no parameter `tail`"):
            failback._tail_of(fixed, made, tail, Settle.LEAVE)


@pytest.mark.parametrize(
    ("how", "tail", "refused"),
    [
        ("recover", Settle.QUARANTINE, "--tail recover"),
        ("recover", Settle.RECOVER, ""),
        ("recover", None, ""),
        ("", Settle.LEAVE, "no --tail"),
    ],
)
def test_failback_that_continues_shows_its_own_choice_and_refuses_another_one(
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    how: str,
    tail: Settle | None,
    refused: str,
) -> None:
    steps = [step("settle", "tail.settle", how=how)] if how else [step("fence", "source.fence")]
    made = left(tmp_path / "runs" / "r7", steps, "reprotect")
    if refused:
        with pytest.raises(UsageError) as error:
            begun_by(monkeypatch, made, file, tmp_path, tail)
        assert error.value.what == f"--tail {tail} is not applied, nothing was changed"
        assert error.value.why == f"run r7 is unfinished and continues with the same parameters: {refused}"
        assert f"begin: drlib failback {file} 'paris->lyon' --tail {tail} --supersede r7." in error.value.remedy
    else:
        assert begun_by(monkeypatch, made, file, tmp_path, tail) == [["r7"], ["flow=paris->lyon"]]
    said = capsys.readouterr().out
    assert ("quarantine: copied" in said, "recover: written" in said) == (False, bool(how))


def test_failback_that_continues_refuses_other_runbooks_and_takes_the_same_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = left(tmp_path / "runs" / "r7", [step("settle", "tail.settle", how="leave")], "reprotect")
    own = tmp_path / "own"
    shutil.copytree("runbooks", own / "runbooks")
    shutil.copytree("notebooks", own / "notebooks")
    begun_by(monkeypatch, made, file, tmp_path, None, Path("runbooks"))
    with pytest.raises(UsageError, match="continues with the same parameters: runbook") as error:
        begun_by(monkeypatch, made, file, tmp_path, None, own / "runbooks")
    assert f"--runbooks {own / 'runbooks'} --supersede r7" in error.value.remedy


def test_fail_back_that_continues_takes_the_choice_of_the_reprotect_before_it_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = left(tmp_path / "runs" / "r7", [step("go-home", "switchover.move")], "fail-back")
    made = replace(made, stages=(Stage.FAIL_BACK,))
    assert begun_by(monkeypatch, made, file, tmp_path, Settle.RECOVER) == [["r7"]]


def left(folder: Path, steps: Sequence[Step], book: str) -> ReturnAssessment:
    """The assessment where the run in `folder` was left and continues."""
    folder.mkdir(parents=True)
    wanted = drill(*steps, mode=Mode.PLANNED)
    planning.write(Plan(wanted, tuple(StepPlan(each.name) for each in wanted.steps)), folder)
    Request(runbook=(Path("runbooks") / f"{book}.yaml").absolute()).write(folder)
    run = UnfinishedRun("paris->lyon", "r7", "reprotect-incomplete", "planned", 1, "ops", str(folder), (), "", "", "")
    return replace(MADE, next=Next.CONTINUE, unfinished=run)


def begun_by(
    monkeypatch: pytest.MonkeyPatch,
    made: ReturnAssessment,
    file: Path,
    tmp_path: Path,
    tail: Settle | None,
    runbooks: Path | None = None,
) -> list[list[str]]:
    """The parameters of the runs that `drlib failback` begins after the assessment `made`; of one that continues its name."""
    asked: list[list[str]] = []

    def run_runbook(_: Path, pairs: list[str], *__: object) -> int:
        asked.append(pairs)
        return 0

    def resume(folder: Path, *_: object) -> int:
        asked.append([folder.name])
        return 0

    monkeypatch.setattr(run, "resume", resume)
    monkeypatch.setattr(observe_return, "observe_return", lambda *_, **__: None)
    monkeypatch.setattr(returning, "assess_return", lambda _: made)
    monkeypatch.setattr(run, "run_runbook", run_runbook)
    monkeypatch.setattr(followed_run.FailbackScreen, "protected", lambda *_: None)
    with pytest.raises(typer.Exit) as ended:
        failback.failback(file, "paris->lyon", "paris", tail, runbooks, "", False, tmp_path / "runs")
    assert ended.value.exit_code == 0
    return asked


@pytest.mark.parametrize("as_json", [False, True])
def test_follower_says_how_a_flow_catches_up_while_it_is_waited_for(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    folder, out = tmp_path / "run", io.StringIO()
    folder.mkdir()
    wanted = drill(step("caught-up", "reverse.wait"), mode=Mode.PLANNED)
    planning.write(Plan(wanted, (StepPlan("caught-up"),)), folder)
    monkeypatch.setattr(followed_run, "_SAY_S", 0.0)
    follower = followed_run.Follower(folder, "paris", file, Progress(Console(file=out, width=200)), as_json=as_json)
    log = DrillJournal(folder / JOURNAL)
    log.write("step-started", step="caught-up", detail="")
    write_rows(folder, "caught-up", [{"flow": "lyon->paris", "missing": 70, "caught up in": "3.5 s"}])
    follower.look()
    said = capsys.readouterr().out if as_json else out.getvalue()
    assert "3.5 s" in said
    assert "70" in said
    log.write("step-succeeded", step="caught-up", detail="")
    follower.look()
    before = out.getvalue()
    follower.look()
    assert (out.getvalue(), capsys.readouterr().out) == (before, "")
    log.close()


@pytest.mark.parametrize("refused", [False, True])
def test_run_whose_undo_was_refused_is_not_offered_to_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: bool
) -> None:
    written = DrillJournal(tmp_path / JOURNAL)
    written.write(Noted.UNDO_FAILED if refused else Noted.STEP_FAILED, step="go-home", error="they are home")
    written.close()
    result = RunResult(tmp_path, sample.scorecard(), tmp_path / "report.html", Deviated.exit_code, "")
    followed_run.say_again("failback", Path("f"), "paris->lyon", result)
    said = capsys.readouterr().err
    assert f"drlib failback f 'paris->lyon' --supersede {tmp_path.name}" in said
    assert ("Or repeat it" in said) is not refused
