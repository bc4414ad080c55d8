"""The parameters of a run: the runbook's, then those given, all of them checked before any of them is written down.

Rules: everything that writes parameters takes them from here: the executed notebook, `run.json`, a plan. A notebook declares
which it takes, with their types, a runbook which values they may have; `written_values` says which may be written. A parameter
that a step takes for an argument that may hold a secret (an address, headers, variables, a body) is a reference, or has a value
that plans may hold.
Not for: how a notebook declares them (`drlib.runbook.file.parameters`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from drlib.drill.run import registry
from drlib.drill.run.registry import ACTIONS, PROBES, Kind, Table
from drlib.drill.step.action import DrillCall
from drlib.drill.step.argument_types import wanted
from drlib.errors import UsageError
from drlib.outgoing import credentials
from drlib.runbook.file import drill_section, parameters, written_values
from drlib.runbook.file.model import Runbook, Value


def resolved(book: Runbook, arguments: Mapping[str, Value]) -> dict[str, Value]:
    """The parameters a run will have: the runbook's, then those given. Raises `UsageError`."""
    takes = parameters.declared(book.notebook)
    parameters.check(book.parameters, takes)  # those that are not used, too
    for name in book.accepts:
        parameters.check_name(name, takes)
    return given(book, {**book.parameters, **arguments})


def given(book: Runbook, arguments: Mapping[str, Value]) -> dict[str, Value]:
    """`arguments`, as they may be written down. Raises `UsageError` for one that the notebook does not take, and a secret."""
    takes = parameters.declared(book.notebook)
    values = parameters.check(arguments, takes)
    parameters.refuse_unaccepted(values, book.accepts)
    for name, parameter in takes.items():  # a default is in the executed notebook, too
        for part in parameter.default if isinstance(parameter.default, list) else [parameter.default]:
            if isinstance(part, str) and (form := credentials.form_of(part)):
                raise written_values.refused(name, f"its default looks like a secret: {form}")
    for name, argument, kind in _taken(book):
        value = values.get(name, takes[name].default if name in takes else None)
        text = tuple(map(str, value)) if isinstance(value, list) else value
        if text is not None and wanted(kind.model_fields[argument]).kept(text) != text:
            raise written_values.refused(
                name, f"it is the argument '{argument}' of {kind.name}, which may hold a secret"
            )
    return values


def known(book: Runbook, arguments: Mapping[str, Value | None]) -> dict[str, Value]:
    """Those of `arguments` that the notebook takes; none when it cannot be read. Raises `UsageError` for a secret."""
    try:
        takes = parameters.declared(book.notebook)
    except UsageError:
        return {}
    return given(book, {name: value for name, value in arguments.items() if name in takes and value is not None})


def _taken(book: Runbook) -> Iterator[tuple[str, str, type[DrillCall]]]:
    """Each parameter that a call of the drill takes, with the argument and its action or probe. Unknown names are left out."""
    if book.drill is None:
        return
    for step in book.drill.steps:
        yield from _taken_by(ACTIONS, step.action, step.arguments)
    for expected in (*book.drill.hypothesis, *book.drill.stop_conditions):
        yield from _taken_by(PROBES, expected.probe, expected.arguments)


def _taken_by(
    table: Table[Kind], name: str, arguments: Mapping[str, Value]
) -> Iterator[tuple[str, str, type[DrillCall]]]:
    taken = [(parameter, key) for key, value in arguments.items() if (parameter := drill_section.parameter_of(value))]
    if taken and name in table:
        kind = registry.find(table, name, name)
        yield from ((parameter, argument, kind) for parameter, argument in taken if argument in kind.model_fields)
