"""A runbook: which notebook, with which parameters, against which objectives.

Rules: an unknown key is refused with a suggestion before anything starts; the notebook's path is relative to the file.
"""

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.drill.step.argument_types import nearest
from drlib.errors import UsageError
from drlib.files import read_given
from drlib.runbook.file import calendar, find, waves
from drlib.runbook.file.drill_section import (
    ApplicationSection,
    DrillSection,
    ExpectationSection,
    StepSection,
    WaveSection,
)
from drlib.runs.scorecard import Objectives

Value = bool | int | float | str | list[bool | int | float | str]


class Form(StrEnum):
    """How a parameter is written, where its type does not say it: `5MB/s`, `200ms`, this or nothing, 0 or more, 1 or more."""

    RATE = "rate"
    TIME = "time"
    OPTIONAL_TIME = "optional-time"
    NOT_NEGATIVE = "not-negative"
    COUNT = "count"


class LabSection(BaseModel):
    """What a lab for this runbook has to have. Where it names no clusters, one is started with LEFT and RIGHT, and one
    that runs may have any."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    clusters: tuple[str, ...] = Field(default=(), min_length=2)

    @property
    def to_start(self) -> tuple[str, ...]:
        return self.clusters or ("LEFT", "RIGHT")


class Schedule(BaseModel):
    """How often it is to be run, which says when it is overdue; `cron` says at which times, in UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: str
    cron: str = ""

    @property
    def due_hours(self) -> int:
        """After how many hours without a run one is due."""
        return calendar.due_hours(self.every, self.cron)

    @field_validator("every")
    @classmethod
    def _every(cls, text: str) -> str:
        calendar.every_hours(text)
        return text

    @field_validator("cron")
    @classmethod
    def _cron(cls, text: str) -> str:
        if text:
            calendar.parse_cron(text)
        return text


class During(StrEnum):
    """What is alerted while a run continues, besides its result: nothing, what begins or fails, or every step as well."""

    NOTHING = "nothing"
    FAILURES = "failures"
    STEPS = "steps"


class Alert(BaseModel):
    """Who is alerted of a run that missed: an address to POST to, given as a reference where it is a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    headers: dict[str, str] = {}
    timeout_seconds: float = Field(default=10.0, gt=0)
    during: During = During.NOTHING


class Runbook(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")  # it is part of a run folder's name
    title: str
    notebook: Path
    parameters: dict[str, Value] = {}
    # what a parameter may be: a form, or one of these values
    accepts: dict[str, Form | list[bool | int | float | str]] = {}
    objectives: Objectives = Objectives()
    drill: DrillSection | None = None
    schedule: Schedule | None = None
    alert: Alert | None = None
    lab: LabSection = LabSection()
    file: Path = Path()  # where it was read from; not a key of the file


def load(path: Path) -> Runbook:
    """Read a runbook. Raises `UsageError` for what is missing, unknown or of another type."""
    find.refuse_missing(path)
    try:
        documents = decoding.yaml_documents(read_given(path, "a runbook"))
    except Undecodable as error:
        raise UsageError(f"{path} is not YAML", str(error), "Correct the file.") from None
    document = documents[0] if len(documents) == 1 else None
    if not isinstance(document, dict):
        raise UsageError(f"{path} is no runbook", "it is no mapping of keys", "Give it name, title and notebook.")
    try:
        if "file" in document:
            raise UsageError(f"{path}: file", "there is no such key", "Take it out.")
        book = Runbook.model_validate(document)
        drill = None if book.drill is None else waves.expanded(book.drill, f"{path}: drill.waves")
    except ValidationError as error:
        faults = error.errors()
        misspelt = [fault for fault in faults if fault["type"] == "extra_forbidden"]  # which is why another is missing
        raise _refused(path, (misspelt or faults)[0]) from None
    try:
        notebook = (path.parent / book.notebook).resolve()
        found = notebook.is_file()
    except (OSError, ValueError) as error:  # a name that is too long, or has a NUL
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{path}: notebook", f"it is no path ({why})", "Correct it.") from None
    if not found:
        raise UsageError(
            f"{path}: notebook", f"there is no {notebook}", "Correct the path; it is relative to the file."
        )
    return book.model_copy(update={"notebook": notebook, "file": path.resolve(), "drill": drill})


def _refused(path: Path, first: ErrorDetails) -> UsageError:
    """The first thing wrong with a runbook, with the key that was probably meant."""
    *outer, key = [str(part) for part in first["loc"]] or [""]
    known = [name for name in _section(outer).model_fields if name != "file"]
    where = f"{path}: {'.'.join([*outer, key])}"
    if first["type"] == "extra_forbidden":
        hint = nearest(key, known, f"The keys there are {', '.join(known)}.")
        return UsageError(where, "there is no such key", hint)
    if first["type"] == "missing":
        return UsageError(where, "it is missing", f"Add a line `{key}: ...`.")
    return UsageError(where, first["msg"][:1].lower() + first["msg"][1:], "Correct its value.")


def _section(outer: list[str]) -> type[BaseModel]:
    """What the mapping at `outer` is, such as ["drill", "steps", "2"]."""
    match outer:
        case ["objectives", *_]:
            return Objectives
        case ["schedule", *_]:
            return Schedule
        case ["alert", *_]:
            return Alert
        case ["drill", "steps", *_]:
            return StepSection
        case ["drill", "hypothesis" | "stop_conditions", *_]:
            return ExpectationSection
        case ["drill", "waves", _, "applications", *_]:
            return ApplicationSection
        case ["drill", "waves", *_]:
            return WaveSection
        case ["drill", *_]:
            return DrillSection
        case ["lab", *_]:
            return LabSection
    return Runbook
