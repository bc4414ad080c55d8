"""Parameters of notebooks: which ones a notebook takes, and values checked before anything starts.

Rules: papermill only warns of a misspelt parameter and lets a string through for a number, so the notebook's annotated
parameters cell is read first (it is parsed, never run); an unknown name or a value of another type is a `UsageError`.
A secret is never a value: it would be written into the executed notebook (`written_values`). It is referred to.
"""

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel

from drlib import decoding
from drlib.config import quantities
from drlib.decoding import Undecodable
from drlib.drill.step.argument_types import nearest
from drlib.errors import UsageError
from drlib.files import MOST_STORED_BYTES, read_given_bytes
from drlib.runbook.file.model import Form, Value
from drlib.runbook.file.written_values import refuse_secret

KINDS: Final[Mapping[str, type]] = {"str": str, "int": int, "float": float, "bool": bool, "list": list}
MOST_SOURCE: Final = 64 << 10  # characters of the parameters cell
Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a parameter takes: values of `kind`, for a list of `item`s when it says of what, None where `optional`."""

    kind: type
    item: type | None
    optional: bool
    default: Value | None

    def __str__(self) -> str:
        return f"{self.kind.__name__}[{self.item.__name__}]" if self.item else self.kind.__name__


class CellMetadata(BaseModel):
    """The tags of a cell."""

    tags: tuple[str, ...] = ()


class NotebookCell(BaseModel):
    """One cell as nbformat 4 stores it: its source is a text, or the list of its lines."""

    source: str | list[str]
    metadata: CellMetadata = CellMetadata()

    @property
    def text(self) -> str:
        return self.source if isinstance(self.source, str) else "".join(self.source)


class NotebookFile(BaseModel):
    """The part of nbformat 4 that says which parameters a notebook takes; nbformat itself is of an optional extra."""

    nbformat: Literal[4]
    cells: tuple[NotebookCell, ...]


def declared(notebook: Path) -> dict[str, Parameter]:
    """The parameters of the notebook's `parameters` cell, by name. Raises `UsageError` when they cannot be read."""
    try:
        content = decoding.json_as(NotebookFile, read_given_bytes(notebook, MOST_STORED_BYTES))
    except (OSError, Undecodable) as error:
        raise UsageError(f"{notebook.name} is not a notebook", str(error), "Give a .ipynb file.") from None
    found = declared_in(notebook.name, content)
    if found is not None:
        return found
    raise UsageError(f"{notebook.name} takes no parameters", "no cell is tagged 'parameters'", "Tag one.")


def declared_in(name: str, content: NotebookFile) -> dict[str, Parameter] | None:
    """The same of the notebook `content`, which is called `name`; None where it takes no parameters. Raises `UsageError`."""
    cell = next((cell for cell in content.cells if "parameters" in cell.metadata.tags), None)
    return None if cell is None else dict(_parameters(name, cell.text))


def refuse_secrets(values: Mapping[str, object], known: Mapping[str, Parameter]) -> None:
    """Raises `UsageError` for one of `values` that may not be written down. Does not look at their types."""
    for name, value in values.items():
        own = known[name].default if name in known else None
        if value != own:
            for part in value if isinstance(value, list) else [value]:
                refuse_secret(name, part, own)


def parse(pairs: Sequence[str], known: Mapping[str, Parameter]) -> dict[str, Value]:
    """`NAME=VALUE`, each read as its parameter's type; a list is separated by commas. Raises `UsageError`."""
    values: dict[str, Value] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"parameter '{pair}'", "it has no '='", "Write it as NAME=VALUE.")
        check_name(name, known)
        refuse_secret(name, text, known[name].default)
        if name in values:
            raise UsageError(f"parameter {name}", "it is given twice", "Give it once; a list is separated by commas.")
        values[name] = _parsed(name, text, known[name])
    return values


def check(values: Mapping[str, Value], known: Mapping[str, Parameter]) -> dict[str, Value]:
    """Values of a runbook against the notebook that takes them. Raises `UsageError`."""
    for name, value in values.items():
        check_name(name, known)
        refuse_secrets({name: value}, known)
        if not _fits(value, known[name]):
            raise _mistyped(name, value, known[name])
    return dict(values)


