"""The files that drlib writes and reads again: opened, read, locked and replaced here alone. Reads what users give, too.

Rules: a file of drlib's own is a regular one: a link, a pipe, a device or a folder of its name is refused at once. It is
replaced by one rename, on disk by then, and readable by its owner only from the first byte: after a crash, a full disk or a
kill there is the old file or the new one, never a part of it. Once the call returns it is the new one, after a power loss too.
A failed write leaves no temporary file. Every file is read to a limit. A file that a user names may be a link; it is UTF-8,
and every way in which reading it fails is a `UsageError`.
Not for: what the files say (`drlib.decoding`, and the modules that write them).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, TypeVar, overload

from pydantic import BaseModel, TypeAdapter

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.errors import UsageError

MOST_BYTES: Final = 4 << 20  # of a file that a user names
MOST_STORED_BYTES: Final = decoding.MOST_BYTES  # of a file that drlib wrote
_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP})  # of a file system that syncs no folders
_SPECIAL: Final = "it is not a regular file"
_SPOILT: Final = "Restore it, or begin a new run."

Kind = TypeVar("Kind")
Model = TypeVar("Model", bound=BaseModel)


def cache_folder() -> Path:
    """Where drlib keeps what can be made again, which need not exist. By the XDG Base Directory Specification: a relative
    `$XDG_CACHE_HOME` is ignored."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "drlib"


def read_given(path: Path, kind: str, errors: str = "strict") -> str:
    """The text of the file that a user gave as `kind`, such as "a runbook", decoded with `errors`. Raises `UsageError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(f"{path} cannot be read", f"it is larger than {MOST_BYTES} bytes", f"Give {kind}.")
        return data.decode(errors=errors)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UsageError(f"{path} cannot be read", why, f"Give the path of {kind}.") from error
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8 at byte {error.start}"
        raise UsageError(f"{path} cannot be read", why, "Save the file as UTF-8.") from error
    except ValueError as error:  # a path with a NUL
        raise UsageError("a path cannot be used", str(error), f"Give the path of {kind}.") from error


def read_given_bytes(path: Path, most_bytes: int) -> bytes:
    """The bytes of a file that a user named, which may be a link. Raises OSError, also for a special or a larger file."""
    with os.fdopen(_regular(path, os.O_RDONLY), "rb") as file:
        return _read(file, path, most_bytes)


def read_stored(path: Path, most_bytes: int = MOST_STORED_BYTES, *, trusted: bool = False) -> bytes:
    """The bytes of a file that drlib wrote. Raises OSError, as `stored_descriptor` does, and for a larger file."""
    with os.fdopen(stored_descriptor(path, trusted=trusted), "rb") as file:
        return _read(file, path, most_bytes)


def open_stored(path: Path) -> BufferedReader:
    """As `read_stored`, for a file that is read in parts."""
    return os.fdopen(stored_descriptor(path), "rb")


def stored_descriptor(path: Path, flags: int = os.O_RDONLY, *, trusted: bool = False) -> int:
    """Open a file of drlib's own; it is private where it is created.

    Raises OSError for a symbolic link, a pipe, a device and a folder, at once. `trusted`: also for a file that belongs to
    another user than this one, root, and the owner of its folder.
    """
    try:
        descriptor = _regular(path, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        raise
    owner = os.fstat(descriptor).st_uid
    if trusted and owner not in {os.geteuid(), 0, path.parent.stat().st_uid}:
        os.close(descriptor)
        raise OSError(errno.EPERM, f"it belongs to user {owner}", str(path))
    return descriptor


def _regular(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.ENXIO):  # a folder; a pipe without a reader, a socket
            raise OSError(errno.EINVAL, _SPECIAL, str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, _SPECIAL, str(path))
    os.set_blocking(descriptor, True)
    return descriptor


def _read(file: BufferedReader, path: Path, most_bytes: int) -> bytes:
    data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes} bytes", str(path))
    return data


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
    except NotADirectoryError as error:  # a file where a folder would be: what is asked for is not there either
        raise FileNotFoundError(*error.args, error.filename) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read", error.strerror or type(error).__name__, remedy) from error
    except Undecodable as error:
        raise UsageError(f"{path} cannot be used", str(error), remedy) from None


def write_whole(path: Path, content: str | bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Write `content` (text as UTF-8) to `path`, whose folder exists. Raises OSError and then leaves `path` as it was.

    A link or a special file of that name is replaced, never followed. `mode` is for a file that other users read, not `durable`
    for one that is written many times a second: after a crash of the machine it may be the former one, or empty.
    """
    with _temporary(path, content, mode, durable) as temporary:
        temporary.replace(path)
    if durable:
        sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make `path`, private, and the folders above it, as far as they are not there; they are on disk then. Raises OSError."""
    if path.is_dir():
        return
    above = itertools.takewhile(lambda each: not each.exists(), path.parents)
    for folder in (*reversed(list(above)), path):
        folder.mkdir(mode=0o700 if folder is path else 0o777, exist_ok=True)
        sync_folder(folder.parent)


def remove_stored(path: Path) -> None:
    """Remove a file of drlib's own, which may not be there; it does not come back after a crash of the machine."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """The names in `folder` are on disk, as far as its file system can say so and this user may open it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def refuse_unwritable(path: Path, option: str) -> None:
    """Raises `UsageError` where `write_whole` could not write the file that a user gave as `option`. Writes nothing there."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with _temporary(path, b"", 0o600, False):
            pass
    except (OSError, ValueError) as error:  # ValueError: it has no name
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{option} {path} cannot be written", why, "Give a file in a folder that exists.") from error


@contextmanager
def file_lock(path: Path) -> Iterator[int]:
    """Hold an exclusive flock(2) on `path`, a folder or a file that is created; yields its descriptor.

    Blocks while another holds it. The kernel releases it when this process ends, however it ends.
    """
    if path.is_dir():
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    else:
        descriptor = stored_descriptor(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def write_first(path: Path, content: str | bytes) -> None:
    """As `write_whole`, unless `path` exists already: of several writers at the same moment the first one wins."""
    with _temporary(path, content, 0o600, True) as temporary, contextlib.suppress(FileExistsError):
        os.link(temporary, path)
    sync_folder(path.parent)


@contextmanager
def _temporary(path: Path, content: str | bytes, mode: int, durable: bool) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, mode), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        yield temporary
    except OSError as error:
        if error.filename in (None, str(temporary)):  # of a write there is none, and the temporary name says nothing
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
