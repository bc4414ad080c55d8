"""The positions that a run decided for groups on one cluster, and those committed there before: a file in its folder.

Rules: it is on disk, whole, before the first position is written, so that a process that resumes the run completes what was
decided and restores what was there. One file for each target cluster and use (`groups`, `shadow`). It has a JSON list a line,
of `MOVES_PER_LINE` at most, so that any number of positions stays within what one document may hold.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pydantic import TypeAdapter

from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.step.step_output import DETAILS, read_lines
from drlib.errors import DrlibError
from drlib.files import make_folder, read_json, remove_stored, write_whole
from drlib.kafka.admin.descriptions import GroupState

MOVES_PER_LINE: Final = 10_000
IN_USE: Final = "in-use"
_MOVES: Final = TypeAdapter(tuple[PositionMove, ...])
_NAMES: Final = TypeAdapter(tuple[str, ...])
WRITERS: Final = ("groups.translate", "switchover.move", "wave.switchover", "groups.translate_back")
"""The actions that decide positions."""
Move = TypeVar("Move")


def write(run_dir: Path, target: str, moves: Sequence[PositionMove], use: str = "groups") -> None:
    write_lines(_path(run_dir, target, use), _MOVES, moves, MOVES_PER_LINE)


def write_lines(path: Path, kind: TypeAdapter[tuple[Move, ...]], moves: Sequence[Move], per_line: int) -> None:
    """The file, of any kind of moves."""
    make_folder(path.parent)
    parts = [tuple(moves[at : at + per_line]) for at in range(0, len(moves), per_line)]
    write_whole(path, b"\n".join(kind.dump_json(part) for part in parts or [()]))


def read(run_dir: Path, target: str, use: str = "groups") -> tuple[PositionMove, ...] | None:
    """None when nothing was decided yet. Raises `UsageError` for a file that was changed."""
    return read_lines(_path(run_dir, target, use), _MOVES)


def keep_in_use(run_dir: Path, target: str, states: Mapping[str, GroupState | DrlibError]) -> None:
    """Keep which groups had members before they were moved to `target`; the first time counts."""
    path = _path(run_dir, target, IN_USE)
    if not path.exists():
        make_folder(path.parent)
        names = sorted(group for group, state in states.items() if state is GroupState.ACTIVE)
        write_whole(path, _NAMES.dump_json(tuple(names)))


def in_use(run_dir: Path, target: str) -> frozenset[str]:
    """Those groups; none where that is not known. Raises `UsageError` for a file that was changed."""
    path = _path(run_dir, target, IN_USE)
    try:
        names: tuple[str, ...] = read_json(path, _NAMES, "Restore it, or begin a new run.")
    except FileNotFoundError:
        return frozenset()
    return frozenset(names)


def forget(run_dir: Path, target: str, use: str = "groups") -> None:
    """Delete the decisions, once they were undone."""
    remove_stored(_path(run_dir, target, use))


def _path(run_dir: Path, target: str, use: str) -> Path:
    return run_dir / DETAILS / f"positions.{use}.{target}.json"
