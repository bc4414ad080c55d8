"""How long an application was not served: the longest pause between the moments it was.

Rules: the edges of the window count, so that silence from its beginning or until its end is not overlooked; a window in
which nothing happened is one pause; without a window there is no answer.
Not for: reading histories.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise


def longest_pause_s(moments_ms: Iterable[int], since_ms: int, until_ms: int) -> float | None:
    """Seconds of the longest stretch of `since_ms`..`until_ms` without any of `moments_ms`; None when there is none."""
    if until_ms <= since_ms:
        return None
    edges = [since_ms, *sorted(at for at in moments_ms if since_ms < at < until_ms), until_ms]
    return max(after - before for before, after in pairwise(edges)) / 1000
