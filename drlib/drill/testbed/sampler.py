"""Totals over time, for the picture of a drill: produced, mirrored, consumed, twice a second on a thread of its own.

Rules: it only asks its `Counting`; a moment at which that could not tell has no sample; it never stops a drill. Each sample
is a line in the run's folder as soon as it is taken, so a run that is taken up by another process has those of the first as
well. One sampler a run folder and process, however many steps ask for it; it ends with its drill, whatever way that ends.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from drlib import clock
from drlib.drill.testbed.traffic_counts import Counting
from drlib.errors import DrlibError
from drlib.runs.scorecard import Sample

PERIOD_S: Final = 0.5
FILE: Final = "samples.jsonl"
_RUNNING: dict[Path, Sampler] = {}
_LOCK: Final = threading.Lock()


def start(run_dir: Path, count: Counting) -> None:
    """Take samples of what `count` says for the run in `run_dir` from now on, unless that is done already."""
    with _LOCK:
        if run_dir not in _RUNNING:
            _RUNNING[run_dir] = Sampler(run_dir, count)
            _RUNNING[run_dir].start()


def stop(run_dir: Path) -> tuple[Sample, ...]:
    """Take no more of the run in `run_dir`; all that were taken, by this process and those before it."""
    with _LOCK:
        running = _RUNNING.pop(run_dir, None)
    if running is not None:
        running.stop()
    return read(run_dir)


def read(run_dir: Path) -> tuple[Sample, ...]:
    """The samples so far. A line that was cut off when its writer died is left out."""
    try:
        lines = (run_dir / FILE).read_text().splitlines()
    except FileNotFoundError:
        return ()
    found = []
    for line in lines:
        try:
            found.append(Sample.model_validate_json(line))
        except ValidationError:
            continue
    return tuple(found)


class Sampler:
    def __init__(self, run_dir: Path, count: Counting) -> None:
        self._run_dir = run_dir
        self._count = count
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="drill-sampler", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """The last sample is of now, so that a picture ends where the drill did."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(5)

    def _run(self) -> None:
        with (self._run_dir / FILE).open("a", buffering=1) as file:
            over = False
            while not over:
                over = self._stopped.wait(PERIOD_S)
                try:
                    found = self._count()
                except (DrlibError, OSError):
                    continue
                now = clock.now_ms()
                sample = Sample(
                    at_ms=now, produced=found.produced, mirrored=found.mirrored, consumed=dict(found.consumed)
                )
                file.write(sample.model_dump_json() + "\n")
