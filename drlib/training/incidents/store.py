"""Where incidents are kept: a run's folder each, made, found again, and opened in a notebook.

Rules: an incident is a folder below `runs_dir` with an incident's journal; where none is named the newest counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from drlib.errors import UsageError
from drlib.runs import folder
from drlib.runs.journal import JOURNAL
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.notebook import PlayedIncident
from drlib.training.incidents.record import GAME

NAME = "incident"


def begin(
    runs_dir: Path, seed: int, level: int | None, *, lab_dir: Path | None = None, at_once: bool = False
) -> Incident:
    """A new incident in a new folder. Raises what `Incident.start` raises."""
    return Incident.start(folder.create(runs_dir, NAME).path, seed, level, lab_dir=lab_dir, at_once=at_once)


def find(runs_dir: Path, run: Path | None = None) -> Incident:
    """The incident in `run` (a folder, or its name in `runs_dir`), else the newest. Raises `UsageError`."""
    if run is not None:
        for path in (run, runs_dir / run):
            if (path / GAME).is_dir() and (path / JOURNAL).is_file():
                return Incident(path)
        raise UsageError(f"no incident {run}", "it is no folder of one", "See: drlib incident start.")
    newest = max(_every(runs_dir), key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        raise UsageError(f"no incident in {runs_dir}", "none was started there", "See: drlib incident start.")
    return Incident(newest.parent)


def open_incident(
    run_dir: str | Path = "",  # empty: a new folder under ../../runs
    *,
    seed: int = 0,
    level: int = 0,  # 0: as the seed says
    player: str = "you",
    lab_dir: str = "",
    at_once: bool = False,
) -> PlayedIncident:
    """The incident in `run_dir` where there is one, else a new one of `seed` there, begun and hidden.

    `player`: you, or reference. `lab_dir`: a lab that runs and was not used yet; empty: one of its own. Raises `UsageError`,
    `MissingDependency`, `Unreachable`.
    """
    place = Path(run_dir).absolute() if run_dir else folder.create(Path("../../runs").resolve(), NAME).path
    if (place / GAME).is_dir():
        return PlayedIncident(Incident(place), player)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    lab = Path(lab_dir) if lab_dir else None
    return PlayedIncident(Incident.start(place, seed, level or None, lab_dir=lab, at_once=at_once), player)


def _every(runs_dir: Path) -> Iterator[Path]:
    for path in runs_dir.glob(f"*/{GAME}"):
        if path.is_dir() and (path.parent / JOURNAL).is_file():
            yield path.parent / JOURNAL