def refuse_unaccepted(values: Mapping[str, Value], accepts: Mapping[str, Form | Sequence[Scalar]]) -> None:
    """Raises `UsageError` for one of `values`, whose types are right, that is not what the runbook accepts."""
    for name, accepted in accepts.items():
        if name not in values:
            continue
        value, what = values[name], f"parameter {name}"
        if not isinstance(accepted, Form):
            if value not in accepted:
                raise UsageError(what, f"{value!r} is not accepted", f"Use {', '.join(map(str, accepted))}.")
        elif accepted is Form.RATE:
            quantities.bytes_per_second(str(value), what)
        elif accepted is Form.TIME or (accepted is Form.OPTIONAL_TIME and value):
            quantities.seconds(str(value), what)
        elif isinstance(value, int | float) and value < (least := 1 if accepted is Form.COUNT else 0):
            raise UsageError(what, f"{value!r} is less than {least}", f"Use {least} or a greater number.")


def check_name(name: str, known: Mapping[str, Parameter]) -> None:
    """Raises `UsageError` with a suggestion when the notebook has no such parameter."""
    if name not in known:
        hint = nearest(name, known, f"It takes {', '.join(known)}.")
        raise UsageError(f"unknown parameter {name}", "the notebook has no such parameter", hint)


def _parameters(notebook: str, source: str) -> Iterator[tuple[str, Parameter]]:
    if len(source) > MOST_SOURCE:
        raise _unreadable(notebook, 1, f"the cell is longer than {MOST_SOURCE} characters")
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise _unreadable(notebook, error.lineno or 1, error.msg) from None
    except (ValueError, RecursionError, MemoryError):  # a NUL; parentheses or signs without end
        raise _unreadable(notebook, 1, "it cannot be parsed") from None
    for node in body:
        annotation: ast.expr | None = None
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, annotation = node.target.id, node.annotation
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        else:
            continue
        try:
            default = ast.literal_eval(node.value) if node.value is not None else None
        except (ValueError, TypeError, RecursionError, MemoryError):
            raise _unreadable(notebook, node.lineno, f"the default of {name} is not a literal") from None
        parameter = _parameter(annotation, default)
        if parameter is None:
            raise _unreadable(notebook, node.lineno, f"{name} is not a str, int, float, bool or list of these")
        yield name, parameter


def _parameter(annotation: ast.expr | None, default: Value | None) -> Parameter | None:
    """None for a type or a default there is no parameter of."""
    optional = default is None
    names = [type(default).__name__] if annotation is None else ast.unparse(annotation).replace(" ", "").split("|")
    if "None" in names:
        optional = True
        names.remove("None")
    match = re.fullmatch(r"(\w+)(?:\[(\w+)\])?", names[0]) if len(names) == 1 else None
    if (
        match is None
        or match[1] not in KINDS
        or (match[2] is not None and (match[2] not in KINDS or match[1] != "list"))
    ):
        return None
    parameter = Parameter(KINDS[match[1]], KINDS[match[2]] if match[2] else None, optional, default)
    return parameter if default is None or _fits(default, parameter) else None


def _fits(value: Value | None, parameter: Parameter) -> bool:
    if value is None:
        return parameter.optional
    if isinstance(value, list):
        kinds = [parameter.item] if parameter.item else [str, int, float, bool]
        return parameter.kind is list and all(any(_is(part, kind) for kind in kinds) for part in value)
    return _is(value, parameter.kind)


def _is(value: object, kind: type) -> bool:
    """bool is no int here, an int is a float, and no number is infinite: objectives are compared with them."""
    if kind is float:
        return type(value) in {int, float} and math.isfinite(value)  # type: ignore[arg-type]
    return type(value) is kind


def _parsed(name: str, text: str, parameter: Parameter) -> Value:
    if parameter.kind is not list:
        return _scalar(name, text, parameter.kind, parameter)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [_scalar(name, part, parameter.item or str, parameter) for part in parts]


def _scalar(name: str, text: str, kind: type, parameter: Parameter) -> Scalar:
    if kind is str:
        return text
    if kind is bool:
        if text.lower() not in {"true", "false"}:
            raise _mistyped(name, text, parameter)
        return text.lower() == "true"
    try:
        value: Scalar = int(text) if kind is int else float(text)
    except ValueError:
        raise _mistyped(name, text, parameter) from None
    if not _is(value, kind):
        raise _mistyped(name, text, parameter)
    return value


def _mistyped(name: str, value: object, parameter: Parameter) -> UsageError:
    article = "an" if str(parameter).startswith("int") else "a"
    example = "" if parameter.default is None else f", for example {parameter.default!r}"
    return UsageError(
        f"parameter {name}", f"{value!r} is not {article} {parameter}", f"Give {article} {parameter}{example}."
    )


def _unreadable(notebook: str, line: int, why: str) -> UsageError:
    return UsageError(f"{notebook}, parameters cell, line {line}", why, "Write it as `name: type = literal`.")
