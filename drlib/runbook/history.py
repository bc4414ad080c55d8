"""The runs there are, read from their folders.

Rules: a folder of runs/ is a run when its name is one; what is not verified is a run whose verdict is unknown, with the
reason, and is never left out. An incident of the training, which has a score and no scorecard, is no run. Nothing is written.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from drlib.drill.run import stored_run
from drlib.drill.run.stored_run import StoredRun
from drlib.errors import UsageError
from drlib.runbook.history_rules import Outcome
from drlib.runs.folder import NAME, refuse_file

INCIDENT: Final = "incident"
_OF_INCIDENTS: Final = ("baseline.json", "observations.json", "score.json")


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run as its folder says, and its outcome, which is unknown where the run is not verified."""

    outcome: Outcome
    stored: StoredRun


def read_runs(runs_dir: Path) -> tuple[PastRun, ...]:
    """Every run in `runs_dir`, oldest first; none when there is no such folder. Raises `UsageError` for a file."""
    refuse_file(runs_dir)
    runs = []
    for path in sorted(runs_dir.iterdir()) if runs_dir.is_dir() else ():
        match = NAME.fullmatch(path.name)
        if match is not None and path.is_dir() and not path.is_symlink() and not _is_incident(path, match[2]):
            runs.append(_run(path, match[2], match[1]))
    return tuple(runs)


def find(runs_dir: Path, name: Path) -> StoredRun:
    """The run in the folder `name`, or of that name in `runs_dir`. Raises `UsageError` where there is none."""
    for path in (runs_dir / name, name):
        if path.is_dir() and (NAME.fullmatch(path.name) or stored_run.is_run(path)):
            return stored_run.read(path)
    raise UsageError(f"run {name}", f"there is no such run, here or in {runs_dir}", "drlib runs lists them.")


def _is_incident(path: Path, runbook: str) -> bool:
    """`drlib incident` lists it."""
    return runbook == INCIDENT and any((path / name).exists() for name in _OF_INCIDENTS)


def _run(path: Path, runbook: str, begun: str) -> PastRun:
    try:
        started = int(datetime.strptime(begun, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:  # a folder that an operator named, such as 99999999T000000Z-...
        started = 0
    stored = stored_run.read(path)
    card = stored.scorecard
    if card is None:
        return PastRun(Outcome(path.name, runbook, started, stored.verdict.value), stored)
    return PastRun(
        Outcome(
            path.name,
            runbook,
            card.started_ms or started,
            card.verdict.value,
            card.rto_seconds.total,
            card.rpo.records,
            card.rpo.seconds,
        ),
        stored,
    )
