"""The active-cluster pointer: one small file that says which cluster the applications use.

Rules: written by atomic rename, so a reader sees the old or the new one and never half; the version only grows;
readers look every 50 ms. `cutover` is where each remote topic ends for the applications: they read it up to there,
then the local topic of the same name. `hold` asks producers to finish what is in flight and wait (a planned move
drains first).
Not for: deciding to move; that is the drill's.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from drlib.errors import Unreachable, UsageError

POINTER_NAME = "pointer.json"


@dataclass(frozen=True, slots=True)
class Pointer:
    """`bootstrap` is of the active cluster; `remote_prefix` (`LEFT.`) names the topics mirrored to it, None if none are
    to be read; `cutover[remote topic][partition]` is the position at which reading the remote topic is finished."""

    version: int
    active: str
    bootstrap: str
    remote_prefix: str | None = None
    cutover: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    hold: bool = False

    def remote_topic(self, topic: str) -> str | None:
        """The topic `topic` was mirrored into on the active cluster, or None when there is nothing remote to read."""
        return None if self.remote_prefix is None else f"{self.remote_prefix}{topic}"


def encode(pointer: Pointer) -> bytes:
    document = {
        "version": pointer.version,
        "active": pointer.active,
        "bootstrap": pointer.bootstrap,
        "remote_prefix": pointer.remote_prefix,
        "cutover": {topic: list(offsets) for topic, offsets in pointer.cutover.items()},
        "hold": pointer.hold,
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def decode(content: bytes, name: str = POINTER_NAME) -> Pointer:
    """Raises UsageError when the file is not a pointer."""
    try:
        match json.loads(content):
            case {"version": int(version), "active": str(active), "bootstrap": str(bootstrap), **rest}:
                prefix, cutover, hold = rest.get("remote_prefix"), _ends(rest.get("cutover")), rest.get("hold", False)
                if (prefix is None or isinstance(prefix, str)) and isinstance(hold, bool):
                    return Pointer(version, active, bootstrap, prefix, cutover, hold)
    except (ValueError, TypeError):
        pass
    raise UsageError(
        f"{name} is not a pointer",
        "it needs version, active and bootstrap, and cutover as lists of offsets",
        "Write it with drlib.lab.traffic.pointer.write_atomic",
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
    """Replaces the pointer in one step; what a reader sees afterwards is on disk."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with fresh.open("wb") as file:
        file.write(encode(pointer))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


class PointerWatcher:
    """The newest pointer, looked at no more often than every `interval_s` seconds."""

    def __init__(self, path: Path, interval_s: float = 0.05) -> None:
        self._path = path
        self._interval_s = interval_s
        self._looked = float("-inf")
        self._seen: tuple[int, int, int] | None = None
        self._pointer: Pointer | None = None

    def current(self) -> Pointer | None:
        """The pointer as of at most `interval_s` ago; None while there has never been one.

        A pointer that is deleted or goes back to an older version is ignored: applications stay where they are.
        """
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
            return self._pointer
        self._seen = seen
        if self._pointer is None or fresh.version >= self._pointer.version:
            self._pointer = fresh
        return self._pointer

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
