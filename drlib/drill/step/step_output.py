"""What a step keeps besides its evidence: rows to look at, and its parts of the scorecard.

Rules: one file a step and kind in the run's folder, replaced in one move, so that a process that resumes the run finds all of
it or none. A step that is done again writes it again; what it says then is what counts. Parts are put together in the
order of the steps: a figure that is given later replaces an earlier one, lists continue. A file of many rows has a JSON list a
line, so that any number of them stays within what one document may hold.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter

from drlib import decoding
from drlib.errors import UsageError
from drlib.files import make_folder, open_stored, read_json, write_whole
from drlib.runs.check import Check
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import (
    ClientScore,
    GroupScore,
    KeptTable,
    LostExample,
    Mark,
    PartitionOffsets,
    Records,
    Rpo,
    RtoSeconds,
    Sample,
)

DETAILS: Final = "details"
Row = Mapping[str, Scalar]
ROWS_PER_LINE: Final = 1000
_ROWS: Final = TypeAdapter(tuple[Row, ...])
Item = TypeVar("Item")


class ScorecardPart(BaseModel):
    """What one step knows of the scorecard; None and empty is "nothing"."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rto_seconds: RtoSeconds | None = None
    rpo: Rpo | None = None
    records: Records | None = None
    groups: tuple[GroupScore, ...] = ()
    clients: tuple[ClientScore, ...] = ()
    checks: tuple[Check, ...] = ()
    marks: tuple[Mark, ...] = ()
    samples: tuple[Sample, ...] = ()
    partitions: tuple[PartitionOffsets, ...] = ()
    lost_examples: tuple[LostExample, ...] = ()
    tables: tuple[KeptTable, ...] = ()
    environment: dict[str, str] = {}


def write_rows(run_dir: Path, step: str, rows: Iterable[Row]) -> None:
    """Keep `rows`, all of the first one's keys, as what `step` shows."""
    every = [dict(row) for row in rows]
    parts = [every[at : at + ROWS_PER_LINE] for at in range(0, len(every), ROWS_PER_LINE)] or [[]]
    _write(rows_path(run_dir, step), "\n".join(json.dumps(part, ensure_ascii=False) for part in parts))


def read_rows(run_dir: Path, step: str) -> Sequence[Row]:
    """What `step` keeps to show; empty when it keeps nothing. Raises `UsageError` for a file that was changed."""
    return read_lines(rows_path(run_dir, step), _ROWS) or ()


def read_lines(path: Path, kind: TypeAdapter[tuple[Item, ...]]) -> tuple[Item, ...] | None:
    """The items of a file that has a JSON list of them a line; None where there is none. Raises `UsageError`."""
    try:
        with open_stored(path) as file:
            lines = iter(lambda: file.readline(decoding.MOST_BYTES + 1), b"")
            return tuple(item for line in lines for item in decoding.json_as(kind, line))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, decoding.Undecodable) as error:
        raise UsageError(f"{path} cannot be used", str(error), "Restore it, or begin a new run.") from error


def rows_path(run_dir: Path, step: str) -> Path:
    """The file of those rows."""
    return _path(run_dir, step, "rows")


def write_part(run_dir: Path, step: str, part: ScorecardPart) -> None:
    """Keep `part` as what `step` adds to the scorecard."""
    _write(_path(run_dir, step, "part"), part.model_dump_json(exclude_defaults=True))


def read_part(run_dir: Path, step: str) -> ScorecardPart:
    """What `step` adds to the scorecard; nothing when it keeps nothing."""
    try:
        return read_json(_path(run_dir, step, "part"), ScorecardPart)
    except FileNotFoundError:
        return ScorecardPart()


def joined(parts: Iterable[ScorecardPart]) -> ScorecardPart:
    """`parts` in the order of their steps, as one."""
    whole = ScorecardPart()
    for part in parts:
        values = {name: getattr(part, name) for name in part.model_fields_set if getattr(part, name) is not None}
        update = {
            name: (*getattr(whole, name), *value)
            if isinstance(value, tuple)
            else {**whole.environment, **value}
            if isinstance(value, dict)
            else value
            for name, value in values.items()
        }
        whole = whole.model_copy(update=update)
    return whole


def rows_file(step: str) -> str:
    """Where the rows of a step are, in the run's folder."""
    return f"{DETAILS}/{step}.rows.json"


def _path(run_dir: Path, step: str, kind: str) -> Path:
    return run_dir / DETAILS / f"{step}.{kind}.json"


def _write(path: Path, text: str) -> None:
    make_folder(path.parent)
    write_whole(path, text)
