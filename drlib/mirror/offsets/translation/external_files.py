"""Files in which applications keep their offsets: a JSON file, or the checkpoint folder of a Structured Streaming query.

Rules: nothing is written, locked or renamed, so the application may be running; then what was read is already old when it is
said, and the notices say so. What the text means is `drlib.mirror.offsets.translation.external_formats`. Not for:
checkpoints on an object store
or HDFS, whose folders `offsets` and `commits` are copied here first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from drlib.errors import UsageError
from drlib.mirror.offsets.translation.external_formats import KeptOffsets, checkpoint_position, parse
from drlib.model import TopicPartition


def read_offsets(path: Path) -> KeptOffsets:
    """What `path` holds. Raises `UsageError` when it is neither."""
    try:
        return _checkpoint(path) if path.is_dir() else parse(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", str(error), "Name a JSON file or a checkpoint folder.") from None


@dataclass(frozen=True, slots=True)
class Committed:
    """The last committed batch of a query, and the next offset to read of each partition."""

    batch: int
    offsets: Mapping[TopicPartition, int]


def committed(folder: Path) -> Committed | None:
    """Where the query of a checkpoint stands; None when no batch was committed yet. Raises `UsageError` as above."""
    done = _batches(folder / "commits")
    if not done:
        return None
    text = (folder / "offsets" / str(done[-1])).read_text()
    kept = checkpoint_position(done[-1], text, None, stateful=False, origin=str(folder))
    return Committed(done[-1], {one.partition: one.offset for one in kept.positions})


def _checkpoint(folder: Path) -> KeptOffsets:
    offsets, commits = folder / "offsets", folder / "commits"
    if not offsets.is_dir():
        raise UsageError(
            f"{folder} is no checkpoint of Structured Streaming",
            "it has no folder 'offsets'",
            "Name the query's checkpointLocation.",
        )
    done = _batches(commits)
    planned = _batches(offsets)
    if not done:
        raise UsageError(
            f"{folder} has no position yet",
            "no batch of its query was committed, so it stands where its startingOffsets say",
            "Give those as a JSON file, or let one batch finish.",
        )
    batch = done[-1]
    following = planned[-1] if planned and planned[-1] > batch else None
    return checkpoint_position(
        batch,
        (offsets / str(batch)).read_text(),
        None if following is None else (following, (offsets / str(following)).read_text()),
        stateful=(folder / "state").is_dir(),
        origin=str(folder),
    )


def _batches(folder: Path) -> list[int]:
    """Numbers of the batches that have a file there; Spark's checksums and files in the making have other names."""
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) if folder.is_dir() else []
