"""Spark jobs that are watched while they run, and that end when whoever waits for them is interrupted.

Rules: a job runs on a thread of its own, so that the one that waits can look at Spark's status tracker and be interrupted
between two looks; an interrupt cancels the job group, stages and tasks with it, waits until they are gone and is then
raised. One piece of work at a time. The session may still be starting: waiting for it is part of the work.
Not for: following what a streaming query does.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from drlib.errors import DrlibError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = TypeVar("Answer")
LOOK_S: Final = 0.1
_END_S: Final = 30.0


class SparkFailed(DrlibError):
    """A Spark job failed for a reason of its own, and not because records could not be read."""

    def __init__(self, what: str, why: str) -> None:
        lines = [line.strip() for line in why.splitlines() if line.strip() and not line.strip().startswith("at ")]
        super().__init__(
            f"Spark failed at {what}",
            " ".join(lines[:2])[:500] or "it did not say why",
            "Run it again; with fewer topics or more memory if it ran out of that.",
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a piece of work is: `done` of the `tasks` that Spark knows of so far, after `seconds`."""

    what: str
    done: int
    tasks: int
    seconds: float
    over: bool = False


Teller = Callable[[Progress], None]


class Jobs:
    """Work on one session, given as the future that starting it in the background gave. `tell` is told how far it is."""

    def __init__(self, session: Future[SparkSession], tell: Teller = lambda _: None) -> None:
        self._session = session
        self._tell = tell
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="spark-jobs")

    def run(self, what: str, work: Callable[[SparkSession], Answer]) -> Answer:
        """Do `work` and give what it gives. Raises what it raises, and what starting Spark raised."""
        group = f"drlib-{secrets.token_hex(6)}"
        began = time.monotonic()
        running = self._pool.submit(self._grouped, group, what, work)
        try:
            while not wait([running], LOOK_S).done:
                self._tell(self._look(group, what, began, over=False))
            answer = running.result()
            self._tell(self._look(group, what, began, over=True))
            return answer
        except BaseException:
            self._cancel(group, running)
            raise

    def close(self) -> None:
        """Let the thread go; the session is its owner's to stop. Safe to repeat."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _grouped(self, group: str, what: str, work: Callable[[SparkSession], Answer]) -> Answer:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        session = self._session.result()
        session.sparkContext.setJobGroup(group, what, interruptOnCancel=True)
        try:
            return work(session)
        except (PySparkException, Py4JJavaError) as error:
            raise SparkFailed(what, str(error)) from error

    def _look(self, group: str, what: str, began: float, *, over: bool) -> Progress:
        done = tasks = 0
        if self._session.done():
            tracker = self._session.result().sparkContext.statusTracker()
            for job in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info is not None else ():
                    seen = tracker.getStageInfo(stage)
                    if seen is not None and info is not None:
                        done += seen.numCompletedTasks
                        # a stage that a finished job did not need, as its result was there, is nothing left to do
                        tasks += seen.numCompletedTasks if info.status == "SUCCEEDED" else seen.numTasks
        return Progress(what, done, tasks, time.monotonic() - began, over)

    def _cancel(self, group: str, running: Future[Answer]) -> None:
        """End it and wait for its end; work that asks Spark for another job meanwhile is cancelled again."""
        end = time.monotonic() + _END_S
        while not running.done() and time.monotonic() < end:
            if running.cancel():
                return
            if self._session.done() and self._session.exception() is None:
                self._session.result().sparkContext.cancelJobGroup(group)
            wait([running], LOOK_S)
