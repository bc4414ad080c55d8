"""Steps of a running notebook: the type of a progress listener, and the step a cell belongs to. Imports no papermill."""

from collections.abc import Callable
from typing import Any

Listener = Callable[[str, float], None]  # the name of the step that begins, and the share of code cells done, 0 to 1
STEP_TAG = "drlib:step="


def step_of(cell: Any) -> str:
    """The step a cell is tagged with; empty when it has none."""
    for tag in cell.metadata.get("tags", ()):
        if tag.startswith(STEP_TAG):
            return str(tag.removeprefix(STEP_TAG)).replace("-", " ")
    return ""
