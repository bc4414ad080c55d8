"""`drlib run`: check parameters, start a lab if asked, execute the runbook, stop the lab, show the result.

Rules: nothing starts before parameters are valid; Ctrl-C and SIGTERM end the run with its folder complete and exit code 8;
what `--lab` started is stopped however the run ends, even while further signals arrive.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from drlib.cli import print_error
from drlib.cli.lab import SCRAM, up_deadline_s
from drlib.drill.run import request
from drlib.drill.run.request import ClusterTarget, Request
from drlib.errors import (
    Aborted,
    ApprovalMissing,
    Deviated,
    DrlibError,
    LeaseHeld,
    ObjectiveMissed,
    Unreachable,
    UsageError,
)
from drlib.extras import require
from drlib.formats import one_line
from drlib.lab import choose_flow
from drlib.lab.brokers.security import MODES
from drlib.lab.lab import Lab
from drlib.model import Flow
from drlib.outgoing.terminal import can_ask, show
from drlib.runbook import plans as drills
from drlib.runbook import run_parameters
from drlib.runbook.execution import alert
from drlib.runbook.execution.execute import Listener, RunResult, execute
from drlib.runbook.file import parameters
from drlib.runbook.file.drill_section import asked_flow
from drlib.runbook.file.model import Runbook, Value, load
from drlib.runbook.introduce import Introduction, introduce
from drlib.runbook.just_found import NOTHING_FOUND, JustFound
from drlib.runbook.plans import Granted
from drlib.runs import folder as folders
from drlib.runs.abort import Abort
from drlib.runs.folder import RunFolder
from drlib.runs.signals import handled

if TYPE_CHECKING:
    from drlib.runbook.execution.early_kernel import EarlyKernel
    from drlib.ui.terminal.run import Progress

RUN: Final = "drlib run"  # a run executes a notebook
NOWHERE: Final = ClusterTarget()
NOTHING: Final = Granted()
_LOGS_KEPT: Final = 3  # labs of runs that failed
# What may stop a run that is continued later: also a lease that was lost, and a cluster that is silent or refuses a login.
RESUMABLE: Final = tuple(error.exit_code for error in (ApprovalMissing, Deviated, Aborted, LeaseHeld, Unreachable))


@dataclass(frozen=True, slots=True)
class LabShape:
    """What `--lab` starts: brokers of each cluster, and whether clients need TLS, a login and rights."""

    brokers: int = 1
    secured: bool = False


PLAIN: Final = LabShape()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where a runbook is to run, and what was granted. `lab`: start a lab of `shape` for it, and stop it afterwards.

    `found`: by the command itself, a moment ago. `early`: the notebook's kernel, where it was started before.
    """

    runs_dir: Path
    lab: bool = False
    target: ClusterTarget = NOWHERE
    granted: Granted = NOTHING
    shape: LabShape = PLAIN
    found: JustFound = NOTHING_FOUND
    early: EarlyKernel | None = None


class Screen:
    """What a run is shown on: its introduction, its progress, its result. Another screen overrides parts of it."""

    def introduce(self, run: Introduction) -> None:
        _introduce(run)

    def following(self, folder: Path | None, progress: Progress) -> AbstractContextManager[Listener]:
        """While inside, the run in `folder` is shown; the notebook's own progress goes to the listener."""
        return nullcontext(_teller(progress))

    def result(self, result: RunResult) -> int:
        """Show how it ended; returns the exit code."""
        return _told(result)


def run_runbook(path: Path, pairs: list[str], wanted: Wanted, screen: Screen | None = None) -> int:
    """Run the runbook at `path`, shown on `screen`; returns the exit code."""
    screen = screen or Screen()
    require("notebooks", RUN)
    folders.refuse_unusable(wanted.runs_dir)
    if (
        wanted.target.lab_dir is not None
    ):  # where there is none, notebooks start one, and a slip would be judged as empty
        Lab.attach(wanted.target.lab_dir)
    runbook = load(path)
    known = parameters.declared(runbook.notebook)
    arguments = parameters.parse(pairs, known)
    if runbook.drill is None:
        arguments = _of_analysis(runbook.name, arguments, wanted, takes=frozenset(known))
    run_parameters.resolved(runbook, arguments)
    screen.introduce(introduce(runbook, arguments, wanted.target, lab=wanted.lab))
    with terminal_progress() as progress:

        def ready(target: ClusterTarget) -> RunResult:
            run, lab_dir = _prepared(runbook, arguments, wanted, target), target.lab_dir
            with screen.following(run.path if run else None, progress) as tell:
                result = execute(
                    runbook,
                    arguments,
                    runs_dir=wanted.runs_dir,
                    lab_dir=lab_dir,
                    on_progress=tell,
                    run=run,
                    early=wanted.early,
                )
            return _marked(result, progress)

        try:
            result = _in_lab(wanted, runbook, arguments, progress, ready) if wanted.lab else ready(wanted.target)
        except DrlibError as refused:
            alert_refused(runbook, refused)
            raise
    return screen.result(result)


