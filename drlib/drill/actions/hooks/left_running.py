"""What still runs of a command after drlib was killed in the middle of the call: found, and ended.

Rules: it is known by the key of its call, which is in the environment of the command and of all that it starts; so no process
is found by a number that another one has since. The oldest that is found is the command, or what it left when it ended; it is
ended with its session, as when its time is up. Nothing is found on another host, or where there is no `/proc` of Linux.
Not for: what a call was, and whether it is made again (`actions`).
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from drlib.errors import Deviated

CALL: Final = "DRLIB_CALL"
_PROC: Final = Path("/proc")
_END_S: Final = 2.0  # after each signal
_LOOK_S: Final = 0.05
_STARTED: Final = 19  # of the fields behind the name in /proc/PID/stat


def running(call: str) -> tuple[int, ...]:
    """The processes of the call's command that still run here, the oldest first; empty for a call without a key."""
    if not call:
        return ()
    mark = f"{CALL}={call}".encode()
    found: list[tuple[int, int, int]] = []  # since when, number, session
    for each in _PROC.glob("[0-9]*"):
        pid = int(each.name)
        with suppress(OSError):  # it has ended, or belongs to another user
            if pid != os.getpid() and mark in (each / "environ").read_bytes().split(b"\0"):
                started = int((each / "stat").read_bytes().rpartition(b")")[2].split()[_STARTED])
                found.append((started, pid, os.getsid(pid)))
    found.sort()
    return tuple(pid for _, pid, session in found if session == found[0][2])


def end(call: str, hook: str) -> None:
    """End them. Raises `Deviated` where one does not end."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        until, sent = time.monotonic() + _END_S, set[int]()
        while pids := running(call):
            for pid in {*pids} - sent:
                with suppress(ProcessLookupError):
                    os.kill(pid, sign)
            sent.update(pids)
            if time.monotonic() > until:
                break
            time.sleep(_LOOK_S)
        else:
            return
    raise Deviated(f"hook {hook} is not called", still(pids), "See why these processes do not end.")


def still(pids: tuple[int, ...]) -> str:
    return f"it runs since a process of drlib was killed, as process {', '.join(map(str, pids))}"
