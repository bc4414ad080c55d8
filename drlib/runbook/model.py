"""A runbook: which notebook, with which parameters, against which objectives.

Rules: an unknown key is refused with a suggestion before anything starts; the notebook's path is relative to the file.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from drlib.drill.scorecard import Objectives
from drlib.errors import UsageError

Value = bool | int | float | str | list[bool | int | float | str]


class Runbook(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")  # it is part of a run folder's name
    title: str
    notebook: Path
    parameters: dict[str, Value] = {}
    objectives: Objectives = Objectives()


def load(path: Path) -> Runbook:
    """Read a runbook. Raises `UsageError` for what is missing, unknown or of another type."""
    try:
        document = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        known = ", ".join(sorted(p.name for p in path.parent.glob("*.yaml"))) or "none"
        raise UsageError(f"no runbook {path}", f"runbooks there: {known}", "Give the path of a runbook.") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not YAML", str(error).replace("\n", " "), "Correct the file.") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} is no runbook", "it is no mapping of keys", "Give it name, title and notebook.")
    try:
        book = Runbook.model_validate(document)
    except ValidationError as error:
        raise _refused(path, error.errors()[0]) from None
    notebook = (path.parent / book.notebook).resolve()
    if not notebook.is_file():
        raise UsageError(
            f"{path}: notebook", f"there is no {notebook}", "Correct the path; it is relative to the file."
        )
    return book.model_copy(update={"notebook": notebook})


def _refused(path: Path, first: ErrorDetails) -> UsageError:
    """The first thing wrong with a runbook, with the key that was probably meant."""
    *outer, key = [str(part) for part in first["loc"]] or [""]
    known = list(Objectives.model_fields if outer[:1] == ["objectives"] else Runbook.model_fields)
    where = f"{path}: {'.'.join([*outer, key])}"
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, known, 1)
        hint = f"Did you mean {near[0]}?" if near else f"The keys there are {', '.join(known)}."
        return UsageError(where, "there is no such key", hint)
    if first["type"] == "missing":
        return UsageError(where, "it is missing", f"Add a line `{key}: ...`.")
    return UsageError(where, first["msg"][:1].lower() + first["msg"][1:], "Correct its value.")
