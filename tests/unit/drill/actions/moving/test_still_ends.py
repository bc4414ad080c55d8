"""Log ends that are kept in a run's folder."""

from __future__ import annotations

from pathlib import Path

from drlib.drill.actions.moving import still_ends
from drlib.model import TopicPartition


def test_still_ends_are_read_as_they_were_kept_by_step(tmp_path: Path) -> None:
    ends = {TopicPartition("orders", 1): 7, TopicPartition("orders", 0): 0}
    assert still_ends.read(tmp_path, "go-home") == {}
    still_ends.keep(tmp_path, "go-home", ends)
    assert still_ends.read(tmp_path, "go-home") == ends
    assert still_ends.read(tmp_path, "other") == {}
