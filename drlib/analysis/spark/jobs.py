"""Spark jobs that report progress and are cancelled when the caller is interrupted.

Rules: work runs on a thread of its own, so that the caller can poll Spark's status tracker and be interrupted. An interrupt
cancels the job group with its stages and tasks, waits until they have ended and is then raised. One piece of work at a time.
The session may still be starting; waiting for it is part of the work.
Not for: streaming queries.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from drlib.errors import DrlibError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = TypeVar("Answer")
POLL_S: Final = 0.1
_END_S: Final = 30.0
_LAST_S: Final = 5.0  # from the last answer of a JVM until it has ended
_OUT_OF_MEMORY: Final = 52  # its exit code then: `SparkExitCode.OOM`
_ENDS: Final = re.compile(r"was shut down|OutOfMemoryError")  # of a JVM that ends in a moment
_LOGIN: Final = re.compile(r"AuthenticationException|Failed to load SSL keystore|store password was incorrect")


class SparkEnded(DrlibError):
    """The JVM ended while it worked."""

    def __init__(self, what: str, code: int) -> None:
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        why = " as it ran out of memory" if code == _OUT_OF_MEMORY else ""
        super().__init__(
            f"Spark ended: {what}",
            f"its JVM ended {how}{why}",
            "Open the analysis again (its first cell), with fewer topics or master=local[1], which needs less memory.",
        )


class SparkFailed(DrlibError):
    """A Spark job failed for a reason other than records that could not be read."""

    def __init__(self, what: str, why: str) -> None:
        lines = [line.strip() for line in why.splitlines() if line.strip() and not line.strip().startswith("at ")]
        super().__init__(
            f"Spark failed: {what}",
            " ".join(lines[:2])[:500] or "Spark gave no reason",
            "Check the login where Spark's executors run: each of them resolves ${env:NAME} and ${file:/path:key} itself."
            if _LOGIN.search(why)
            else "Run it again, with fewer topics or master=local[1] if it ran out of memory.",
        )


def closed() -> UsageError:
    """Why a closed analysis does no more work."""
    return UsageError("the analysis is closed", "close() has stopped it", "Open it again: run its first cell.")


@dataclass(frozen=True, slots=True)
class JobProgress:
    """`done` of the `tasks` that Spark knows of so far, after `seconds`; `over` when the work has ended."""

    what: str
    done: int
    tasks: int
    seconds: float
    over: bool = False


OnProgress = Callable[[JobProgress], None]


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Inside, PySpark's and py4j's errors become `SparkFailed`, and any error `SparkEnded` where the JVM has ended."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    from drlib.analysis.spark.session import exit_code

    try:
        yield
    except DrlibError:
        raise
    except Exception as error:
        answered = isinstance(error, PySparkException | Py4JJavaError) and not _ENDS.search(str(error))
        code = exit_code(0.0 if answered else _LAST_S)
        if code is not None:
            raise SparkEnded(what, code) from error
        if isinstance(error, PySparkException | Py4JError):
            raise SparkFailed(what, str(error)) from error
        raise


class SparkJobs:
    """Work on one session, given as the future of `start_in_background`. `tell` is called with each progress."""

    def __init__(self, session: Future[SparkSession], tell: OnProgress = lambda _: None) -> None:
        self._session = session
        self._tell = tell
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="spark-jobs")
        self._closed = False

    def run(self, what: str, work: Callable[[SparkSession], Answer]) -> Answer:
        """Run `work` and return its result. Raises what it raises, what starting Spark raised, and `UsageError` once closed.

        PySpark's and py4j's errors become `SparkFailed`, and any error `SparkEnded` where the JVM has ended.
        """
        if self._closed:
            raise closed()
        group = f"drlib-{secrets.token_hex(6)}"
        began = time.monotonic()
        running = self._pool.submit(self._grouped, group, what, work)
        try:
            while not wait([running], POLL_S).done:
                self._tell(self._progress(group, what, began, over=False))
            answer = running.result()
            self._tell(self._progress(group, what, began, over=True))
            return answer
        except BaseException:
            self._cancel(group, running)
            raise

    def close(self) -> None:
        """Stop the thread; the session stays. May be repeated."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _grouped(self, group: str, what: str, work: Callable[[SparkSession], Answer]) -> Answer:
        session = self._session.result()
        with explained(what):
            session.sparkContext.setJobGroup(group, what, interruptOnCancel=True)
            return work(session)

    def _progress(self, group: str, what: str, began: float, *, over: bool) -> JobProgress:
        from py4j.protocol import Py4JError

        done = tasks = 0
        if self._session.done() and self._session.exception() is None:
            with suppress(Py4JError, OSError):  # the JVM has ended, which the work says
                tracker = self._session.result().sparkContext.statusTracker()
                for job in tracker.getJobIdsForGroup(group):
                    info = tracker.getJobInfo(job)
                    for stage in info.stageIds if info is not None else ():
                        stage_info = tracker.getStageInfo(stage)
                        if stage_info is not None and info is not None:
                            done += stage_info.numCompletedTasks
                            # a finished job skips stages whose result was cached
                            tasks += stage_info.numCompletedTasks if info.status == "SUCCEEDED" else stage_info.numTasks
        return JobProgress(what, done, tasks, time.monotonic() - began, over)

    def _cancel(self, group: str, running: Future[Answer]) -> None:
        """Cancel the job group until the work has ended: it may ask Spark for another job meanwhile."""
        end = time.monotonic() + _END_S
        while not running.done() and time.monotonic() < end:
            if running.cancel():
                return
            if self._session.done() and self._session.exception() is None:
                with suppress(Exception):  # the JVM has ended, and with it the job
                    self._session.result().sparkContext.cancelJobGroup(group)
            wait([running], POLL_S)
