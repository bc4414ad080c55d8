"""Points where a test may kill the process: `DRLIB_FAILPOINT=name[:n]` sends SIGKILL to the process at the n-th passage.

Rules: only SIGKILL to our own PID, and nothing unless the variable is set when the process starts. The names are the steps
of the engine's protocol, so that tests can kill the process at each of them.
"""

from __future__ import annotations

import os
import signal
from typing import Final, Literal

from drlib import decoding

Failpoint = Literal[
    "after-fetch",
    "after-journal-write",
    "mid-produce",
    "after-ack",
    "mid-claim",
    "after-claim",
    "before-tombstones",
    "topics-judged",
    "topics-identified",
]

VARIABLE: Final = "DRLIB_FAILPOINT"
_name, _, _count = os.environ.get(VARIABLE, "").partition(":")
_left = decoding.integer_or(1, _count)


def hit(name: Failpoint) -> None:
    """Kill the process if this is the selected passage."""
    global _left
    if name != _name:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
