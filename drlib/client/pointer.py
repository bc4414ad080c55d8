"""The active-cluster pointer, as a value and as bytes: which cluster the applications use.

Rules: versions only grow: a writer with a version that is taken is refused, and a reader ignores versions older than one it has
seen. `cutover` is the position where each remote topic ends for the applications: they read it up to there, then the local
topic of the same name; `OPEN` for a topic whose producers move later. `hold` asks producers to flush and wait, and consumers
to commit and leave their groups (a planned move drains first); after `hold_limit_s` seconds they continue where they are
(`drlib.client.pointer_hold`).
Not for: deciding to move; storing it (`drlib.client.pointer_file`, `drlib.client.pointer_topic`).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.errors import DrlibError, UsageError
from drlib.runs.table import Table

POINTER_NAME = "pointer.json"
MOST_BYTES: Final = 1 << 20  # that are read
MOST_WRITTEN: Final = 900_000  # below what librdkafka (1,000,000 with key and headers) and brokers take by default
_ROOM: Final = 10_000  # for what is not known before it is written: the version, who wrote it
OPEN: Final = (1 << 53) - 1  # a cutover beyond every log: the greatest whole number that JSON's readers agree on


class PointerConflict(DrlibError):
    """Another writer was first, or two clusters hold different pointers with one version."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """`bootstrap` is of the active cluster; `remote_prefix` (`LEFT.`) names the topics mirrored to it, None if none are
    to be read; `cutover[remote topic][partition]` is the position at which reading the remote topic is finished.
    A `hold` lasts `hold_limit_s` seconds and no longer; 0: without a limit. `by` is the run or the command that wrote it."""

    version: int
    active: str
    bootstrap: str
    remote_prefix: str | None = None
    cutover: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    hold: bool = False
    hold_limit_s: float = 0.0
    by: str = field(default="", compare=False)

    def elsewhere(self, was: "Pointer") -> bool:
        """Whether it names another cluster than `was`."""
        return self.bootstrap != was.bootstrap

    def remote_topic(self, topic: str) -> str | None:
        """The mirror topic of `topic` on the active cluster; None when there is no remote topic to read."""
        return None if self.remote_prefix is None else f"{self.remote_prefix}{topic}"


class PointerSource(Protocol):
    """Where an application reads the pointer: a file, or a topic on every cluster."""

    def current(self) -> Pointer | None:
        """The newest pointer known; None if there has never been one. Never returns to an older version."""

    def doubt(self) -> str:
        """Why `current()` may not be the newest pointer; empty if there is no reason to doubt it."""

    def settled(self) -> bool:
        """Whether every place that may have a newer pointer has been asked."""

    def wait_newer(self, version: int, timeout_s: float) -> Pointer | None:
        """The first pointer newer than `version` within `timeout_s` seconds, else None."""

    def close(self) -> None: ...


def looked(source: PointerSource) -> tuple[Pointer | None, str]:
    """What a source says now, and its doubt; no pointer where there is no valid one yet, and why."""
    try:
        return source.current(), source.doubt()
    except DrlibError as error:
        return None, str(error)


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
            f"there are two pointers with version {best.version}",
            f"one names {best.active}, the other {rival.active}: two writers could not see each other",
            f"Decide which is right: drlib pointer move FILE CLUSTER; it becomes version {best.version + 1}.",
        )
    return best


Stays = Callable[[Pointer], bool]
"""Whether applications with this pointer of their own are left where they are when the others are moved."""


def staying(own: Iterable[tuple[str, Pointer]], common: int, above: int, stays: Stays) -> dict[str, Pointer]:
    """By application: its own pointer, above version `above` of a new pointer of all, which does not replace it then.

    `own`: every copy of such pointers; `common`: the version of the newest pointer of all so far, which replaced older ones.
    """
    found: dict[str, Pointer] = {}
    for name, pointer in own:
        if name not in found or found[name].version < pointer.version:
            found[name] = pointer
    kept = {name: found[name] for name in sorted(found) if found[name].version > common and stays(found[name])}
    version = max((each.version for each in kept.values()), default=0)
    for name, pointer in kept.items():
        if pointer.version <= above:
            version = max(version, above) + 1
            kept[name] = replace(pointer, version=version)
    return kept


def document(pointer: Pointer) -> dict[str, object]:
    """The fields of the pointer as the format has them."""
    return {
        "version": pointer.version,
        "active": pointer.active,
        "bootstrap": pointer.bootstrap,
        "remote_prefix": pointer.remote_prefix,
        "cutover": {topic: list(offsets) for topic, offsets in pointer.cutover.items()},
        "hold": pointer.hold,
        **({"hold_limit_s": pointer.hold_limit_s} if pointer.hold_limit_s else {}),
        **({"by": pointer.by} if pointer.by else {}),
    }


def compact(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def encode(pointer: Pointer) -> bytes:
    """Raises `UsageError` for a pointer that is too large for a record: it is never written where no reader takes it."""
    content = compact(document(pointer))
    if len(content) > MOST_WRITTEN:
        raise UsageError(
            f"version {pointer.version} of the pointer ({pointer.active}) was not written",
            f"it has {len(content)} bytes with {_ends_in_words(pointer)}, and at most {MOST_WRITTEN} can be written",
            "Leave the ends out: cutover: false in the step; they only say in which order topics are read.",
        )
    return content


def fitted(pointer: Pointer) -> tuple[Pointer, str]:
    """A pointer that can be written: without its cutover where that makes it too large; and why, empty where it has it.

    A move does not fail for that: most applications do without the ends, and `drlib.OrderedConsumer` says that it has none.
    """
    if not pointer.cutover or len(compact(document(pointer))) <= MOST_WRITTEN - _ROOM:
        return pointer, ""
    why = f"it does not say where mirror topics end, as {_ends_in_words(pointer)} are too large for a record"
    return replace(
        pointer, cutover={}
    ), f"{why}: drlib.OrderedConsumer refuses it, others read old and new records together"


def _ends_in_words(pointer: Pointer) -> str:
    return f"the ends of {sum(map(len, pointer.cutover.values()))} partitions"


def decode(content: bytes, name: str = POINTER_NAME) -> Pointer:
    """Parse a pointer. Raises `UsageError` when `content` is not one; `name` says where it is stored."""
    try:
        match decoding.json_value(content, most_bytes=MOST_BYTES):
            case {"version": int(version), "active": str(active), "bootstrap": str(bootstrap), **rest}:
                prefix, hold, limit = rest.get("remote_prefix"), rest.get("hold", False), rest.get("hold_limit_s", 0.0)
                by = rest.get("by", "")
                if (
                    not isinstance(version, bool)
                    and version >= 0
                    and (prefix is None or isinstance(prefix, str))
                    and isinstance(hold, bool)
                    and isinstance(limit, int | float)
                    and not isinstance(limit, bool)
                    and limit >= 0
                    and isinstance(by, str)
                ):
                    ends = _ends(rest.get("cutover"))
                    return Pointer(version, active, bootstrap, prefix, ends, hold, float(limit), by)
        why = "it needs version, active and bootstrap, and cutover as lists of offsets"
    except Undecodable as error:
        why = str(error)
    raise UsageError(
        f"{name} is not a pointer",
        why,
        "Write a new one: drlib pointer move FILE CLUSTER.",
    )


def _ends(cutover: object) -> dict[str, tuple[int, ...]]:
    if cutover is None:
        return {}
    if not isinstance(cutover, dict):
        raise Undecodable("cutover is not an object")
    for offsets in cutover.values():
        if not isinstance(offsets, list) or not all(type(offset) is int and offset >= 0 for offset in offsets):
            raise Undecodable("cutover is not lists of offsets")
    return {topic: tuple(offsets) for topic, offsets in cutover.items()}


def shown(pointer: Pointer, where: Iterable[str], missing: Mapping[str, DrlibError]) -> Table:
    """A pointer that was published to the places `where`, and why not to those `missing`, as a table."""
    ends = "; ".join(f"{topic}: {', '.join(map(str, offsets))}" for topic, offsets in sorted(pointer.cutover.items()))
    rows = [
        {"what": "active cluster", "value": f"{pointer.active}, at {pointer.bootstrap}"},
        {"what": "mirror topics begin with", "value": pointer.remote_prefix or ""},
        {"what": "they are read first, up to", "value": ends},
        {"what": "applications", "value": "wait until it is published without hold" if pointer.hold else ""},
        {"what": "written to", "value": ", ".join(where)},
        *({"what": f"not written to {alias}", "value": str(why)} for alias, why in sorted(missing.items())),
    ]
    return Table(f"Pointer {pointer.version}: applications use {pointer.active}", [row for row in rows if row["value"]])
