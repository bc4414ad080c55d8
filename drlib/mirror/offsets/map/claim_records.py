"""Source and target offsets of one claim's records, by record number, as journaled in its runs and placements. Pure.

Rules: the offsets of an acknowledged record never change; an entry that would change one is a `MapContradiction`. Those of
the first ones are in the map's segments, and are dropped here: a claim may have a run for each of its records.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from drlib.mirror.offsets.map.segments import MapContradiction

SETTLED_AT = 1024


class Line:
    """A piecewise linear function from record number to offset: value + (q - start) from each start on."""

    __slots__ = ("_starts", "_values", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._starts = array("q")
        self._values = array("q")

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def last(self) -> int:
        return self._starts[-1] if self._starts else 0

    def set(self, q: int, value: int, settled: int) -> None:
        """Set the offset of record `q` to `value`, ascending from there. The first `settled` records are final."""
        if q >= settled:
            if not self._starts or q > self._starts[-1]:
                self._starts.append(q)
                self._values.append(value)
                return
            index = bisect_left(self._starts, q)
            if self._starts[index] == q:
                self._values[index] = value
            else:
                self._starts.insert(index, q)
                self._values.insert(index, value)
        elif not self._starts or q < self._starts[0] or self.at(q)[0] != value:
            raise MapContradiction(f"the {self._what} of record {q} changed after {settled} were acknowledged")

    def settle(self, q: int) -> None:
        """Drop what is about records before `q` only, if that is half of much."""
        if len(self._starts) >= SETTLED_AT and (index := bisect_right(self._starts, q) - 1) > len(self._starts) // 2:
            del self._starts[:index], self._values[:index]

    def at(self, q: int) -> tuple[int, int]:
        """The offset of record `q`, and how many records from `q` on are contiguous. Raises `MapContradiction`."""
        starts = self._starts
        index = bisect_right(starts, q) - 1
        if index < 0:
            raise MapContradiction(f"record {q} was acknowledged, its {self._what} is not in the journal")
        more = starts[index + 1] - q if index + 1 < len(starts) else 1 << 62
        return self._values[index] + q - starts[index], more


class ClaimRecords:
    """Runs and placements of one claim; its first `q` records are acknowledged. `sealed`: there are no more."""

    __slots__ = ("placements", "q", "runs", "sealed")

    def __init__(self) -> None:
        self.runs = Line("run")
        self.placements = Line("placement")
        self.q = 0
        self.sealed = False
