"""Small files that others read while they change: replaced in one move, on disk by then, and their owner's alone.

Rules: a reader, a full disk, or a process that is killed meanwhile leaves the old file or the new one, never a part; mode 0600
from the first byte on. What could not be written leaves no draft behind.
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
    """Put `content`, UTF-8 where it is text, at `path`, whose folder is there. Raises OSError; then `path` is as it was."""
    with _draft(path, content) as draft:
        draft.replace(path)


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
    """The same, unless `path` is there already: the first one stays, whoever else writes at the same moment."""
    with _draft(path, content) as draft, contextlib.suppress(FileExistsError):
        os.link(draft, path)


@contextmanager
def _draft(path: Path, content: str | bytes) -> Iterator[Path]:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)
