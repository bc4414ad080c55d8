"""What a fence takes back where the source that it fenced does not answer any more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.drill.actions.applications.deny_rules import ANY_PRINCIPAL
from drlib.drill.actions.applications.deny_writes import row_of
from drlib.drill.actions.applications.fence_source import FenceSource
from drlib.drill.plan.plan import Call
from drlib.drill.run.registry import make_action
from drlib.drill.step import step_output
from drlib.drill.step.context import DrillContext
from drlib.errors import Unreachable
from drlib.kafka.protocol.acls import Operation, Permission, TopicAcl
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow

FLOW = Flow("west", "east")


def test_undo_lets_held_applications_continue_although_denials_cannot_be_removed(tmp_path: Path) -> None:
    place = DrillContext(
        clusters={alias: ClusterSettings(alias, ("127.0.0.1:1",)) for alias in (FLOW.source, FLOW.target)},
        flow=FLOW,
        run_dir=tmp_path,
        pointer=tmp_path / "pointer.json",
    )
    fence = make_action(Call("source.fence", ()), place, "fence")
    assert isinstance(fence, FenceSource)
    before = Pointer(1, FLOW.source, "127.0.0.1:1")
    pointer_file.write_atomic(tmp_path / "pointer.json", before)
    fence.pointer.write(before, replace(before, version=2, hold=True))
    rule = row_of(TopicAcl("orders", ANY_PRINCIPAL, "*", Operation.WRITE, Permission.DENY))
    step_output.write_rows(tmp_path, f"write-rules.{FLOW.source}", [{"cluster_id": "its-id", **rule}])
    for _ in range(2):
        with pytest.raises(Unreachable):
            fence.undo(())
        assert pointer_file.read(tmp_path / "pointer.json") == replace(before, version=3)
    assert len(fence.rules.kept()) == 1
