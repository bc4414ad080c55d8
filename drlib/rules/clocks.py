"""How far another machine's clock is from ours, from one question and its answer.

Rules: the answer's time was read somewhere between asking and being answered, so the skew is an interval; a clock is
called skewed only when the whole interval lies beyond the tolerance. Positive: that clock is ahead of ours.
"""

from __future__ import annotations

from dataclasses import dataclass

TOLERANCE_MS = 2000


@dataclass(frozen=True, slots=True)
class Skew:
    """Bounds of (their clock - ours), ms."""

    low: int
    high: int

    @property
    def beyond_tolerance(self) -> bool:
        return self.low > TOLERANCE_MS or self.high < -TOLERANCE_MS

    def __str__(self) -> str:
        middle = (self.low + self.high) / 2
        side = "ahead of" if middle > 0 else "behind"
        return f"{abs(middle) / 1000:.1f} s {side} this machine's (to within {(self.high - self.low) / 2000:.1f} s)"


def skew(asked_ms: int, theirs_ms: int, answered_ms: int) -> Skew:
    """`asked_ms` and `answered_ms` by our clock, `theirs_ms` by the other one."""
    return Skew(theirs_ms - answered_ms, theirs_ms - asked_ms)
