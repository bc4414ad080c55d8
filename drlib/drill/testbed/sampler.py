"""Totals over time for the figure of a drill: produced, mirrored and consumed records, twice a second on its own thread.

Rules: it only calls its `Counting`; a failed call gives no sample and never stops the drill. Each sample is written to the
run's folder at once, so a run that is resumed by another process keeps the earlier ones. One sampler runs per run folder and
process, however many steps start it; it ends with its drill.
"""

import os
import threading
from pathlib import Path
from typing import Final

from drlib import clock, decoding
from drlib.decoding import Undecodable
from drlib.drill.testbed.traffic_counts import Counting
from drlib.errors import DrlibError
from drlib.files import read_stored, stored_descriptor
from drlib.runs.scorecard import Sample

PERIOD_S: Final = 0.5
FILE: Final = "samples.jsonl"
MOST_CUT_OFF: Final = 1000  # a process that dies cuts off one line
_RUNNING: dict[Path, "Sampler"] = {}
_LOCK: Final = threading.Lock()


def start(run_dir: Path, count: Counting) -> None:
    """Start sampling `count` for the run in `run_dir`, unless a sampler runs already."""
    with _LOCK:
        if run_dir not in _RUNNING:
            _RUNNING[run_dir] = Sampler(run_dir, count)
            _RUNNING[run_dir].start()


def stop(run_dir: Path) -> tuple[Sample, ...]:
    """Stop sampling the run in `run_dir`; all its samples, including those of earlier processes."""
    with _LOCK:
        running = _RUNNING.pop(run_dir, None)
    if running is not None:
        running.stop()
    return read(run_dir)


def read(run_dir: Path) -> tuple[Sample, ...]:
    """The samples so far. A line that was cut off when its process died is left out; with many such lines the file is not ours,
    and what follows is not read."""
    try:
        lines = read_stored(run_dir / FILE).splitlines()
    except FileNotFoundError:
        return ()
    samples, cut_off = [], 0
    for line in lines:
        try:
            samples.append(decoding.json_as(Sample, line))
        except Undecodable:
            cut_off += 1
            if cut_off > MOST_CUT_OFF:
                break
    return tuple(samples)


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
        """Take a last sample and stop, so that the figure ends with the drill."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(5)

    def _run(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(stored_descriptor(self._run_dir / FILE, flags), "a", buffering=1) as file:
            over = False
            while not over:
                over = self._stopped.wait(PERIOD_S)
                try:
                    counts = self._count()
                except (DrlibError, OSError):
                    continue
                now = clock.now_ms()
                sample = Sample(
                    at_ms=now, produced=counts.produced, mirrored=counts.mirrored, consumed=dict(counts.consumed)
                )
                file.write(sample.model_dump_json() + "\n")
