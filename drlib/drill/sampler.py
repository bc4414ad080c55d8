"""Totals over time, for the picture of a drill: produced, mirrored, consumed, twice a second on a thread of its own.

Rules: it only reads status files; what it could not read keeps its last value; it never stops a drill.
"""

from __future__ import annotations

import threading
import time

from drlib.drill.scorecard import Sample
from drlib.drill.stage import GROUPS, Stage

PERIOD_S = 0.5


class Sampler:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._samples: list[Sample] = []
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._mirrored = 0

    @property
    def samples(self) -> tuple[Sample, ...]:
        return tuple(self._samples)

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="drill-sampler", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(5)

    def _run(self) -> None:
        while not self._stopped.wait(PERIOD_S):
            told = self._stage.mirror()
            mirrored = sum(p.mirrored for f in told.flows for p in f.partitions if p.topic == "flights")
            self._mirrored = max(self._mirrored, mirrored)
            self._samples.append(
                Sample(
                    at_ms=int(time.time() * 1000),
                    produced=self._stage.done("flights"),
                    mirrored=self._mirrored,
                    consumed={group: self._stage.done(group) for group in GROUPS},
                )
            )
