"""The active-cluster pointer as one small file: read, write and watch it.

Rules: the file is replaced by an atomic rename under a lock on its folder, so a reader sees the old version or the new one,
never a part. A writer whose version is taken is refused; a reader ignores an older version.
Not for: the contents of a pointer (`drlib.client.pointer`), nor its form in Kafka (`drlib.client.pointer_topic`).
"""

import contextlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from drlib import decoding
from drlib.client.pointer import MOST_BYTES, Pointer, PointerConflict, decode, encode
from drlib.client.pointer_hold import HoldClock
from drlib.errors import Unreachable, UsageError
from drlib.files import file_lock, read_given_bytes, write_whole

_VERSION: Final = re.compile(rb'"version"\s*:\s*([0-9]{1,18})\b')


def read(path: Path) -> Pointer:
    """The pointer in `path`, which may be a link, as in a volume of Kubernetes. Raises FileNotFoundError, UsageError."""
    try:
        content = read_given_bytes(path, MOST_BYTES)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = error.strerror or type(error).__name__
        remedy = f"Write a new one: drlib pointer move FILE CLUSTER --pointer {path}."
        raise UsageError(f"{path.name} cannot be read", why, remedy) from error
    return decode(content, path.name)


def claimed_version(path: Path) -> int:
    """The highest version in a file that is no pointer: readers may have followed it. 0 without one. Raises OSError."""
    found = _VERSION.findall(read_given_bytes(path, decoding.MOST_BYTES))
    return max((decoding.integer(digits) for digits in found), default=0)


def write_atomic(path: Path, pointer: Pointer) -> None:
    """Replace the pointer atomically and durably.

    Writing the same pointer again changes nothing, and a file that is no pointer is replaced. Raises `PointerConflict` when the
    file holds this version with other content, or a newer one, and `UsageError` for a pointer that is too large, a file that
    cannot be read, and a link: readers of the file it leads to would not see the move.
    """
    content = encode(pointer)
    if path.is_symlink():
        raise UsageError(
            f"{path.name} was not changed", "it is a symbolic link", "Publish to the file that it leads to."
        )
    with file_lock(path.parent):
        version, names = 0, ""
        try:
            stored = read(path)
            if stored == pointer:
                return
            version, names = stored.version, f"which names {stored.active}"
        except FileNotFoundError:
            pass
        except UsageError as error:
            try:
                version, names = claimed_version(path), "in what is not a pointer"
            except OSError:
                raise error from None
        if version >= pointer.version and names:
            raise PointerConflict(
                f"{path.name} was not changed to version {pointer.version}",
                f"it holds version {version}, {names}",
                f"Read it again, then write version {version + 1} if the move is still right.",
            )
        write_whole(path, content, mode=0o666)  # less the umask: applications of other users read it


def own_file(common: Path, application: str) -> Path:
    """Where the pointer of one application is, beside that of all."""
    return common.with_name(f"{common.stem}.{application}{common.suffix}")


def read_all(common: Path) -> dict[Path, Pointer]:
    """The pointer of all applications and those of single ones, as far as they exist. Raises `UsageError`."""
    stored = {}
    for path in (common, *sorted(common.parent.glob(own_file(common, "*").name))):
        with contextlib.suppress(FileNotFoundError):
            stored[path] = read(path)
    return stored


class PointerWatcher:
    """The newest pointer of a file, read at most every `interval_s` seconds. A `PointerSource`."""

    def __init__(self, path: Path, interval_s: float = 0.05, *, optional: bool = False) -> None:
        self._path = path
        self._interval_s = interval_s
        self._optional = optional  # nothing is in doubt where it does not exist
        self._checked = float("-inf")
        self._seen: tuple[int, int, int] | None = None
        self._pointer: Pointer | None = None
        self._doubt = ""
        self._hold = HoldClock()

    def current(self) -> Pointer | None:
        """The pointer as of at most `interval_s` ago; None if there has never been one.

        A deleted file, an older version or an invalid file is ignored: applications stay where they are, and `doubt()`
        says why. Raises `UsageError` if the file never was a pointer.
        """
        return self._hold.applied(self._newest())

    def _newest(self) -> Pointer | None:
        now = time.monotonic()
        if now - self._checked < self._interval_s:
            return self._pointer
        self._checked = now
        try:
            stat = self._path.stat()
            identity = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if identity == self._seen:
                return self._pointer
            fresh = read(self._path)
        except FileNotFoundError:
            self._seen = None
            self._doubt = "" if self._optional else f"{self._path.name} does not exist"
            return self._pointer
        except OSError as error:  # of stat: a folder that may not be entered, for example
            self._seen = None
            self._doubt = f"{self._path.name} cannot be read ({error.strerror or type(error).__name__})"
            return self._pointer
        except UsageError as error:
            self._doubt = str(error)
            if self._pointer is None:
                self._checked = float("-inf")  # it is raised each time
                raise
            return self._pointer
        self._seen = identity
        if self._pointer is None or fresh.version >= self._pointer.version:
            self._pointer = fresh
            self._doubt = ""
        else:
            self._doubt = f"{self._path.name} went back from version {self._pointer.version} to version {fresh.version}"
        return self._pointer

    def doubt(self) -> str:
        return self._doubt

    def settled(self) -> bool:
        return True

    def wait_newer(self, version: int, timeout_s: float) -> Pointer | None:
        """The first pointer newer than `version` within `timeout_s` seconds, else None."""
        until = time.monotonic() + timeout_s
        while True:
            pointer = self.current()
            if pointer is not None and pointer.version > version:
                return pointer
            left = until - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(self._interval_s, left))

    def wait(self, deadline_s: float, stopping: Callable[[], bool] = lambda: False) -> Pointer | None:
        """The first pointer; None when `stopping()` came first. Raises `Unreachable` after `deadline_s` seconds."""
        until = time.monotonic() + deadline_s
        while not stopping():
            if (pointer := self.current()) is not None:
                return pointer
            if time.monotonic() > until:
                raise Unreachable(
                    f"no pointer at {self._path.name}",
                    f"it did not appear within {deadline_s:g} s",
                    "Start the lab, then the applications.",
                )
            time.sleep(self._interval_s)
        return None

    def close(self) -> None:
        """Does nothing: no file is kept open."""


class OwnPointerWatcher(PointerWatcher):
    """The newer one of the pointer of all applications and that of `application`, which need not exist.

    One of the files that is no pointer is a doubt where the other is one.
    """

    def __init__(self, path: Path, application: str, interval_s: float = 0.05) -> None:
        super().__init__(path, interval_s)
        self._own = PointerWatcher(own_file(path, application), interval_s, optional=True)

    def doubt(self) -> str:
        return "; ".join(filter(None, (super().doubt(), self._own.doubt())))

    def _newest(self) -> Pointer | None:
        found: list[Pointer] = []
        invalid: UsageError | None = None
        for look in (super()._newest, self._own._newest):
            try:
                if (pointer := look()) is not None:
                    found.append(pointer)
            except UsageError as error:
                invalid = invalid or error
        if invalid is not None and not found:
            raise invalid
        return max(found, key=lambda pointer: pointer.version, default=None)
