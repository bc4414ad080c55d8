"""Places where a test may kill the process: `DRLIB_FAILPOINT=name[:n]` sends SIGKILL to ourselves at the n-th passage.

Rules: nothing but SIGKILL to our own pid, nothing at all unless the variable is set when the process starts. The names
are the stages of the engine's protocol, so that "kill -9 at any point" is a list of tests and not a hope.
"""

from __future__ import annotations

import os
import signal
from typing import Final, Literal

Failpoint = Literal[
    "after-fetch",
    "after-journal-write",
    "mid-produce",
    "after-ack",
    "mid-claim",
    "after-claim",
]

VARIABLE: Final = "DRLIB_FAILPOINT"
_name, _, _count = os.environ.get(VARIABLE, "").partition(":")
_left = int(_count) if _count.isdigit() else 1


def hit(name: Failpoint) -> None:
    """Die here if this is the passage that was asked for."""
    global _left
    if name != _name:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
