"""The reference of all actions and probes as Markdown, made from their classes: `docs/actions.md`.

python docs/make_actions.py > docs/actions.md
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from typing import Final

from pydantic.fields import FieldInfo

from drlib.drill.run.registry import ACTIONS, PROBES, Kind, Table, find
from drlib.drill.step.action import DrillCall, ReadOnlyAction
from drlib.drill.step.argument_types import wanted

_HEAD: Final = """\
# Actions and probes

What the steps and the steady-state hypothesis of a runbook can name, with the arguments each takes. This page is made from
the classes (`python docs/make_actions.py > docs/actions.md`). An argument that is unknown, missing or out of its
range is refused before any request to a cluster. An empty text or list counts as not given. [Pointer](glossary.md#pointer),
[hold](glossary.md#hold), [cutover](glossary.md#cutover) and [lane](glossary.md#lane) are explained in the glossary.
"""


def markdown() -> str:
    """The whole page."""
    return "\n".join([_HEAD, "## Actions\n", *_sections(ACTIONS), "## Probes\n", *_sections(PROBES)]).rstrip() + "\n"


def _sections(table: Table[Kind]) -> Iterator[str]:
    for name in table:
        call = find(table, name, name)
        yield f"### `{name}`\n"
        yield _sentences(call) + (" Changes nothing." if issubclass(call, ReadOnlyAction) else "") + "\n"
        if call.model_fields:
            yield "| Argument | Value | Default | Meaning |\n|---|---|---|---|"
            meant = meanings(call)
            yield from (_row(argument, field, meant[argument]) for argument, field in call.model_fields.items())
            yield ""


def _sentences(call: type[DrillCall]) -> str:
    return " ".join(inspect.cleandoc(call.__doc__ or "").split())


def meanings(call: type[DrillCall]) -> dict[str, str]:
    """The docstring of each argument, which stands behind it, in the class or in one that it inherits from.

    Read here and not by pydantic when a class is imported: Python 3.11 fails where two threads parse source at once.
    """
    found: dict[str, str] = {}
    for base in reversed(call.__mro__[: call.__mro__.index(DrillCall)]):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field, text in pairwise(definition.body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[ast.unparse(field.target)] = inspect.cleandoc(ast.literal_eval(text.value))
    return found


def _row(name: str, field: FieldInfo, meaning: str) -> str:
    return f"| `{name}` | {wanted(field).words} | {_default(field)} | {' '.join(meaning.split())} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, StrEnum):
        return f"`{value.value}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"`{value:g}`"
    if not value:
        return ""
    return f"`{', '.join(map(str, value)) if isinstance(value, tuple) else value}`"


if __name__ == "__main__":
    print(markdown(), end="")
