"""Judge one case: a decoder returns or raises one of its own errors, within its time and a limit of memory.

Rules: time is processor time, so that a busy machine fails nothing. The memory limit is the kernel's, for the whole process
(`limit_memory`): a decoder that needs more gets a MemoryError, which is no error of its own. A failing case is made smaller as
long as it fails in the same way.
"""

from __future__ import annotations

import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from fuzz.mutate import Case

MEMORY_BYTES: Final = 768 << 20  # beyond what the process has at the beginning
_PATIENCE: Final = 3.0  # a case is interrupted after so many times its limit
_SMALLER_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Failure:
    """`kind` is the same for cases that fail alike."""

    kind: str
    detail: str


class _Interrupted(BaseException):
    """The processor time of a case is over."""


def judge(
    decode: Callable[..., object], case: Case, errors: tuple[type[BaseException], ...], seconds: float
) -> Failure | None:
    """What is wrong with how `decode` takes `case`; None where nothing is."""
    began = time.process_time()
    failure = None
    try:
        with _interrupted_after(seconds * _PATIENCE):
            decode(*case)
    except errors:
        pass
    except _Interrupted:
        return Failure("too slow", f"it was interrupted after {seconds * _PATIENCE:g} s of processor time")
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
        failure = Failure(kind, "".join(traceback.format_exception(error))[-3000:])
    took = time.process_time() - began
    if failure is None and took > seconds:
        failure = Failure("too slow", f"it took {took:.1f} s of processor time, and may take {seconds:g} s")
    return failure


def smaller(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The smallest case that is found within a time by leaving pieces out, and still fails."""
    end = time.monotonic() + _SMALLER_S
    progress = True
    while progress:
        progress = False
        for candidate in _shorter(case):
            if time.monotonic() > end:
                return case
            if fails(candidate):
                case, progress = candidate, True
                break
    return case


def _shorter(case: Case) -> Iterator[Case]:
    for number, part in enumerate(case):
        size = len(part)
        while size:
            for at in range(0, len(part), size):
                yield (*case[:number], part[:at] + part[at + size :], *case[number + 1 :])
            size //= 2


def limit_memory() -> None:
    """From now on this process may have `MEMORY_BYTES` more address space than it has."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, resource.RLIM_INFINITY))


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise _Interrupted

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
