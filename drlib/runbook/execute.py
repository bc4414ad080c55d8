"""Execute a runbook: folder, notebook through papermill, scorecard, report, manifest, exit code.

Rules: the folder is finished whatever happens: a failing cell, a dead kernel, an interrupt. A notebook that wrote no
scorecard has verdict unknown. The exit code is the failing error's own, by name, where it is one of ours.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from drlib import errors
from drlib.drill import journal, verdicts
from drlib.drill.scorecard import Check, Records, Rpo, RtoSeconds, Scorecard, Verdict
from drlib.runbook import folder as folders
from drlib.runbook import parameters
from drlib.runbook.engine import Listener, listen
from drlib.runbook.model import Runbook, Value

SCORECARD = "scorecard.json"
JOURNAL = "journal.jsonl"
EXECUTED = "executed.ipynb"


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to. `error` is the one line of what stopped it, empty when it ran to its end."""

    folder: Path
    scorecard: Scorecard
    report: Path
    exit_code: int
    error: str


def resolve(runbook: Runbook, given: Mapping[str, Value]) -> dict[str, Value]:
    """The parameters a run will have: the runbook's, then those given. Raises `UsageError`."""
    known = parameters.declared(runbook.notebook)
    return {**parameters.check(runbook.parameters, known), **parameters.check(given, known)}


def execute(
    runbook: Runbook, given: Mapping[str, Value], *, runs_dir: Path, lab_dir: Path | None, on_progress: Listener
) -> RunResult:
    """Run it to its end. Raises `UsageError` before anything starts; afterwards every outcome is a `RunResult`."""
    known = parameters.declared(runbook.notebook)
    values = resolve(runbook, given)
    run = folders.create(runs_dir, runbook.name)
    own: dict[str, Value | None] = {
        "run_dir": str(run.path),
        "lab_dir": str(lab_dir.absolute()) if lab_dir else None,
        **runbook.objectives.model_dump(),
    }
    values.update({name: value for name, value in own.items() if name in known and value is not None})
    started = int(time.time() * 1000)
    code, error = _execute(runbook, values, run.path, on_progress)
    card = _scorecard(runbook, run, started, error)
    if not code:
        code = verdicts.exit_code(card.verdict, card.checks)
    from drlib.views.report import write_report

    path = run.path / JOURNAL
    lines = journal.read(path) if path.exists() else ()
    executed = run.path / EXECUTED
    report = write_report(card, lines, run.path, notebook=executed if executed.exists() else None)
    folders.seal(run.path)
    return RunResult(run.path, card, report, code, error)


def _execute(runbook: Runbook, values: Mapping[str, Value], run_dir: Path, on_progress: Listener) -> tuple[int, str]:
    """Exit code and error line of the notebook's execution; (0, "") when it ran to its end."""
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    with warnings.catch_warnings(), listen(on_progress):
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
            )
        except PapermillExecutionError as error:
            return exit_code_of(error.ename), str(error.evalue)
        except DeadKernelError:
            return errors.Deviated.exit_code, "the notebook's kernel died"
        except (KeyboardInterrupt, errors.Aborted):
            return errors.Aborted.exit_code, "stopped by a signal"
    return 0, ""


def exit_code_of(name: str) -> int:
    """The exit code of the error class `name` of our tree; 8 for an interrupt, 1 for anything else."""
    if name == "KeyboardInterrupt":
        return errors.Aborted.exit_code
    waiting = [errors.DrlibError]
    while waiting:
        kind = waiting.pop()
        if kind.__name__ == name:
            return kind.exit_code
        waiting.extend(kind.__subclasses__())
    return 1


def _scorecard(runbook: Runbook, run: folders.RunFolder, started: int, error: str) -> Scorecard:
    path = run.path / SCORECARD
    if path.exists():
        return Scorecard.read(path)
    card = Scorecard(
        runbook=runbook.name,
        run_id=run.run_id,
        verdict=Verdict.UNKNOWN,
        rto_seconds=RtoSeconds(),
        rpo=Rpo(),
        records=Records(),
        groups=(),
        checks=(
            Check(
                name="the runbook ran to its end", verdict=Verdict.UNKNOWN, evidence=error or "no scorecard was written"
            ),
        ),
        objectives=runbook.objectives,
        started_ms=started,
        finished_ms=int(time.time() * 1000),
    )
    card.write(path)
    return card
