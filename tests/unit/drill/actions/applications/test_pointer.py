"""What steps do to the pointer's file is put back in the reverse order, whatever versions came in between."""

from pathlib import Path

import pytest

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.drill.actions.applications.pointer import PointerPlace
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow

HERE = Pointer(3, "LEFT", "127.0.0.1:1")
HELD = Pointer(4, "LEFT", "127.0.0.1:1", hold=True)
THERE = Pointer(5, "RIGHT", "127.0.0.1:2", "LEFT.", {"LEFT.orders": (7, 9)})


@pytest.fixture
def place(tmp_path: Path) -> DrillContext:
    clusters = {alias: ClusterSettings(alias, ("127.0.0.1:1",)) for alias in ("LEFT", "RIGHT")}
    return DrillContext(
        clusters=clusters, flow=Flow("LEFT", "RIGHT"), run_dir=tmp_path, pointer=tmp_path / "pointer.json"
    )


def test_pointer_hold_and_move_are_put_back_in_reverse_order_repeatedly(place: DrillContext) -> None:
    assert place.pointer is not None
    pointer_file.write_atomic(place.pointer, HERE)
    fence, move = PointerPlace(place, "fence"), PointerPlace(place, "move")
    fence.write(HERE, HELD)
    move.write(HELD, THERE)
    assert move.kept() is not None
    assert move.kept().after == THERE  # type: ignore[union-attr]
    move.put_back()
    move.put_back()
    assert pointer_file.read(place.pointer) == Pointer(6, "LEFT", "127.0.0.1:1", hold=True)
    fence.put_back()
    fence.put_back()
    assert pointer_file.read(place.pointer) == Pointer(7, "LEFT", "127.0.0.1:1")


def test_pointer_changed_by_others_is_left(place: DrillContext) -> None:
    assert place.pointer is not None
    pointer_file.write_atomic(place.pointer, HERE)
    move = PointerPlace(place, "move")
    move.write(HERE, THERE)
    pointer_file.write_atomic(place.pointer, Pointer(6, "THIRD", "127.0.0.1:3"))
    with pytest.raises(Deviated, match=r"THIRD \(version 6\)"):
        move.put_back()
    assert pointer_file.read(place.pointer).active == "THIRD"


def test_pointer_put_back_removes_a_file_that_did_not_exist(place: DrillContext) -> None:
    assert place.pointer is not None
    move = PointerPlace(place, "move")
    assert move.kept() is None
    move.write(None, Pointer(1, "RIGHT", "127.0.0.1:2"))
    move.put_back()
    assert not place.pointer.exists()
