"""What a step keeps besides its evidence: rows to look at, and its parts of the scorecard.

Rules: one file a step and kind in the run's folder, replaced in one move, so that a process that resumes the run finds all of
it or none. A step that is done again writes it again; what it says then is what counts. Parts are put together in the
order of the steps: a figure that is given later replaces an earlier one, lists continue.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, TypeAdapter

from drlib.files import read_json, write_whole
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
_ROWS: Final = TypeAdapter(list[Row])


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
    _write(rows_path(run_dir, step), json.dumps([dict(row) for row in rows], ensure_ascii=False))


def read_rows(run_dir: Path, step: str) -> Sequence[Row]:
    """What `step` keeps to show; empty when it keeps nothing."""
    try:
        return read_json(rows_path(run_dir, step), _ROWS)
    except FileNotFoundError:
        return ()


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
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, text)
