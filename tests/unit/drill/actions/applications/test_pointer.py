"""What steps do to the pointer's file is put back in the reverse order, whatever versions came in between."""

from dataclasses import replace
from pathlib import Path

import pytest

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.drill.actions.applications.pointer import PointerPlace, of_flow
from drlib.drill.plan.progress import Reach
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


def test_pointer_reach_is_known_after_a_kill_at_any_point_of_the_undos(place: DrillContext) -> None:
    """A kill between an undo and its line in the journal leaves the pointer of before under a newer version."""
    assert place.pointer is not None
    pointer_file.write_atomic(place.pointer, HERE)
    fence, move = PointerPlace(place, "fence"), PointerPlace(place, "move")
    assert fence.reach() is Reach.UNTOUCHED
    fence.write(HERE, HELD)
    move.write(HELD, THERE)
    assert (move.reach(), fence.reach()) == (Reach.PARTLY, Reach.UNKNOWN)
    move.put_back()
    assert (move.reach(), fence.reach()) == (Reach.UNTOUCHED, Reach.PARTLY)
    fence.put_back()
    assert fence.reach() is Reach.UNTOUCHED
    pointer_file.write_atomic(place.pointer, Pointer(9, "THIRD", "127.0.0.1:3"))
    assert fence.reach() is Reach.UNKNOWN


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
    assert move.reach() is Reach.PARTLY
    move.put_back()
    assert (place.pointer.exists(), move.reach()) == (False, Reach.UNTOUCHED)


def test_pointer_of_one_application_is_a_file_beside_and_versions_are_one_sequence(place: DrillContext) -> None:
    assert place.pointer is not None
    pointer_file.write_atomic(place.pointer, HERE)
    billing, everyone = PointerPlace(place, "move", "billing"), PointerPlace(place, "fence")
    own = place.pointer.with_name("pointer.billing.json")
    assert (billing.file, billing.read().pointer, own.exists()) == (own, HERE, False)
    assert billing.entity == "active cluster of billing, as pointer.json says"
    billing.write(HERE, replace(THERE, version=billing.read().next_version))
    assert (pointer_file.read(own).active, pointer_file.read(place.pointer)) == ("RIGHT", HERE)
    assert everyone.read().pointer == HERE
    assert everyone.read().next_version == 5
    everyone.write(HERE, replace(HELD, version=5))  # all applications: also those that were moved alone
    assert pointer_file.read(own) == pointer_file.read(place.pointer) == replace(HELD, version=5)
    with pytest.raises(Deviated, match="LEFT \\(version 5, producers held\\)"):
        billing.put_back()
    everyone.put_back()
    assert pointer_file.read(own) == pointer_file.read(place.pointer) == replace(HERE, version=6)


def test_pointer_of_one_application_is_put_back_alone(place: DrillContext) -> None:
    assert place.pointer is not None
    pointer_file.write_atomic(place.pointer, HERE)
    billing = PointerPlace(place, "move", "billing")
    billing.write(HERE, replace(THERE, version=4))
    billing.put_back()
    assert pointer_file.read(place.pointer.with_name("pointer.billing.json")) == replace(HERE, version=5)
    assert pointer_file.read(place.pointer) == HERE


@pytest.mark.parametrize(
    ("active", "prefix", "planned", "emergency"),
    [
        ("LEFT", None, True, True),
        ("LEFT", "RIGHT.", True, True),
        ("LEFT", "THIRD.", False, True),  # it came from THIRD; LEFT is lost, and nothing is served there any more
        ("RIGHT", "LEFT.", True, True),
        ("RIGHT", "THIRD.", False, False),
        ("THIRD", None, False, False),
        ("THIRD", "LEFT.", False, False),
    ],
)
def test_flow_moves_its_own_applications_and_from_a_lost_source_all(
    active: str, prefix: str | None, planned: bool, emergency: bool
) -> None:
    own = Pointer(3, active, "127.0.0.1:1", prefix)
    flow, prefixes = Flow("LEFT", "RIGHT"), ("LEFT.", "RIGHT.")
    assert of_flow(own, flow, prefixes) is planned
    assert of_flow(own, flow, prefixes, lost=True) is emergency
