"""The longest time for which an application was not served.

Rules: the edges of the window count, so that a pause at its beginning or its end is included; a window without any event is one
pause; an empty window has no answer.
Not for: reading histories.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise


def longest_pause_s(moments_ms: Iterable[int], since_ms: int, until_ms: int) -> float | None:
    """Seconds of the longest pause between `moments_ms` within `since_ms`..`until_ms`; None for an empty window."""
    if until_ms <= since_ms:
        return None
    edges = [since_ms, *sorted(at for at in moments_ms if since_ms < at < until_ms), until_ms]
    return max(after - before for before, after in pairwise(edges)) / 1000
