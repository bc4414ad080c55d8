"""Execute a runbook: folder, notebook through papermill, scorecard, report, manifest, exit code.

Rules: the folder is finished whatever happens: a failing cell, a dead kernel, a signal. A notebook that wrote no
scorecard, or did not run to its end, never passes. Ctrl-C and SIGTERM end the cell that runs (see `stopping`) and do
not disturb the finishing. The exit code is the failing error's own, by name, where it is one of ours.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from drlib import clock
from drlib.drill.plan.progress import fold, may_abort
from drlib.drill.run import planning, request
from drlib.drill.run.planning import PLAN_FILE
from drlib.drill.run.runner import LOCK, notes_of
from drlib.drill.session import scorecard as session_score
from drlib.errors import Aborted, DrlibError, ObjectiveMissed
from drlib.runbook import run_parameters
from drlib.runbook.execution import alert, outcome
from drlib.runbook.execution.interrupt import Stop
from drlib.runbook.execution.outcome import Outcome
from drlib.runbook.file import parameters
from drlib.runbook.file.model import Runbook, Value
from drlib.runs import folder as folders
from drlib.runs import journal
from drlib.runs import verdict as verdicts
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import JOURNAL
from drlib.runs.lock import held
from drlib.runs.scorecard import SCORECARD, Kind, Records, Rpo, RtoSeconds, Scorecard

if TYPE_CHECKING:
    from drlib.runbook.execution.early_kernel import EarlyKernel

Listener = Callable[[str, float], None]  # the name of the step that begins, and the share of code cells done, 0 to 1
EXECUTED: Final = "executed.ipynb"
KERNEL_LOG: Final = "kernel.log"
RAN: Final = "the runbook ran to its end"


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. `error` is the one line of what stopped it, empty when it ran to its end."""

    folder: Path
    scorecard: Scorecard
    report: Path
    exit_code: int
    error: str
    undelivered: str = ""  # why an alert was not delivered; empty when it was, or none was due

    @property
    def verdict(self) -> Verdict:
        return self.scorecard.verdict


def execute(
    runbook: Runbook,
    arguments: Mapping[str, Value],
    *,
    runs_dir: Path,
    lab_dir: Path | None,
    on_progress: Listener,
    stop: Stop | None = None,
    run: folders.RunFolder | None = None,
    early: EarlyKernel | None = None,
) -> RunResult:
    """Run it to its end. Raises `UsageError` before anything starts; afterwards every outcome is a `RunResult`.

    `stop` stops the run from another thread; signals stop it in any case. `run` is the folder of
    a drill that was planned or begun: what an earlier execution left there is kept under a number. `early` is a kernel
    that was started before, in the notebook's folder. Raises `LeaseHeld` when another process executes it, `Deviated` when
    its folder can no longer be written.
    """
    load()  # an installation that lacks one must not leave a folder behind
    known = parameters.declared(runbook.notebook)
    values = run_parameters.resolved(runbook, arguments)
    run = run or folders.create(runs_dir, runbook.name)
    own: dict[str, Value | None] = {
        "run_dir": str(run.path),
        "runbook": str(runbook.file) if runbook.drill else None,
        "lab_dir": str(lab_dir.absolute()) if lab_dir else None,
        **{name: aim for name, aim in runbook.objectives.model_dump().items() if name not in arguments},
    }
    values.update({name: value for name, value in own.items() if name in known and value is not None})
    stop = stop or Stop()
    stop.rolls_back = lambda: rolls_back(run.path)
    started = clock.now_ms()
    with folders.executing(run.path), stop.on_signals():
        folders.unseal(run.path)
        for name in (EXECUTED, SCORECARD, alert.DURING):
            folders.set_aside(run.path, name)
        with alert.DuringRun(runbook.alert, runbook.name, run.path) as alerts:
            ended = _execute(runbook, values, run.path, on_progress, stop, early)
        try:
            return _finish(runbook, run, started, ended, alerts.undelivered)
        except OSError as error:
            if error.errno in outcome.FULL:
                raise outcome.unwritten(error, request.ways_on(run.path)) from error
            raise


def load() -> None:
    """Import what executes a notebook and writes its report, so that it need not be waited for later. Raises ImportError."""
    for needed in ("papermill", "drlib.runbook.execution.notebook_client", "drlib.ui.report.report"):
        import_module(needed)


