"""What a run, or a process of tests, has left behind on this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil


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
