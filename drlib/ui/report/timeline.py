"""A run's journal as a timeline: time, seconds since the first line, step, event with its evidence.

Rules: every line and every value that is set is shown, rounded; the journal itself keeps every digit. Names of evidence are
the journal's, with spaces; a value named `..._ms` is a time, in UTC.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from drlib import formats
from drlib.drill.plan.progress import Noted
from drlib.runs.journal import Line, Scalar

_SAID: Final[Mapping[str, str]] = {
    Noted.STEP_STARTED: "begins",
    Noted.STEP_SUCCEEDED: "done",
    Noted.STEP_FAILED: "failed",
    Noted.PROBED: "checked",
    Noted.UNDO_STARTED: "undo begins",
    Noted.UNDO_SUCCEEDED: "undone",
    Noted.UNDO_FAILED: "could not be undone",
}
MOST_LINES: Final = 500  # of a journal that a report shows
_HASH: Final = 12  # of a plan's hash, as far as people compare it by eye
_EARLIEST_MS: Final = 1_000_000_000_000  # below it, `_ms` is a length of time and not a moment


@dataclass(frozen=True, slots=True)
class Moment:
    """One row of the timeline. `after` is seconds since the first, None when a time cannot be read."""

    at: str
    after: float | None
    step: str
    what: str


def moments(journal: Sequence[Line]) -> Iterator[Moment]:
    """The journal's lines as a timeline. A line without a step has the event's name instead."""
    first: datetime | None = None
    for line in journal:
        try:
            at = datetime.fromisoformat(line.at)
        except ValueError:
            yield Moment(line.at, None, *_told(line))
            continue
        first = first or at
        clock = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"
        yield Moment(clock, (at - first).total_seconds(), *_told(line))


def _told(line: Line) -> tuple[str, str]:
    data = {name: value for name, value in line.data.items() if value != ""}
    step, detail = str(data.pop("step", "")), str(data.pop("detail", ""))
    event = _SAID.get(line.event, line.event.replace("-", " "))
    took = data.pop("seconds", None) if line.event == Noted.STEP_SUCCEEDED else None
    if isinstance(took, int | float):
        event += f" in {formats.seconds(took)}"
    if data.pop("rpo_at_least", False) and data.get("rpo_records") is not None:
        data["rpo_records"] = f"at least {formats.cell(data['rpo_records'])}"
    text = "; ".join([detail] * bool(detail) + [_pair(name, value) for name, value in data.items()])
    if not step:
        return event, text
    return step, f"{event}: {text}" if text else event


def _pair(name: str, value: Scalar) -> str:
    if name.endswith("_ms") and isinstance(value, int) and value >= _EARLIEST_MS:
        return f"{name.removesuffix('_ms').replace('_', ' ')} {formats.clock(value)}"
    if name == "plan":
        return f"plan {str(value)[:_HASH]}"
    if name == "pid":  # a name, not an amount
        return f"pid {value}"
    return f"{name.replace('_', ' ')} {formats.cell(value)}"
