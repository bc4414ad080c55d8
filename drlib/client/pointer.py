"""The active-cluster pointer: which cluster the applications use, as a value, as bytes and as one small file.

Rules: versions only grow: a writer that comes late with a version that is taken is refused, and a reader ignores what is
older than what it has seen. The file is replaced by an atomic rename under a lock on its folder, so a reader sees the old
or the new one and never half. `cutover` is where each remote topic ends for the applications: they read it up to there,
then the local topic of the same name. `hold` asks producers to finish what is in flight and wait, and consumers to commit
what they have and leave their groups (a planned move drains first); after `hold_limit_s` seconds they go on where they are
(`drlib.client.pointer_hold`).
Not for: deciding to move; nor the form that lives in Kafka (`drlib.client.pointer_topic`).
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from drlib.client.pointer_hold import HoldClock
from drlib.errors import DrlibError, Unreachable, UsageError

POINTER_NAME = "pointer.json"


class PointerConflict(DrlibError):
    """Another writer was first, or two clusters hold different words under one version."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """`bootstrap` is of the active cluster; `remote_prefix` (`LEFT.`) names the topics mirrored to it, None if none are
    to be read; `cutover[remote topic][partition]` is the position at which reading the remote topic is finished.
    A `hold` lasts `hold_limit_s` seconds and no longer; 0: without a limit."""

    version: int
    active: str
    bootstrap: str
    remote_prefix: str | None = None
    cutover: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    hold: bool = False
    hold_limit_s: float = 0.0

    def elsewhere(self, was: Pointer) -> bool:
        """Does it name another cluster than `was`?"""
        return self.bootstrap != was.bootstrap

    def remote_topic(self, topic: str) -> str | None:
        """The topic `topic` was mirrored into on the active cluster, or None when there is nothing remote to read."""
        return None if self.remote_prefix is None else f"{self.remote_prefix}{topic}"


class PointerSource(Protocol):
    """Where an application looks: a file, or a topic on every cluster."""

    def current(self) -> Pointer | None:
        """The newest pointer known; None while there has never been one. Never goes back to an older version."""

    def doubt(self) -> str:
        """Why `current()` may not be the newest there is; empty when nothing speaks against it."""

    def settled(self) -> bool:
        """Has everybody who could know a newer pointer been asked?"""

    def wait_newer(self, version: int, timeout_s: float) -> Pointer | None:
        """The first pointer newer than `version` within `timeout_s` seconds, else None."""

    def close(self) -> None: ...


def newest(pointers: Iterable[Pointer]) -> Pointer | None:
    """The one with the highest version. Raises `PointerConflict` when two with that version differ."""
    best: Pointer | None = None
    rival: Pointer | None = None
    for pointer in pointers:
        if best is None or pointer.version > best.version:
            best, rival = pointer, None
        elif pointer.version == best.version and pointer != best:
            rival = pointer
    if best is not None and rival is not None:
        raise PointerConflict(
            f"version {best.version} of the pointer says two things",
            f"one names {best.active}, the other {rival.active}: two writers who could not see each other",
            f"Decide which is right and publish it as version {best.version + 1}.",
        )
    return best


def encode(pointer: Pointer) -> bytes:
    document = {
        "version": pointer.version,
        "active": pointer.active,
        "bootstrap": pointer.bootstrap,
        "remote_prefix": pointer.remote_prefix,
        "cutover": {topic: list(offsets) for topic, offsets in pointer.cutover.items()},
        "hold": pointer.hold,
        **({"hold_limit_s": pointer.hold_limit_s} if pointer.hold_limit_s else {}),
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def decode(content: bytes, name: str = POINTER_NAME) -> Pointer:
    """Raises UsageError when `content` is not a pointer; `name` says where it was found."""
    try:
        match json.loads(content):
            case {"version": int(version), "active": str(active), "bootstrap": str(bootstrap), **rest}:
                prefix, cutover, hold = rest.get("remote_prefix"), _ends(rest.get("cutover")), rest.get("hold", False)
                limit = rest.get("hold_limit_s", 0.0)
                limit_s = float(limit) if isinstance(limit, int | float) and not isinstance(limit, bool) else -1.0
                if (prefix is None or isinstance(prefix, str)) and isinstance(hold, bool) and limit_s >= 0:
                    return Pointer(version, active, bootstrap, prefix, cutover, hold, limit_s)
    except (ValueError, TypeError):
        pass
    raise UsageError(
        f"{name} is not a pointer",
        "it needs version, active and bootstrap, and cutover as lists of offsets",
        "Write it with drlib.client.pointer.write_atomic, or publish it with drlib.client.pointer_topic.publish.",
    )


def _ends(cutover: object) -> dict[str, tuple[int, ...]]:
    if cutover is None:
        return {}
    if not isinstance(cutover, dict):
        raise ValueError("cutover is no object")
    return {str(topic): tuple(int(offset) for offset in offsets) for topic, offsets in cutover.items()}


def read(path: Path) -> Pointer:
    """Raises FileNotFoundError, UsageError."""
    return decode(path.read_bytes(), path.name)


def write_atomic(path: Path, pointer: Pointer) -> None:
    """Replaces the pointer in one step; what a reader sees afterwards is on disk.

    Writing the same pointer again changes nothing. Raises `PointerConflict` when the file holds this version with
    other content, or a newer one.
    """
    with _locked(path.parent) as folder:
        try:
            found = read(path)
        except FileNotFoundError:
            found = None
        if found == pointer:
            return
        if found is not None and found.version >= pointer.version:
            raise PointerConflict(
                f"{path.name} was not changed to version {pointer.version}",
                f"it holds version {found.version}, which names {found.active}",
                f"Read it again, and write version {found.version + 1} if that is still right.",
            )
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        with fresh.open("wb") as file:
            file.write(encode(pointer))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        os.fsync(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """One writer at a time in `folder`; the lock goes with its process."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


