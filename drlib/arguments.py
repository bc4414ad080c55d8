"""Check the arguments of what notebooks call, where people edit values by hand: a wrong one is a `UsageError`, not a traceback.

Rules: the types are those of the annotations, strictly: a text is neither a number nor a list of names, True is no number, and
no number is infinite.
Not for: parameters of runbooks, which are checked before anything is started (`drlib.runbook.file.parameters`).
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, Final, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from drlib.errors import UsageError

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
_STRICT: Final = ConfigDict(strict=True, allow_inf_nan=False)
_MOST: Final = 60  # characters of a value that is quoted


def checked(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """`function`, which raises `UsageError` for an argument that its annotations do not allow."""

    @cache
    def kinds() -> Mapping[str, tuple[Any, TypeAdapter[Any]]]:
        hints = get_type_hints(function, include_extras=True)
        return {
            name: (hint, TypeAdapter(hint, config=_STRICT))
            for name, each in inspect.signature(function).parameters.items()
            if (hint := hints.get(name)) is not None and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        }

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        for name, value in inspect.getcallargs(function, *args, **kwargs).items():
            if name in kinds():
                hint, adapter = kinds()[name]
                try:
                    adapter.validate_python(value)
                except ValidationError as error:
                    raise _refused(name, value, hint, error) from None
        return function(*args, **kwargs)

    return call


def _refused(name: str, value: object, hint: object, error: ValidationError) -> UsageError:
    quoted = repr(value)
    quoted = quoted if len(quoted) <= _MOST else f"{quoted[:_MOST]}..."
    least = (error.errors()[0].get("ctx") or {}).get("ge")
    if least is not None:
        return UsageError(f"parameter {name}", f"{quoted} is less than {least}", f"Use {least} or a greater number.")
    kind = _kind(hint)
    kind = f"an {kind}" if kind == "int" else f"a {kind}"
    return UsageError(f"parameter {name}", f"{quoted} is not {kind}", f"Give {kind}.")


def _kind(hint: object) -> str:
    """An annotation as a parameters cell writes it: `list[str]` for a sequence, the first of several."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is None:
        return getattr(hint, "__name__", str(hint))
    if origin is Sequence:
        return f"list[{_kind(inner[0])}]"
    return _kind(inner[0])