def _of_analysis(name: str, arguments: Mapping[str, Value], wanted: Wanted, takes: frozenset[str]) -> dict[str, Value]:
    """`arguments`, and where an analysis looks, as a parameter of its notebook; that runs elsewhere, so the path is whole."""
    target = wanted.target
    asked = {name for name, value in (("properties", target.properties), ("lab_dir", target.lab_dir)) if value}
    if wanted.granted != NOTHING:
        raise UsageError(f"runbook {name}", "it has no drill, so options of drills do not apply", "Leave them out.")
    if untaken := asked - takes:
        typed = " and ".join("FILE" if each == "properties" else "--lab-dir" for each in sorted(untaken))
        raise UsageError(
            f"{typed} for runbook {name}",
            f"it has no drill, and its notebook no parameter {' and '.join(sorted(untaken))}",
            f"Leave {typed} out. Its parameters are {', '.join(sorted(takes))}.",
        )
    if target.properties is None:
        return dict(arguments)
    return {**arguments, "properties": str(target.properties.absolute())}


def run_plan(folder: Path, asked: Request, granted: Granted) -> int:
    """Run the plan saved in `folder`; returns the exit code. Raises `StalePlan` before anything starts."""
    require("notebooks", RUN)
    asked = drills.compare(folder, asked, granted)
    asked.write(folder)
    return _again(folder, load(asked.runbook), asked)


def resume(
    folder: Path,
    asked: Request,
    granted: Granted,
    screen: Screen | None = None,
    early: EarlyKernel | None = None,
) -> int:
    """Execute the notebook of an unfinished run again; completed steps are skipped. Returns the exit code."""
    require("notebooks", RUN)
    if drills.held_by_executor(folder):
        raise LeaseHeld(
            f"{folder.name} is running", "another process executes it", f"Wait until it ends, or: drlib abort {folder}"
        )
    runbook, asked = drills.take_up(folder, asked, granted)
    drills.wait_for_the_dead(folder)
    Abort(folder).clear()  # one that was not carried out, as its step did not end in time
    asked.write(folder)
    return _again(folder, runbook, asked, screen, early)


def _again(
    folder: Path,
    runbook: Runbook,
    asked: Request,
    screen: Screen | None = None,
    early: EarlyKernel | None = None,
) -> int:
    screen = screen or Screen()
    screen.introduce(introduce(runbook, asked.parameters, asked.target, place=folder))
    run = RunFolder(folder, folder.name)
    with terminal_progress() as progress, screen.following(folder, progress) as tell:
        result = execute(
            runbook,
            asked.parameters,
            runs_dir=folder.parent,
            lab_dir=asked.lab_dir,
            on_progress=tell,
            run=run,
            early=early,
        )
        _marked(result, progress)
    return screen.result(result)


def _marked(result: RunResult, progress: Progress) -> RunResult:
    """The step in which a run was stopped is not shown as done."""
    if result.exit_code not in (0, ObjectiveMissed.exit_code):
        progress.fail()
    return result


def _prepared(
    runbook: Runbook, arguments: Mapping[str, Value], wanted: Wanted, target: ClusterTarget
) -> RunFolder | None:
    """The run's folder, with its plan where it is known which clusters it is for; None for a runbook without a drill."""
    if runbook.drill is None:
        return None
    kept = drills.keep(
        runbook,
        arguments,
        target,
        runs_dir=wanted.runs_dir,
        granted=wanted.granted,
        through_gate=True,
        found=wanted.found,
    )
    return RunFolder(kept, kept.name)


def _introduce(run: Introduction) -> None:
    from drlib.ui.terminal.banner import banner_line
    from drlib.ui.terminal.plain_console import plain_console

    show(one_line(run.title))
    if run.banner is not None:
        console = plain_console()
        console.print(banner_line(run.banner), soft_wrap=not console.is_terminal)
    show("")


def alert_refused(runbook: Runbook, refused: DrlibError) -> None:
    if runbook.alert is None or (isinstance(refused, UsageError) and can_ask()):  # who types it sees it
        return
    undelivered = alert.send_refused(runbook.alert, runbook.name, refused)
    if undelivered:
        print_error(str(undelivered))


def terminal_progress() -> Progress:
    from drlib.ui.terminal import run as terminal

    return terminal.Progress()


def _teller(progress: Progress) -> Listener:
    def on_progress(step: str, share: float) -> None:
        progress.stage(step)
        progress.advance(share, step)

    return on_progress


