"""Waiting for something to become true, within a step: with a deadline, and ended at once by an abort.

Rules: what is waited for is looked at several times a second. An undo waits without an abort, which may be what it is for.
Where progress can be measured, the deadline counts from the last progress: a slow machine is no failure, a standstill is.
Not for: a probe of the hypothesis, which gives its last answer where this raises.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from drlib.errors import DrlibError, Unreachable
from drlib.runs.abort import Abort

LOOK_S: Final = 0.1


def wait_for(
    abort: Abort | None,
    what: str,
    holds: Callable[[], bool],
    deadline_s: float,
    remedy: str,
    *,
    not_yet: tuple[type[DrlibError], ...] = (),
    look_s: float = LOOK_S,
    progress: Callable[[], float] | None = None,
) -> None:
    """Wait for `holds`. Errors of `holds` or `progress` that are `not_yet` do not end it: it does not hold yet.

    Raises `Unreachable` naming `what` after `deadline_s` seconds, which begin again whenever `progress` returns more than ever
    before, with the last such error; `Aborted` as soon as it is asked for.
    """
    end = time.monotonic() + deadline_s
    most = -math.inf
    silence = ""
    while True:
        if abort is not None:
            abort.check()
        try:
            if holds():
                return
            silence = ""
            if progress is not None and (reached := progress()) > most:
                most, end = reached, time.monotonic() + deadline_s
        except not_yet as error:
            silence = f"; {error.what}: {error.why}"
        if time.monotonic() > end:
            within = f"within {deadline_s:g} s" + ("" if progress is None else " of the last progress")
            raise Unreachable(f"waited for: {what}", f"this did not happen {within}{silence}", remedy)
        if abort is None:
            time.sleep(look_s)
        else:
            abort.wait(look_s)


def wait_on_lab(abort: Abort, what: str, holds: Callable[[], bool], deadline_s: float, logs: Path) -> None:
    """The same on a lab, where a cluster that is silent for a moment only does not hold yet, and `logs` tell why."""
    wait_for(abort, what, holds, deadline_s, look_at(logs), not_yet=(Unreachable,))


def look_at(logs: Path) -> str:
    """What to do where a lab's process does not do what is waited for."""
    return f"See the logs in {logs}."
