"""A planned move needs a pointer that applications follow: without one it holds none of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failback.switchover import MoveApplications
from drlib.drill.actions.moving.growth import Growth
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, UsageError
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort

FILE = """clusters = paris, lyon
paris.bootstrap.servers = 127.0.0.1:1
lyon.bootstrap.servers = 127.0.0.1:2
paris->lyon.enabled = true
"""


def test_planned_move_without_a_pointer_is_refused_before_a_run_begins(tmp_path: Path) -> None:
    """The run began, created topics, and ended with exit code 6 in the step that moves, once they were stopped."""
    file, pointer = tmp_path / "mm2.properties", tmp_path / "pointer.json"
    file.write_text(FILE)
    action = MoveApplications().bind(
        DrillContext(
            clusters=load_mirror_settings(file).clusters,
            flow=Flow("paris", "lyon"),
            run_dir=tmp_path,
            properties=file,
            pointer=pointer,
        )
    )
    with pytest.raises(UsageError, match="there is no pointer") as refused:
        action.changes(action.observe())
    assert refused.value.remedy.endswith("drlib pointer move FILE lyon"), "the move is back home, unless it is given"
    pointer_file.write_atomic(pointer, Pointer(1, "lyon", "127.0.0.1:2"))
    assert [change.after for change in action.changes(action.observe())] == ["paris"]


class Log:
    """A cluster with one log, which is `ends` long in turn; it takes its time to say so."""

    def __init__(self, *ends: int) -> None:
        self._ends = list(ends)

    def log_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        end = self._ends.pop(0)
        return dict.fromkeys(partitions, end)


@pytest.mark.parametrize(
    ("ends", "held_s", "why", "remedy"),
    [
        ((7,), 0.0, "no record was seen to arrive, but lyon answers too slowly", "See why lyon is slow"),
        (
            (7, 8, 9),
            0.15,
            "records still arrive in orders-0",
            "Check that every application honours the pointer's hold",
        ),
    ],
)
def test_move_blames_applications_only_for_records_that_were_seen_to_arrive(
    tmp_path: Path, ends: tuple[int, ...], held_s: float, why: str, remedy: str
) -> None:
    """A cluster that took all of the time to answer was reported as applications that write to all topics."""
    file, flow, orders = tmp_path / "mm2.properties", Flow("lyon", "paris"), TopicPartition("orders", 0)
    file.write_text(FILE)
    settings = load_mirror_settings(file)
    context = DrillContext(clusters=settings.clusters, flow=flow, run_dir=tmp_path, properties=file)
    move = MoveApplications(source="lyon", target="paris", held_s=held_s, quiet_s=60.0).bind(context)
    log: Any = Log(*ends, *ends[-1:] * 99)
    growth, began = Growth(settings, flow), time.monotonic() - 0.01
    with pytest.raises(Deviated, match=why) as refused:
        move._stand_still(settings, log, [orders], [orders], growth, [], [], began, Abort(tmp_path))
    assert remedy in refused.value.remedy
