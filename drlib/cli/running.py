"""`drlib run`: parameters checked, lab up if asked, the runbook executed, everything down again, the result shown.

Rules: nothing starts before parameters are right; Ctrl-C and SIGTERM end the run with its folder finished and exit 8;
whatever `--lab` started is stopped on every way out, further signals notwithstanding.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType

from drlib.drill.signals import handled
from drlib.errors import Aborted, DrlibError
from drlib.lab.lab import Lab
from drlib.runbook import parameters
from drlib.runbook.execute import RunResult, execute, resolve
from drlib.runbook.model import load


def run_runbook(path: Path, pairs: list[str], *, lab: bool, runs_dir: Path) -> int:
    """Run the runbook at `path`; returns the exit code."""
    from drlib.views import terminal

    runbook = load(path)
    given = parameters.parse(pairs, parameters.declared(runbook.notebook))
    resolve(runbook, given)
    print(f"{runbook.title}\n")
    with terminal.Progress() as progress:
        result = _run(runbook, given, lab, runs_dir, progress.stage, progress.advance)
    terminal.print_scorecard(result.scorecard, result.report)
    if result.error:
        print(f"drlib: {result.error}", file=sys.stderr)
    return result.exit_code


def _run(runbook, given, lab, runs_dir, stage, advance) -> RunResult:  # type: ignore[no-untyped-def]
    def on_progress(step: str, share: float) -> None:
        stage(step)
        advance(share, step)

    if not lab:
        return execute(runbook, given, runs_dir=runs_dir, lab_dir=None, on_progress=on_progress)
    root = runs_dir.absolute().parent / f".lab-{os.getpid()}-{secrets.token_hex(2)}"
    root.parent.mkdir(parents=True, exist_ok=True)
    here = Lab(root, on_event=stage)
    with _signals_interrupt():
        try:
            stage("starting clusters LEFT and RIGHT")
            here.up()
            return execute(runbook, given, runs_dir=runs_dir, lab_dir=root, on_progress=on_progress)
        except KeyboardInterrupt:
            raise Aborted(
                "the run was stopped", "a signal came before the notebook began", "Start it again when you want to."
            ) from None
        finally:
            with _signals_ignored():
                stage("stopping everything that was started")
                _end(here)


def _end(lab: Lab) -> None:
    """Everything down and the folder gone; a folder whose processes live is kept, as it is how they are found."""
    try:
        lab.down()
    except (DrlibError, OSError) as error:  # TimeoutError among them: a process outlived SIGKILL
        print(f"drlib: {error}", file=sys.stderr)
    if alive := [f"{one.name} (pid {one.pid})" for one in lab.status() if one.alive]:
        print(
            f"drlib: {', '.join(alive)} could not be stopped: the lab's folder {lab.root} is kept. "
            f"Stop what is left with: drlib lab down --dir {lab.root}",
            file=sys.stderr,
        )
        return
    shutil.rmtree(lab.root, ignore_errors=True)  # ours alone; a lab that never came up leaves it behind


def _signals_interrupt() -> AbstractContextManager[None]:
    """SIGTERM is like Ctrl-C, and Ctrl-C counts too where a shell began us in the background, with SIGINT ignored."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    return handled(interrupt)


def _signals_ignored() -> AbstractContextManager[None]:
    """Cleaning up is not interrupted; it has deadlines of its own."""
    return handled(signal.SIG_IGN)
