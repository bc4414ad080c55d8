"""The RTO clock: fault, detected, decided, acted, verified, each marked once on a monotonic clock.

Rules: a stage's time runs from the mark before it; a mark set twice keeps the first; a stage that was not reached is
None, and so is the total until the last is.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from drlib.drill.scorecard import RtoSeconds

STAGES: Final = ("fault", "detect", "decide", "act", "verify")


@dataclass
class RtoClock:
    now: Callable[[], float] = time.monotonic
    _marks: dict[str, float] = field(default_factory=dict)

    def mark(self, stage: str) -> None:
        """Mark the end of `stage` ("fault" starts the clock). Raises ValueError for a stage there is none of."""
        if stage not in STAGES:
            raise ValueError(f"no stage {stage}")
        self._marks.setdefault(stage, self.now())

    def seconds(self) -> RtoSeconds:
        """Seconds per stage, to the millisecond."""
        values: dict[str, float | None] = {}
        for before, stage in itertools.pairwise(STAGES):
            values[stage] = self._between(before, stage)
        return RtoSeconds(**values, total=self._between("fault", "verify"))

    def _between(self, first: str, last: str) -> float | None:
        if first not in self._marks or last not in self._marks:
            return None
        return round(self._marks[last] - self._marks[first], 3)
