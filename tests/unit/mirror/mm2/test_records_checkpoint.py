"""When MirrorMaker 2 emits a checkpoint (MirrorCheckpointTask.checkpointIsMoreRecent)."""

import pytest

from drlib.mirror.mm2.records import Checkpoint
from drlib.model import TopicPartition

TP = TopicPartition("A.t", 0)


def checkpoint(up: int, down: int, group: str = "g") -> Checkpoint:
    return Checkpoint(group, TP, up, down)


@pytest.mark.parametrize(
    ("up", "down", "emitted", "rule"),
    [
        (100, 200, False, "repeated"),
        (101, 200, False, "the group moved but its translation did not"),
        (101, 201, True, "the translation advanced"),
        (100, 201, True, "the translation became better"),
        (101, 199, False, "would only rewind the target"),
        (99, 199, True, "the group went back on the source"),
        (99, 200, True, "the group went back within one translation"),
        (99, -1, False, "not translatable"),
    ],
)
def test_checkpoint_follows_after_a_checkpoint_of_100_at_200(up: int, down: int, emitted: bool, rule: str) -> None:
    assert checkpoint(up, down).follows(checkpoint(100, 200)) is emitted, rule


def test_checkpoint_follows_first_translatable_checkpoint() -> None:
    assert checkpoint(5, 0).follows(None)
    assert not checkpoint(5, -1).follows(None)
