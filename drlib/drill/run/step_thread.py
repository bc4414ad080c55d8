"""A step's work on a thread of its own, so that an abort is answered while the step waits for somebody.

Rules: a step that does not end within `ABORT_S` of an abort is left as it is: nobody may undo or repeat it before this
process is gone, so what is raised then (`Stuck`) ends the run where it stands.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from drlib.errors import Aborted
from drlib.runs.abort import Abort

ABORT_S: Final = 2.0  # how long a step that was aborted may take to end
_LOOK_S: Final = 0.05
Answered = TypeVar("Answered")


class Stuck(Aborted):
    """The step goes on: nobody may undo or repeat it before this process is gone."""

    def __init__(self) -> None:
        super().__init__(
            "the run was left in the middle of a step",
            f"the step did not end within {ABORT_S:g} s after the abort, so nothing was rolled back",
            "Resume the run, or roll it back; how far the step came is looked at first.",
        )


def working(work: Callable[[], Answered], abort: Abort) -> Answered:
    """What `work` returns or raises. Raises `Stuck` when it does not end in time after an abort."""
    found: list[Answered] = []
    failed: list[BaseException] = []

    def body() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=body, name="drill-step", daemon=True)
    thread.start()
    asked: float | None = None
    while thread.is_alive():
        thread.join(_LOOK_S)
        if abort.requested:
            asked = asked or time.monotonic()
            if thread.is_alive() and time.monotonic() - asked > ABORT_S:
                raise Stuck()
    if failed:
        raise failed[0]
    return found[0]
