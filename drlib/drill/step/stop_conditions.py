"""Stop conditions: probes that must hold while a run is on; one that does not ends the run as an abort does.

Rules: every condition is asked every `EVERY_S`, from the first step to the moment at which the run can no longer be aborted.
One that does not hold asks for the abort in its own name, and the run is rolled back by its strategy. One that cannot be
checked `MOST_UNKNOWN` times in a row counts as not holding: a run that is not watched does not go on. A question that still
waits for its answer ends with the run.
Not for: the steady state before and after a run (the hypothesis).
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from drlib.drill.step.action import Probe
from drlib.errors import Aborted, explain
from drlib.runs.abort import Abort

EVERY_S: Final = 2.0
MOST_UNKNOWN: Final = 3
_END_S: Final = 2.0  # for the end of a question; its thread ends with the process otherwise


@contextmanager
def watched(conditions: Mapping[str, Probe], folder: Path, stop: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Ask `conditions`, by title, of the run in `folder`, until the yielded function is called or the block ends.

    `stop` asks for the abort, with what did not hold.
    """
    ended = _Ended(folder)
    thread = threading.Thread(target=_watch, args=(conditions, ended, stop), name="stop-conditions", daemon=True)
    if conditions:
        thread.start()
    try:
        yield ended.stop
    finally:
        ended.stop()
        if conditions:
            thread.join(_END_S)


class _Ended(Abort):
    """Ends the waits of the probes alone: the run's own abort is asked for by `stop`."""

    @property
    def over(self) -> bool:
        return self._event.is_set()


def _watch(conditions: Mapping[str, Probe], ended: _Ended, stop: Callable[[str], None]) -> None:
    unknown = dict.fromkeys(conditions, 0)
    while not ended.over:
        for title, probe in conditions.items():
            try:
                answer = probe(ended)
                holds, why = answer.holds, str(answer.evidence)
            except Aborted:
                return
            except Exception as error:
                holds, why = None, explain(error)
            if ended.over:
                return
            unknown[title] = unknown[title] + 1 if holds is None else 0
            if holds is False:
                return stop(f"stop condition '{title}' does not hold: {why}")
            if unknown[title] == MOST_UNKNOWN:
                return stop(f"stop condition '{title}' could not be checked {MOST_UNKNOWN} times: {why}")
        try:
            ended.wait(EVERY_S)
        except Aborted:
            return
