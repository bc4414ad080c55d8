"""Moments of a run that are kept in its folder, each as it was first: the stages RTO is counted from, and what steps note.

Rules: wall-clock milliseconds, because the process that marks one may not be the one that marked the last; a moment that is
marked twice, by whomever, keeps the first. A stage of the RTO (fault, detect, decide, act, verify) that was not reached is
None, and so is the total until the last is.
Not for: marks in the picture of a run, which have names of their own (`details.Part`).
"""

import itertools
from pathlib import Path
from typing import Final

from drlib import decoding
from drlib.clock import now_ms
from drlib.decoding import Undecodable
from drlib.errors import UsageError
from drlib.files import read_stored, write_first
from drlib.runs.scorecard import RtoSeconds

FOLDER: Final = "moments"
_MOST_BYTES: Final = 64
STAGES: Final = ("fault", "detect", "decide", "act", "verify")


def mark(run_dir: Path, stage: str, at_ms: int | None = None) -> int:
    """Keep the moment (now, when None) at which `stage` ended, "fault" the first; what is kept, in ms since the epoch.

    Raises ValueError for an unknown stage.
    """
    if stage not in STAGES:
        raise ValueError(f"no stage {stage}")
    return once(run_dir, stage, at_ms)


def once(run_dir: Path, name: str, at_ms: int | None = None) -> int:
    """Keep the moment (now, when None) under `name`, unless one is kept; what is kept, in ms since the epoch."""
    path = run_dir / FOLDER / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        write_first(path, str(now_ms() if at_ms is None else at_ms))
    return _moment(path)


def at(run_dir: Path, name: str) -> int | None:
    """When it was, None when it was not reached."""
    try:
        return _moment(run_dir / FOLDER / name)
    except FileNotFoundError:
        return None


def _moment(path: Path) -> int:
    try:
        return decoding.integer(read_stored(path, _MOST_BYTES).strip())
    except FileNotFoundError:
        raise
    except (OSError, Undecodable) as error:
        raise UsageError(f"{path} cannot be used", str(error), "Do not rely on this run.") from None


def seconds(run_dir: Path) -> RtoSeconds:
    """Seconds per stage, to the millisecond."""
    marks = {stage: at(run_dir, stage) for stage in STAGES}

    def between(first: str, last: str) -> float | None:
        begin, end = marks[first], marks[last]
        return None if begin is None or end is None else round((end - begin) / 1000, 3)

    stages = {stage: between(before, stage) for before, stage in itertools.pairwise(STAGES)}
    return RtoSeconds(**stages, total=between("fault", "verify"))
