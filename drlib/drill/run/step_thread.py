"""A step's work on a thread of its own, so that an abort is answered while the step waits.

Rules: a step that does not end within `ABORT_S` of an abort is left as it is. It must not be undone or repeated while this
process lives, so the error that is raised then (`Stuck`) ends the run without a rollback. A step whose run may not continue
(`lost`) is ended in the same way, and so is an undo, which no abort ends.
"""

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
    """The step still runs: it must not be undone or repeated before this process has ended."""

    def __init__(self) -> None:
        super().__init__(
            "the run was left in the middle of a step",
            f"the step did not end within {ABORT_S:g} s after it was to stop, so nothing was rolled back",
            "The next process that takes the run up probes the step first.",
        )


def working(work: Callable[[], Answered], abort: Abort | None, lost: Callable[[], bool] = lambda: False) -> Answered:
    """What `work` returns or raises. Raises `Stuck` when it does not end in time after an abort, or after `lost`."""
    results: list[Answered] = []
    failed: list[BaseException] = []

    def body() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=body, name="drill-step", daemon=True)
    thread.start()
    aborted_at: float | None = None
    while thread.is_alive():
        thread.join(_LOOK_S)
        over = lost()
        if over and abort is not None:
            abort.stop()
        if over or (abort is not None and abort.requested):
            aborted_at = aborted_at or time.monotonic()
            if thread.is_alive() and time.monotonic() - aborted_at > ABORT_S:
                raise Stuck()
    if failed:
        raise failed[0]
    return results[0]
