"""The positions that a run decided for groups on one cluster, and those committed there before: a file in its folder.

Rules: it is on disk, whole, before the first position is written, so that a process that resumes the run completes what was
decided and restores what was there. One file for each target cluster and use (`groups`, `shadow`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.step.step_output import DETAILS
from drlib.files import read_json, write_whole

_MOVES: Final = TypeAdapter(tuple[PositionMove, ...])


def write(run_dir: Path, target: str, moves: Sequence[PositionMove], use: str = "groups") -> None:
    path = _path(run_dir, target, use)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, _MOVES.dump_json(tuple(moves)))


def read(run_dir: Path, target: str, use: str = "groups") -> tuple[PositionMove, ...] | None:
    """None when nothing was decided yet."""
    try:
        return read_json(_path(run_dir, target, use), _MOVES)
    except FileNotFoundError:
        return None


def forget(run_dir: Path, target: str, use: str = "groups") -> None:
    """Delete the decisions, once they were undone."""
    _path(run_dir, target, use).unlink(missing_ok=True)


def _path(run_dir: Path, target: str, use: str) -> Path:
    return run_dir / DETAILS / f"positions.{use}.{target}.json"
