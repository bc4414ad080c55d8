"""The wall clock, as Kafka counts it.

Not for: durations and deadlines, which are differences of `time.monotonic()`.
"""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970-01-01 UTC."""
    return int(time.time() * 1000)