class PointerWatcher:
    """The newest pointer of a file, looked at no more often than every `interval_s` seconds. A `PointerSource`."""

    def __init__(self, path: Path, interval_s: float = 0.05) -> None:
        self._path = path
        self._interval_s = interval_s
        self._looked = float("-inf")
        self._seen: tuple[int, int, int] | None = None
        self._pointer: Pointer | None = None
        self._doubt = ""
        self._hold = HoldClock()

    def current(self) -> Pointer | None:
        """The pointer as of at most `interval_s` ago; None while there has never been one.

        A pointer that is deleted or goes back to an older version is ignored: applications stay where they are, and
        `doubt()` says why; so it is with a file that is no longer a pointer. Raises UsageError if it never was one.
        """
        return self._hold.applied(self._newest())

    def _newest(self) -> Pointer | None:
        now = time.monotonic()
        if now - self._looked < self._interval_s:
            return self._pointer
        self._looked = now
        try:
            stat = self._path.stat()
            seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if seen == self._seen:
                return self._pointer
            fresh = read(self._path)
        except FileNotFoundError:
            self._seen = None
            self._doubt = f"{self._path.name} is not there"
            return self._pointer
        except UsageError as error:
            if self._pointer is None:
                raise
            self._doubt = str(error)
            return self._pointer
        self._seen = seen
        if self._pointer is None or fresh.version >= self._pointer.version:
            self._pointer = fresh
            self._doubt = ""
        else:
            self._doubt = f"{self._path.name} went back from version {self._pointer.version} to {fresh.version}"
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
        """The first pointer; None when `stopping()` came first. Raises Unreachable after `deadline_s` seconds."""
        until = time.monotonic() + deadline_s
        while not stopping():
            if (pointer := self.current()) is not None:
                return pointer
            if time.monotonic() > until:
                raise Unreachable(
                    f"no pointer at {self._path.name}",
                    f"waited {deadline_s:g} s for it",
                    "Start the lab, then the traffic",
                )
            time.sleep(self._interval_s)
        return None

    def close(self) -> None:
        """Nothing is held open."""
