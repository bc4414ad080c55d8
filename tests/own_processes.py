"""What a run, or a process of tests, has left behind on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import psutil

from drlib.runs.signals import SIGNALS, handled


def processes_of(place: Path) -> list[str]:
    """Command lines of processes that name a path under `place`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(place) in line:
                found.append(line[:200])
    return found


def of_worker(worker: str, run: str) -> list[psutil.Process]:
    """Processes with the environment of one of xdist's workers, and those that they have started."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environment = process.environ()
            if (environment.get("PYTEST_XDIST_WORKER"), environment.get("PYTEST_XDIST_TESTRUNUID")) == (worker, run):
                found += [process, *process.children(recursive=True)]
    return found


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Inside, the first Ctrl-C or SIGTERM ends this process by `SystemExit`, so that it ends what it has started; later ones
    are ignored. Also where it runs in the background of a shell, which has Ctrl-C ignored."""

    def end(number: int, _: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    with handled(end):
        yield


def said_until_end(process: subprocess.Popen[str], seconds: float) -> tuple[str, str]:
    """What a program prints until its end, to its outputs. One that goes on for longer fails the test, with that and the
    stacks of its threads, and is killed with all that it has started: tests that come later need the processors."""
    try:
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGABRT)  # `PYTHONFAULTHANDLER`
        for each in started:
            with suppress(psutil.Error):
                each.kill()
        said = process.communicate(timeout=60)
    raise AssertionError(f"{process.args!r} did not end in {seconds} s:\n{said[0]}\n{said[1] or ''}")