def _execute(
    runbook: Runbook,
    values: Mapping[str, Value],
    run_dir: Path,
    on_progress: Listener,
    stop: Stop,
    early: EarlyKernel | None,
) -> Outcome:
    """Run the notebook; whatever went wrong is the outcome."""
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    # It warns of every parameter declared as `float | None`, which it cannot read; drlib has checked them all.
    logging.getLogger("papermill").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            papermill.execute_notebook(
                str(runbook.notebook),
                str(run_dir / EXECUTED),
                parameters=dict(values),
                engine_name="drlib",
                kernel_name="python3",
                progress_bar=False,
                autosave_cell_every=0,
                request_save_on_cell_execute=True,
                cwd=str(runbook.notebook.parent),
                stop=stop,
                on_progress=on_progress,
                kernel_log=run_dir / KERNEL_LOG,
                early=early,
                steps=_steps(run_dir),
            )
        except PapermillExecutionError as error:
            ended = outcome.failed_cell(error.ename, str(error.evalue), error.exec_count)
        except (DeadKernelError, Aborted):
            ended = outcome.KERNEL_DIED
        except Exception as error:
            ended = outcome.failed(error, request.ways_on(run_dir))
        else:
            return outcome.COMPLETED
    return outcome.stopped(stop.signal.name) if stop.signal is not None else ended


def rolls_back(run_dir: Path) -> bool:
    """Does a process undo the steps of the run in `run_dir` now, or see how far they came, to do so?"""
    try:
        notes = notes_of(journal.read(run_dir / JOURNAL))
        return not may_abort(notes) and not fold(notes).ended and held(run_dir, LOCK)
    except (OSError, DrlibError):
        return False


def _steps(run_dir: Path) -> frozenset[str] | None:
    """The steps of the run's drill; None for an analysis, and where the notebook plans it itself."""
    if not (run_dir / PLAN_FILE).exists():
        return None
    return frozenset(step.name for step in planning.read(run_dir).drill.steps)


def _finish(runbook: Runbook, run: folders.RunFolder, started: int, ended: Outcome, undelivered: str) -> RunResult:
    """Scorecard, report and manifest of a run that ended so. `undelivered`: of the alerts that were sent before."""
    from drlib.ui.report.report import write_report

    lines, doubt = _journal(run.path / JOURNAL)
    error = ended.error or doubt
    missed = ended.code == ObjectiveMissed.exit_code and not doubt
    card = _scorecard(runbook, run, started, error, missed=missed)
    code = ended.code or verdicts.exit_code(card.verdict, card.checks)
    executed = run.path / EXECUTED
    if runbook.alert and code:
        undelivered = "; ".join(filter(None, (undelivered, alert.send(runbook.alert, card, code, error, run.path))))
    try:
        report = write_report(card, lines, run.path, notebook=executed if executed.exists() else None)
    finally:
        folders.seal(run.path)
    return RunResult(run.path, card, report, code, error, undelivered)


def _journal(path: Path) -> tuple[tuple[journal.Line, ...], str]:
    """The journal's lines, and why they are not to be relied on."""
    if not path.exists():
        return (), ""
    try:
        return journal.read(path), ""
    except journal.JournalTampered as error:
        return (), str(error)


def _scorecard(
    runbook: Runbook, run: folders.RunFolder, started: int, error: str, *, missed: bool = False
) -> Scorecard:
    """The notebook's scorecard; with an `error` it says so and no longer passes; one of our own when there is none.

    An objective that was `missed` ended the notebook; where a failed check says that already, it is not said twice.
    """
    path = run.path / SCORECARD
    written = path.exists()
    try:
        card = Scorecard.read(path) if written else None
    except ValueError as unreadable:
        card, error = None, error or f"{SCORECARD} cannot be read: {str(unreadable).splitlines()[0]}"
    if card is None and (run.path / PLAN_FILE).exists() and (run.path / JOURNAL).exists():
        with suppress(DrlibError):  # a journal that was tampered with is reported by `error` already
            card = session_score.scorecard(planning.read(run.path), run.path)
    stated = missed and card is not None and any(_misses(check) for check in card.checks)
    if card is not None and (not error or stated):
        if not written:
            card.write(path)
        return card
    stopped = Check(name=RAN, verdict=Verdict.UNKNOWN, evidence=error or "no scorecard was written")
    if card is not None:
        checks = (*card.checks, stopped)
        card = card.model_copy(update={"checks": checks, "verdict": verdicts.overall(checks, card.records.lost)})
    else:
        card = Scorecard(
            runbook=runbook.name,
            run_id=run.run_id,
            verdict=Verdict.UNKNOWN,
            rto_seconds=RtoSeconds(),
            rpo=Rpo(),
            records=Records(),
            groups=(),
            checks=(stopped,),
            objectives=runbook.objectives,
            started_ms=started,
            finished_ms=clock.now_ms(),
            kind=Kind.DRILL if runbook.drill else Kind.ANALYSIS,
        )
    card.write(path)
    return card


def _misses(check: Check) -> bool:
    return check.verdict is Verdict.FAIL and check.name.startswith(verdicts.OBJECTIVE)
