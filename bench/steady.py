"""From samples of a catch-up to its steady state: rate, and CPU per record, start-up and tail left out.

Rules: pure. The window opens when a tenth of the records is across, or `SETTLE_S` after the first one if that is
earlier (a slow engine would spend its whole time opening the window), and closes at nine tenths, or with the last
sample. Crossings are interpolated between samples, CPU with them. Not for: taking samples (`catchup`).
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

OPENS: Final = 0.1
CLOSES: Final = 0.9
SETTLE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What was so at `at` (seconds of any clock): `done` records across, `cpu` seconds used, ever."""

    at: float
    done: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Steady:
    """The window: its length in seconds, the records that crossed in it and the CPU seconds they cost."""

    seconds: float
    records: float
    cpu: float

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds


def steady(samples: Sequence[Sample], total: int) -> Steady | None:
    """The steady state of a catch-up of `total` records; None when the samples do not span any."""
    first = next((s for s in samples if s.done > 0), None)
    if first is None:
        return None
    opening = _when_done(samples, total * OPENS)
    settled = _at(samples, first.at + SETTLE_S)
    begin = min((s for s in (opening, settled) if s is not None), key=lambda s: s.at, default=None)
    end = _when_done(samples, total * CLOSES) or samples[-1]
    if begin is None or end.at <= begin.at or end.done <= begin.done:
        return None
    return Steady(end.at - begin.at, end.done - begin.done, end.cpu - begin.cpu)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of them (0 to 1) do not exceed, interpolated. Raises `ValueError` for no values."""
    if not values:
        raise ValueError("no percentile of nothing")
    if len(values) == 1:
        return values[0]
    if share in (0.0, 1.0):
        return max(values) if share else min(values)
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _when_done(samples: Sequence[Sample], done: float) -> Sample | None:
    for before, after in itertools.pairwise(samples):
        if before.done < done <= after.done:
            return _between(before, after, (done - before.done) / (after.done - before.done))
    return None


def _at(samples: Sequence[Sample], at: float) -> Sample | None:
    for before, after in itertools.pairwise(samples):
        if before.at <= at <= after.at and after.at > before.at:
            return _between(before, after, (at - before.at) / (after.at - before.at))
    return None


def _between(a: Sample, b: Sample, share: float) -> Sample:
    return Sample(a.at + (b.at - a.at) * share, a.done + (b.done - a.done) * share, a.cpu + (b.cpu - a.cpu) * share)
