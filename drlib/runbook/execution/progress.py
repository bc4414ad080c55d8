"""Progress of a running notebook, passed to a listener. Imports no papermill, so that any module may use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Listener = Callable[[str, float], None]
STEP_TAG = "drlib:step="
_listener: Listener | None = None


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Tell `listener` of each step while inside: its name and the share of cells done."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


def tell(step: str, share: float) -> None:
    """Say that `step` begins."""
    if _listener is not None and step:
        _listener(step, share)


def step_of(cell: Any) -> str:
    """The step a cell is tagged with, empty when it has none."""
    for tag in cell.metadata.get("tags", ()):
        if tag.startswith(STEP_TAG):
            return str(tag.removeprefix(STEP_TAG)).replace("-", " ")
    return ""
