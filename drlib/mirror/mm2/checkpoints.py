"""When a group's translated position is written as a checkpoint.

Rules: a checkpoint is written when there was none before, when the group was reset to a lower source offset, or when its
target position moved forward; not when it repeats or would only lower the target position. Source:
`MirrorCheckpointTask.checkpointIsMoreRecent`.
Not for: translating positions, nor for writing positions into groups on the target.
"""

from __future__ import annotations

from collections.abc import Iterable

from drlib.mirror.mm2.records import Checkpoint
from drlib.model import TopicPartition


def should_emit(checkpoint: Checkpoint, last: Checkpoint | None) -> bool:
    """Should `checkpoint` be written after `last`, the newest one of the same group and partition?"""
    if checkpoint.offset < 0:
        return False  # MirrorMaker 2's -1: older than anything that can be translated
    if last is None:
        return True
    return checkpoint.upstream_offset < last.upstream_offset or checkpoint.offset > last.offset


class CheckpointStore:
    """The newest checkpoint of each group and partition, as the compacted checkpoints topic holds it."""

    def __init__(self, known: Iterable[Checkpoint] = ()) -> None:
        self._newest: dict[tuple[str, TopicPartition], Checkpoint] = {}
        for checkpoint in known:
            self.written(checkpoint)

    def to_emit(self, candidates: Iterable[Checkpoint]) -> tuple[Checkpoint, ...]:
        """The `candidates` to write. Call `written` for each once it is acknowledged."""
        return tuple(
            candidate
            for candidate in candidates
            if should_emit(candidate, self._newest.get((candidate.group, candidate.partition)))
        )

    def written(self, checkpoint: Checkpoint) -> None:
        self._newest[checkpoint.group, checkpoint.partition] = checkpoint

    def newest(self, group: str, partition: TopicPartition) -> Checkpoint | None:
        return self._newest.get((group, partition))
