"""What a notebook can be told, and what it is told: checked before anything starts.

Rules: papermill only warns of a misspelt parameter and lets a string through for a number, so the notebook's annotated
parameters cell is read first; an unknown name or a value of another type is a `UsageError`. A secret is never a value:
it would be written into the executed notebook. It is named as `env:NAME` or `file:PATH`.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat

from drlib.errors import UsageError
from drlib.runbook.model import Value

SECRET = re.compile(r"password|passwd|secret|token|credential|api_?key|private_?key", re.IGNORECASE)
REFERENCE = re.compile(r"(env|file):.+")


def declared(notebook: Path) -> dict[str, Value | None]:
    """Name and default of each parameter of the notebook's `parameters` cell."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        if "parameters" not in cell.metadata.get("tags", ()):
            continue
        found: dict[str, Value | None] = {}
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                found[node.target.id] = ast.literal_eval(node.value)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found[node.targets[0].id] = ast.literal_eval(node.value)
        return found
    raise UsageError(f"{notebook.name} takes no parameters", "no cell is tagged 'parameters'", "Tag one.")


def parse(pairs: Sequence[str], known: Mapping[str, Value | None]) -> dict[str, Value]:
    """`NAME=VALUE` as typed as the defaults in `known`."""
    given: dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"parameter '{pair}'", "it has no '='", "Write it as NAME=VALUE.")
        check_name(name, known)
        given[name] = _typed(name, text, known[name])
    return given


def check(given: Mapping[str, Value], known: Mapping[str, Value | None]) -> dict[str, Value]:
    """Values of a runbook against the notebook that takes them. Raises `UsageError`."""
    for name, value in given.items():
        check_name(name, known)
        default = known[name]
        fits = default is None or type(value) is type(default) or (isinstance(default, float) and type(value) is int)
        if not fits:
            raise _mistyped(name, value, default)
        _refuse_secret(name, value)
    return dict(given)


def check_name(name: str, known: Mapping[str, Value | None]) -> None:
    """Raises `UsageError` with a suggestion when the notebook has no such parameter."""
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"Did you mean {near[0]}?" if near else f"It takes {', '.join(known)}."
        raise UsageError(f"unknown parameter {name}", "the notebook has none of that name", hint)


def _typed(name: str, text: str, default: Value | None) -> Value:
    _refuse_secret(name, text)
    if default is None or isinstance(default, str):
        return text
    if isinstance(default, bool):
        if text.lower() in {"true", "false"}:
            return text.lower() == "true"
        raise _mistyped(name, text, default)
    try:
        if isinstance(default, list):
            return [part.strip() for part in text.split(",") if part.strip()]
        return type(default)(text)
    except ValueError:
        raise _mistyped(name, text, default) from None


def _mistyped(name: str, value: object, default: object) -> UsageError:
    kind = type(default).__name__
    return UsageError(f"parameter {name}", f"{value!r} is no {kind}", f"Give a {kind}, for example {default!r}.")


def _refuse_secret(name: str, value: object) -> None:
    if SECRET.search(name) and isinstance(value, str) and value and not REFERENCE.fullmatch(value):
        raise UsageError(
            f"parameter {name}",
            "it looks like a secret, and parameters are written into the executed notebook",
            "Give a reference: env:NAME or file:PATH.",
        )
