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

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from drlib.errors import DrlibError, UsageError

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
        "Write it with drlib.client.pointer_file.write_atomic, or publish it with drlib.client.pointer_topic.publish.",
    )


def _ends(cutover: object) -> dict[str, tuple[int, ...]]:
    if cutover is None:
        return {}
    if not isinstance(cutover, dict):
        raise ValueError("cutover is no object")
    return {str(topic): tuple(int(offset) for offset in offsets) for topic, offsets in cutover.items()}
