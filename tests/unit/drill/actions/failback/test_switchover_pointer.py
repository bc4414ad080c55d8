"""A planned move needs a pointer that applications follow: without one it holds none of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failback.switchover import MoveApplications
from drlib.drill.step.context import DrillContext
from drlib.errors import UsageError
from drlib.model import Flow

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