def _told(result: RunResult) -> int:
    from drlib.ui.terminal import run as terminal

    terminal.print_scorecard(result.scorecard, result.report)
    if result.error:
        print_error(str(result.error))
    if result.undelivered:
        print_error(str(result.undelivered))
    if result.exit_code in RESUMABLE and drills.unfinished(result.folder):
        waits = drills.missing_approval(result.folder) if result.exit_code == ApprovalMissing.exit_code else ""
        for line in request.ways_on(result.folder).lines(waits):
            show(line, error=True)
    return result.exit_code


def _in_lab(
    wanted: Wanted,
    runbook: Runbook,
    arguments: Mapping[str, Value],
    progress: Progress,
    ready: Callable[[ClusterTarget], RunResult],
) -> RunResult:
    aliases, flow = runbook.lab.to_start, _of_any_clusters(runbook, arguments)
    root = wanted.runs_dir.absolute().parent / f".lab-{os.getpid()}-{secrets.token_hex(2)}"
    root.parent.mkdir(parents=True, exist_ok=True)
    _end_left_behind(root.parent)
    shape = wanted.shape
    security = MODES[SCRAM] if shape.secured else None
    stage, failed = progress.stage, False
    lab = Lab(root, aliases, brokers=shape.brokers, security=security, on_event=stage)
    with _signals_interrupt():
        try:
            stage(f"starting clusters {' and '.join(aliases)}")
            lab.up(deadline_s=up_deadline_s(shape.brokers))
            if shape.secured:
                from drlib.drill.testbed.lab_roles import prepare_users

                stage("granting users their rights")
                prepare_users(lab)
            if flow is not None:
                from drlib.drill.testbed.practice import start_practice

                stage("starting a mirror and applications")
                start_practice(lab, flow)
            result = ready(ClusterTarget(lab_dir=root, lab_ends=True))
            failed = bool(result.error) and result.exit_code != Aborted.exit_code  # the error may say: see the logs
        except KeyboardInterrupt:
            progress.fail()
            raise Aborted(
                "the run was stopped before its first step", "Ctrl-C or SIGTERM", "Start it again when ready."
            ) from None
        finally:
            with _signals_ignored():
                stage("stopping the lab")
                _end(lab, keep_logs=failed)
                progress.complete()
    if drills.unfinished(result.folder):  # its applications ran, and wrote, until the lab was stopped
        folders.seal(result.folder)
    return result


def _of_any_clusters(runbook: Runbook, arguments: Mapping[str, Value]) -> Flow | None:
    """The lab's flow for a runbook that is not written for one, and so does not start its mirror; else None."""
    asked = None if runbook.drill is None else asked_flow(runbook.drill, {**runbook.parameters, **arguments})
    return None if asked is None else choose_flow.of_lab(runbook.lab.to_start, asked)


def _end_left_behind(place: Path) -> None:
    """End what runs that were killed have left: their clusters died with them, their applications and mirrors did not. Of the
    logs of labs whose runs failed, those of the last `_LOGS_KEPT` stay.

    Only where it runs on this machine and the run does not: a folder may be shared with others, and have what cannot be read.
    """
    logs: list[tuple[float, Path]] = []
    for root in place.glob(".lab-*-*"):
        number, lab = root.name.split("-")[1], Lab(root)
        with suppress(DrlibError, OSError):
            if Path("/proc", number).exists():
                continue
            if any(left.alive for left in lab.status()):
                _end(lab)
            elif lab.only_logs:
                logs.append((root.stat().st_mtime, root))
    for _, root in sorted(logs)[:-_LOGS_KEPT]:
        shutil.rmtree(root, ignore_errors=True)


def _end(lab: Lab, *, keep_logs: bool = False) -> None:
    """Stop everything and remove the folder; kept while a process lives, as the folder is how it is found."""
    try:
        lab.down(keep_logs=keep_logs)
    except (DrlibError, OSError) as error:  # TimeoutError among them: a process outlived SIGKILL
        print_error(str(error))
    if alive := [f"{process.name} (pid {process.pid})" for process in lab.status() if process.alive]:
        print_error(
            f"{', '.join(alive)} could not be stopped: the lab's folder {lab.root} is kept. "
            f"Stop what is left with: drlib lab down --dir {shlex.quote(str(lab.root))}"
        )
        return
    if not keep_logs:
        shutil.rmtree(lab.root, ignore_errors=True)  # ours alone; a lab that never came up leaves it behind


def _signals_interrupt() -> AbstractContextManager[None]:
    """SIGTERM acts like Ctrl-C; SIGINT also counts where a shell started us in the background with SIGINT ignored."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    return handled(interrupt)


def _signals_ignored() -> AbstractContextManager[None]:
    """Cleaning up is not interrupted; it has its own deadlines."""
    return handled(signal.SIG_IGN)
