"""Which drill runs now on a lab or on clusters, found by the folders of runs alone. Changes nothing.

Rules: a run belongs to a place by its `run.json`; of several, one whose process is alive comes first, else the newest. What
a folder says wrongly (a torn plan, a tampered journal) is reported and never guessed around.
Not for: beginning, resuming and rolling back (`drlib.runbook.plans`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib.drill.plan import progress as drill_progress
from drlib.drill.plan.plan import Plan
from drlib.drill.plan.progress import Over
from drlib.drill.plan.ways_on import WaysOn
from drlib.drill.run import approvals, planning, request
from drlib.drill.run.request import ClusterTarget
from drlib.drill.run.runner import LOCK, notes_of
from drlib.drill.session.board import Waits, waits_of
from drlib.errors import DrlibError, UsageError
from drlib.runs import journal
from drlib.runs import lock as folder_lock
from drlib.runs.abort import ABORT_FILE, Abort
from drlib.runs.journal import JOURNAL, Line

NEWEST: Final = 40  # folders that are looked at


@dataclass(frozen=True, slots=True)
class Run:
    """One run as its folder says. `alive`: a process runs it now; `over` is None while it has not ended; `aborting`: by whom
    it was asked to stop; `trouble`: why its journal says nothing."""

    folder: Path
    plan: Plan
    lines: tuple[Line, ...]
    alive: bool
    over: Over | None
    waits: Waits | None = None
    aborting: str = ""
    trouble: str = ""

    @property
    def ways_on(self) -> WaysOn:
        """How to go on with it where it has not ended."""
        return request.ways_on(self.folder)


def find(runs_dir: Path, target: ClusterTarget) -> Run | None:
    """The run that concerns `target`; None where none was begun. Reads a few small files."""
    newest: Run | None = None
    folders = (path.parent for path in runs_dir.glob(f"*/{planning.PLAN_FILE}"))
    for folder in sorted(folders, reverse=True)[:NEWEST]:  # names begin with the time they were made at
        alive = folder_lock.held(folder, LOCK)
        if (newest is not None and not alive) or not is_at(folder, target):
            continue
        run = _run(folder, alive)
        if run is not None and alive:
            return run
        newest = newest or run
    return newest


def abort(run: Run, by: str) -> None:
    """Ask the process that runs it to stop and roll back by its strategy. Returns at once.

    Raises `UsageError` where no process does: the file would wait for the next one and stop that.
    """
    if not folder_lock.held(run.folder, LOCK):
        raise UsageError(
            f"{run.folder.name} cannot be aborted",
            "no process runs it now; what it changed is not undone",
            run.ways_on.undo_sentence,
        )
    Abort(run.folder).request(by)


def is_at(folder: Path, target: ClusterTarget) -> bool:
    """Is the run in `folder` one of the clusters of `target`?"""
    try:
        asked = request.find(folder)
    except DrlibError:
        return False
    if asked is None:
        return False
    run_place = asked.lab_dir if target.lab_dir is not None else asked.properties
    wanted = target.lab_dir or target.properties
    return run_place is not None and wanted is not None and run_place.resolve() == wanted.resolve()


def _run(folder: Path, alive: bool) -> Run | None:
    try:
        plan = planning.read(folder)
        lines = journal.read(folder / JOURNAL)
        notes = notes_of(lines)
    except FileNotFoundError:
        return None  # planned, and not begun
    except DrlibError as error:
        try:
            return Run(folder, planning.read(folder), (), alive, None, trouble=f"{error.what}: {error.why}")
        except (DrlibError, OSError):
            return None
    if not lines:
        return None
    upcoming = drill_progress.decide(plan.drill, notes)
    over = upcoming if isinstance(upcoming, Over) else None
    waits = None
    if over is None and not alive:  # what was granted with the request was noted when it began
        waits = waits_of(plan, lines, (), approvals.read(folder, plan.hash))
    by = Abort(folder).by() if over is None and (folder / ABORT_FILE).exists() else ""
    return Run(folder, plan, lines, alive, over, waits, by)
