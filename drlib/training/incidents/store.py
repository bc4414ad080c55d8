"""Where incidents are kept: each in a run folder, created, found again, and opened for a notebook.

Rules: an incident is a folder below `runs_dir` with an incident's journal; the newest one is used unless one is named. What
can be refused is refused before there is a folder; a start that fails leaves none. What a killed start has left, clusters that
run and a folder that no incident is in, the next start removes.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from drlib.errors import UsageError
from drlib.lab.lab import STATE_NAME, Lab
from drlib.runs import folder
from drlib.runs.journal import JOURNAL
from drlib.runs.lock import alone, held
from drlib.training.incidents.incident import LAB_DIR, Incident, require_startable
from drlib.training.incidents.lab.testbed import HISTORY
from drlib.training.incidents.record import FILES, GAME
from drlib.training.incidents.session import IncidentSession, require_player
from drlib.training.incidents.team.seat import TeamSeat
from drlib.training.incidents.team.seats import Access, require_access, require_name, seats_of

NAME = "incident"
_STARTING: Final = ".starting.lock"
STARTED: Final = FILES | {LAB_DIR, HISTORY}  # what a start puts into its folder


def begin(
    runs_dir: Path, seed: int, level: int | None, *, lab_dir: Path | None = None, at_once: bool = False
) -> Incident:
    """Start a new incident in a new folder, which is there only if it was started. Raises what `Incident.start` raises."""
    require_startable(seed, level, lab_dir)
    _remove_killed_starts(runs_dir)
    run = folder.create(runs_dir, NAME)
    try:
        with alone(run.path, _STARTING, "it is being started", "Wait until it works."):
            return Incident.start(run.path, seed, level, lab_dir=lab_dir, at_once=at_once)
    except BaseException:
        folder.discard(run)
        raise


def _remove_killed_starts(runs_dir: Path) -> None:
    for state in runs_dir.glob(f"*-{NAME}-*/{LAB_DIR}/{STATE_NAME}"):
        path = state.parents[1]
        if not (path / GAME).exists() and not held(path, _STARTING):
            Lab.attach(state.parent).down()
            shutil.rmtree(path, ignore_errors=True)


def find(runs_dir: Path, run: Path | None = None) -> Incident:
    """Return the incident in `run` (a folder, or its name in `runs_dir`), else the newest. Raises `UsageError`."""
    if run is not None:
        for path in (run, runs_dir / run):
            if (path / GAME).is_dir() and (path / JOURNAL).is_file():
                return Incident(path)
        raise UsageError(f"no incident {run}", "this is not the folder of an incident", "Name its folder with --run.")
    newest = max(
        _journals(runs_dir), default=None
    )  # names begin with the time of the start; an older one may still run
    if newest is None:
        raise UsageError(
            f"no incident in {runs_dir}", "none was started there", "Start one: drlib incident start --seed N"
        )
    return Incident(newest.parent)


def running(runs_dir: Path) -> tuple[Path, ...]:
    """Folders of the incidents that are watched, and hold their clusters, oldest first."""
    return tuple(path.parent for path in sorted(_journals(runs_dir)) if Incident(path.parent).is_watched())


def open_incident(
    run_dir: str | Path = "",
    *,
    seed: int = 0,
    level: int = 0,
    player: str = "you",
    lab_dir: str = "",
    at_once: bool = False,
    seat: str = "",
    role: str = "acting",
) -> IncidentSession:
    """Open the incident in `run_dir`, or start a new one of `seed` there.

    `run_dir`: empty for a new folder under ../../runs. `level`: 1 to 6, 0 for the seed's own. `player`: you, or reference.
    `lab_dir`: a running, unused lab; empty to start one. `at_once`: inject the faults without a delay. `seat`: the name of a
    team's seat, empty to play alone; `role`: trainer, acting or read-only. Raises `UsageError`, `MissingDependency`,
    `Unreachable`.
    """
    if seat:
        require_name(seat)  # before a lab is started
        require_access(role)
    require_player(player)
    path = Path(run_dir).absolute() if run_dir else None
    if path is not None and (path / GAME).is_dir():
        return _seated(Incident(path), player, seat, role)
    lab = Path(lab_dir) if lab_dir else None
    if path is None:
        return _seated(
            begin(Path("../../runs").resolve(), seed, level or None, lab_dir=lab, at_once=at_once), player, seat, role
        )
    require_startable(seed, level or None, lab)
    with _folder_of_a_start(path):
        incident = Incident.start(path, seed, level or None, lab_dir=lab, at_once=at_once)
    return _seated(incident, player, seat, role)


@contextmanager
def _folder_of_a_start(path: Path) -> Iterator[None]:
    """Make `path` where it is missing. If the start inside fails, the folders made for it are removed, and from one that was
    there, such as a run's, what the start has put into it."""
    made = [each for each in (path, *path.parents) if not each.exists()]
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise folder.unwritable(path, error) from error
    before = {each.name for each in path.iterdir()}
    try:
        yield
    except BaseException:
        for name in STARTED - before:
            shutil.rmtree(path / name, ignore_errors=True)
            with suppress(OSError):
                (path / name).unlink()
        for each in made:
            with suppress(OSError):  # something else is there meanwhile
                each.rmdir()
        raise


def seated(incident: Incident, seat: str) -> IncidentSession:
    """`incident` from `seat`, with the role that this seat has; a new one joins as acting. Raises `UsageError`."""
    require_name(seat)
    role = seats_of(incident.record.lines()).get(seat, Access.ACTING)
    return _seated(incident, "you", seat, role)


def _seated(incident: Incident, player: str, seat: str, role: str) -> IncidentSession:
    return IncidentSession(incident, player, TeamSeat(incident, seat, role) if seat else None)


def _journals(runs_dir: Path) -> Iterator[Path]:
    for path in runs_dir.glob(f"*/{GAME}"):
        if path.is_dir() and (path.parent / JOURNAL).is_file():
            yield path.parent / JOURNAL
