"""How far a Spark job is, in a notebook: one line that is redrawn and stays as it ended.

Rules: at most four times a second; text and HTML, so that an executed notebook keeps the last line. Outside a notebook it
draws nothing. Not for: terminals, which `views.terminal` has.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from drlib import formats
from drlib.analysis.spark.jobs import JobProgress
from drlib.formats import html_text

LEAST_S: Final = 0.25
_WIDTH: Final = 24


class LiveBar:
    """Call it with each `JobProgress`; work of another name gets a line of its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._what = ""
        self._handle: Any = None
        self._drawn = float("-inf")

    def __call__(self, progress: JobProgress) -> None:
        if progress.what != self._what:
            self._what, self._handle, self._drawn = progress.what, None, float("-inf")
        if not progress.over and self._clock() - self._drawn < LEAST_S:
            return
        self._drawn = self._clock()
        if self._handle is None:
            from IPython.core.getipython import get_ipython
            from IPython.display import display

            if get_ipython() is None:
                return
            self._handle = display(Bar(progress), display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(Bar(progress))
        if progress.over:
            self._what = ""


class Bar:
    """One state, as text and as HTML."""

    def __init__(self, progress: JobProgress) -> None:
        self._progress = progress

    def __repr__(self) -> str:
        progress = self._progress
        if progress.over and not progress.done:
            return f"{progress.what}: done in {formats.seconds(progress.seconds)}"
        if progress.over:
            return f"{progress.what}: done, {progress.done} tasks in {formats.seconds(progress.seconds)}"
        if not progress.tasks:
            return f"{progress.what}: waiting for Spark, {formats.seconds(progress.seconds)}"
        full = _WIDTH * progress.done // progress.tasks
        bar = "█" * full + "░" * (_WIDTH - full)
        return f"{progress.what}: {bar} {progress.done} of {progress.tasks} tasks, {formats.seconds(progress.seconds)}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": f"<code>{html_text(repr(self))}</code>"}
