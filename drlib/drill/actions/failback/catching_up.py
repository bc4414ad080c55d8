"""How a flow catches up: what is missing, how fast that shrinks, when it is done, and since when nothing was copied. Pure.

Rules: progress is what was copied, not what is missing, which may grow while the mirror copies. The time left is estimated from
the looks of the last `WINDOW_S` seconds, and unknown where what is missing does not shrink.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from drlib import formats

WINDOW_S: Final = 20.0


@dataclass(slots=True)
class CatchingUp:
    """`missing`: offsets, as of the last look."""

    missing: int = 0
    _copied: int = -1
    _since_s: float = 0.0  # of the last progress
    _looks: deque[tuple[float, int]] = field(default_factory=deque)

    def seen(self, now_s: float, missing: int, copied: int) -> None:
        """One look at `now_s`, on any clock that only goes forward: `copied` counts all offsets that are mirrored."""
        if copied > self._copied:
            self._copied, self._since_s = copied, now_s
        self.missing = missing
        self._looks.append((now_s, missing))
        while now_s - self._looks[0][0] > WINDOW_S:
            self._looks.popleft()

    def stalled_s(self, now_s: float) -> float:
        """Seconds without progress."""
        return now_s - self._since_s

    @property
    def left_s(self) -> float | None:
        """Seconds until nothing is missing, at this rate; None where that is not known."""
        (first_s, first), (last_s, last) = self._looks[0], self._looks[-1]
        if not last:
            return 0.0
        return None if first <= last or last_s <= first_s else last * (last_s - first_s) / (first - last)

    @property
    def eta(self) -> str:
        """The same in words."""
        left = self.left_s
        return "unknown" if left is None else formats.duration(left) if left else "now"
