"""Write small files atomically: replaced by one rename, on disk by then, readable by their owner only. Lock files.

Rules: after a crash, a full disk or a kill there is the old file or the new one, never a part of it; the mode is 0600 from the
first byte. A failed write leaves no temporary file.
Not for: files that are written many times a second (status), that grow (journals), or that other users read (the pointer).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write `content` (text as UTF-8) to `path`, whose folder exists. Raises OSError and then leaves `path` as it was."""
    with _temporary(path, content) as temporary:
        temporary.replace(path)


@contextmanager
def file_lock(path: Path) -> Iterator[int]:
    """Hold an exclusive flock(2) on `path`, a folder or a file that is created; yields its descriptor.

    Blocks while another holds it. The kernel releases it when this process ends, however it ends.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if path.is_dir() else os.O_CREAT)
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def write_first(path: Path, content: str | bytes) -> None:
    """As `write_whole`, unless `path` exists already: of several writers at the same moment the first one wins."""
    with _temporary(path, content) as temporary, contextlib.suppress(FileExistsError):
        os.link(temporary, path)


@contextmanager
def _temporary(path: Path, content: str | bytes) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
