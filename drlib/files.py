"""Write small files atomically: replaced by one rename, on disk by then, readable by their owner only. Lock files. Read what
users give and what drlib wrote.

Rules: after a crash, a full disk or a kill there is the old file or the new one, never a part of it; the mode is 0600 from the
first byte. A failed write leaves no temporary file. Every file is read to a limit. A file that a user names is UTF-8, and every
way in which reading it fails is a `UsageError`; a file that drlib wrote has to be a regular one, because opening a pipe of the
same name would never return.
Not for: files that are written many times a second (status), that grow (journals), or that other users read (the pointer).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, overload

from pydantic import BaseModel, TypeAdapter

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.errors import UsageError

MOST_BYTES: Final = 4 << 20  # of a file that a user names
MOST_STORED_BYTES: Final = decoding.MOST_BYTES  # of a file that drlib wrote
_SPOILT: Final = "Restore it, or begin a new run."

Kind = TypeVar("Kind")
Model = TypeVar("Model", bound=BaseModel)


def read_given(path: Path, kind: str) -> str:
    """The text of the file that a user gave as `kind`, such as "a runbook". Raises `UsageError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(f"{path} cannot be read", f"it is larger than {MOST_BYTES} bytes", f"Give {kind}.")
        return data.decode()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UsageError(f"{path} cannot be read", why, f"Give the path of {kind}.") from error
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8 at byte {error.start}"
        raise UsageError(f"{path} cannot be read", why, "Save the file as UTF-8.") from error
    except ValueError as error:  # a path with a NUL
        raise UsageError("a path cannot be used", str(error), f"Give the path of {kind}.") from error


def read_stored(path: Path, most_bytes: int = MOST_STORED_BYTES) -> bytes:
    """The bytes of a file that drlib wrote. Raises OSError, also for a file that is not a regular one or is too large."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return _read(file, path, most_bytes)


def read_own(path: Path, most_bytes: int = MOST_STORED_BYTES) -> bytes:
    """As `read_stored`, and a symbolic link is refused as well. Raises OSError."""
    with open_own(path) as file:
        return _read(file, path, most_bytes)


def open_own(path: Path, flags: int = os.O_RDONLY) -> FileIO:
    """Open a regular file of drlib's own, unbuffered. Raises OSError for a link, a pipe, a device, a folder: at once."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    mode = "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "r+b"
    return FileIO(descriptor, mode)


def _read(file: BinaryIO | FileIO, path: Path, most_bytes: int) -> bytes:
    parts, left = [], most_bytes + 1
    while left and (part := file.read(left)):
        parts.append(part)
        left -= len(part)
    if not left:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes} bytes", str(path))
    return b"".join(parts)


@overload
def read_json(path: Path, kind: TypeAdapter[Kind], remedy: str = _SPOILT) -> Kind: ...
@overload
def read_json(path: Path, kind: type[Model], remedy: str = _SPOILT) -> Model: ...
@overload
def read_json(path: Path, kind: None = None, remedy: str = _SPOILT) -> object: ...
def read_json(path: Path, kind: TypeAdapter[Any] | type[BaseModel] | None = None, remedy: str = _SPOILT) -> object:
    """The JSON document in a file that drlib wrote. Raises FileNotFoundError, and `UsageError` with `remedy` for all else."""
    try:
        data = read_stored(path)
        return decoding.json_value(data) if kind is None else decoding.json_as(kind, data)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"{path} cannot be read", error.strerror or type(error).__name__, remedy) from error
    except Undecodable as error:
        raise UsageError(f"{path} cannot be used", str(error), remedy) from None


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
