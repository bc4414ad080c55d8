"""Locks of a run's folder: one process runs its plan, one executes its notebook, and any process may test whether one does.

Rules: a lock is `flock` on a file of the folder, so it ends with the process that holds it, however that ends; the file
stays. A test holds the lock for a moment as well; `patience_s` is longer than that.
Not for: the flow's lease, which holds among machines (`lease`).
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from drlib.errors import LeaseHeld, UsageError
from drlib.files import stored_descriptor

_LOOK_S: Final = 0.05
_NO_FILE: Final = frozenset({errno.ELOOP, errno.EINVAL})


@contextmanager
def alone(folder: Path, name: str, why: str, remedy: str, patience_s: float = 0.0) -> Iterator[None]:
    """While inside, no other process holds the lock `name` of `folder`. Raises `LeaseHeld` when one still does,
    `UsageError` where the lock is a link or another special file, or there are no locks."""
    try:
        handle = stored_descriptor(folder / name, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        why = f"its lock {name} is no file of drlib ({error.strerror})"
        raise UsageError(f"{folder.name} cannot be run", why, f"Remove {folder / name}.") from error
    try:
        end = time.monotonic() + patience_s
        while not _taken(handle, folder):
            if time.monotonic() >= end:
                raise LeaseHeld(f"{folder.name} is being run", why, remedy)
            time.sleep(_LOOK_S)
        yield
    finally:
        os.close(handle)


def held(folder: Path, *names: str) -> bool:
    """Does a living process hold one of the locks `names` of the run in `folder`? Raises `UsageError` where there are none."""
    for name in names:
        try:
            handle = stored_descriptor(folder / name, os.O_RDWR)
        except OSError as error:
            if error.errno not in {errno.ENOENT, *_NO_FILE}:
                raise
            continue
        try:
            if not _taken(handle, folder):
                return True
        finally:
            os.close(handle)
    return False


def _taken(handle: int, folder: Path) -> bool:
    """Raises `UsageError` where there are no locks, as on NFS without its lock service."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        why = f"its file system takes no locks ({error.strerror}), so that two processes could run it at once"
        raise UsageError(f"{folder} cannot be used", why, "Keep runs on a disk of this machine: --runs-dir.") from error
    return True
