"""Read files in which applications keep their offsets: a JSON file, or the checkpoint folder of a Structured Streaming query.

Rules: nothing is written, locked or renamed, so the application may keep running; its positions may then be out of date as
soon as they are read. `drlib.mirror.offsets.translation.external_formats` parses the text.
Not for: checkpoints on an object store or HDFS; copy their folders `offsets` and `commits` to this machine first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib.errors import UsageError
from drlib.files import read_given
from drlib.mirror.offsets.translation.external_formats import ExternalOffsets, checkpoint_offsets, parse
from drlib.model import TopicPartition

_BATCH: Final = re.compile(r"[0-9]{1,18}")
_KIND: Final = "a JSON file or a checkpoint folder"


def read_offsets(path: Path) -> ExternalOffsets:
    """Read the offsets in `path`, a JSON file or a checkpoint folder. Raises `UsageError` when it is neither."""
    try:
        return _checkpoint(path) if path.is_dir() else parse(read_given(path, _KIND), str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read", str(error), "Name a JSON file or a checkpoint folder.") from None


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """The last committed batch of a query, and the next offset to read of each partition."""

    batch: int
    offsets: Mapping[TopicPartition, int]


def last_committed_batch(checkpoint: Path) -> CommittedBatch | None:
    """Read the last committed batch of a checkpoint folder; None before the first commit. Raises `UsageError`."""
    committed = _batches(checkpoint / "commits")
    if not committed:
        return None
    text = read_given(checkpoint / "offsets" / str(committed[-1]), _KIND)
    offsets = checkpoint_offsets(committed[-1], text, None, stateful=False, origin=str(checkpoint))
    return CommittedBatch(committed[-1], {position.partition: position.offset for position in offsets.positions})


def _checkpoint(folder: Path) -> ExternalOffsets:
    offsets, commits = folder / "offsets", folder / "commits"
    if not offsets.is_dir():
        raise UsageError(
            f"{folder} is no checkpoint of Structured Streaming",
            "it has no folder 'offsets'",
            "Name the query's checkpointLocation.",
        )
    committed = _batches(commits)
    planned = _batches(offsets)
    if not committed:
        raise UsageError(
            f"{folder} has no position yet",
            "no batch of its query was committed, so the query would start from its startingOffsets",
            "Give those as a JSON file, or let one batch finish.",
        )
    batch = committed[-1]
    uncommitted = planned[-1] if planned and planned[-1] > batch else None
    return checkpoint_offsets(
        batch,
        read_given(offsets / str(batch), _KIND),
        None if uncommitted is None else (uncommitted, read_given(offsets / str(uncommitted), _KIND)),
        stateful=(folder / "state").is_dir(),
        origin=str(folder),
    )


def _batches(folder: Path) -> list[int]:
    """Numbers of the batch files in `folder`, ascending; checksums and temporary files of Spark have other names."""
    return sorted(int(path.name) for path in folder.iterdir() if _BATCH.fullmatch(path.name)) if folder.is_dir() else []
