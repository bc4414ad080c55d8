"""A runbook: which notebook, with which parameters, against which objectives.

Rules: an unknown key is refused with a suggestion before anything starts; the notebook's path is relative to the file.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from drlib.drill.scorecard import Objectives
from drlib.errors import UsageError

Value = bool | int | float | str | list[bool | int | float | str]


class Runbook(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
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
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        near = difflib.get_close_matches(key, Runbook.model_fields, 1)
        hint = f"Did you mean {near[0]}?" if near else f"Its keys are {', '.join(Runbook.model_fields)}."
        raise UsageError(f"{path}: {key}", first["msg"].lower(), hint) from None
    notebook = (path.parent / book.notebook).resolve()
    if not notebook.is_file():
        raise UsageError(
            f"{path}: notebook", f"there is no {notebook}", "Correct the path; it is relative to the file."
        )
    return book.model_copy(update={"notebook": notebook})
