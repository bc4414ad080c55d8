"""Damage to the log files of a broker, as disks, unclean elections and old backups cause it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from drlib.lab.lab import Lab


def log_of(lab: Lab, alias: str, topic: str) -> Path:
    """The one segment of partition 0 at the first broker of `alias`."""
    (segment,) = (lab.root / f"{alias}-1" / "data" / f"{topic}-0").glob("*.log")
    return segment


def patch_batch(segment: Path, number: int, change: Callable[[bytearray], None]) -> None:
    """Change the bytes of the `number`-th batch of a segment."""
    data = segment.read_bytes()
    at = _start_of(data, number)
    batch = bytearray(data[at : at + 12 + struct.unpack_from(">i", data, at + 8)[0]])
    change(batch)
    with segment.open("r+b") as file:  # in place: the broker may be running
        file.seek(at)
        file.write(batch)


def rewrite(segment: Path, data: bytes) -> None:
    """Put back what a segment held; the broker may be running."""
    with segment.open("r+b") as file:
        file.write(data)


def cut_at_offset(segment: Path, offset: int) -> None:
    """End the log of a broker that is down before the batch that holds `offset`, as if the rest was never written."""
    data = segment.read_bytes()
    at = 0
    while at < len(data):
        base, length = struct.unpack_from(">qi", data, at)
        (last_delta,) = struct.unpack_from(">i", data, at + 23)
        if base + last_delta >= offset:
            break
        at += 12 + length
    with segment.open("r+b") as file:
        file.truncate(at)
    for index in (
        *segment.parent.glob("*.index"),
        *segment.parent.glob("*.timeindex"),
        *segment.parent.glob("*.snapshot"),
    ):
        index.unlink()


def _start_of(data: bytes, number: int) -> int:
    at = 0
    for _ in range(number):
        at += 12 + int(struct.unpack_from(">i", data, at + 8)[0])
    return at
