"""Pointers of applications that move together: those that have moved are neither held nor sent back."""

from dataclasses import replace
from pathlib import Path

import pytest

from drlib.client import pointer_file
from drlib.client.pointer import OPEN, Pointer
from drlib.drill.actions.applications.pointer import PointerPlace
from drlib.drill.actions.applications.pointer_places import PointerPlaces, newest_at
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.step.context import DrillContext
from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow

HERE = Pointer(3, "LEFT", "127.0.0.1:1")
THERE = Pointer(1, "RIGHT", "127.0.0.1:2", "LEFT.", {"LEFT.orders": (OPEN,)})
FLOW = Flow("LEFT", "RIGHT")


@pytest.fixture
def places(tmp_path: Path) -> PointerPlaces:
    clusters = {alias: ClusterSettings(alias, ("127.0.0.1:1",)) for alias in ("LEFT", "RIGHT")}
    context = DrillContext(clusters=clusters, flow=FLOW, run_dir=tmp_path, pointer=tmp_path / "pointer.json")
    pointer_file.write_atomic(tmp_path / "pointer.json", HERE)
    return PointerPlaces(tuple(PointerPlace(context, f"s.{name}", name) for name in ("billing", "shop")), FLOW)


def now(places: PointerPlaces) -> list[tuple[str, bool, int]]:
    return [(pointer.active, pointer.hold, pointer.version) for pointer in places.read("s")]


def test_places_are_held_released_and_moved_under_versions_that_grow(places: PointerPlaces) -> None:
    places.hold(60.0)
    assert now(places) == [("LEFT", True, 4), ("LEFT", True, 5)]
    assert [pointer.hold_limit_s for pointer in places.read("s")] == [60.0, 60.0]
    places.release()
    assert now(places) == [("LEFT", False, 6), ("LEFT", False, 7)]
    places.move(THERE)
    assert now(places) == [("RIGHT", False, 8), ("RIGHT", False, 9)]
    places.move(THERE)  # as a step that is resumed does
    assert now(places) == [("RIGHT", False, 8), ("RIGHT", False, 9)]
    assert [dict(pointer.cutover) for pointer in places.read("s")] == [dict(THERE.cutover)] * 2


def test_place_that_has_moved_is_not_held_with_the_others(places: PointerPlaces) -> None:
    PointerPlaces(places.places[:1], FLOW).move(THERE)
    places.hold(60.0)
    assert now(places) == [("RIGHT", False, 4), ("LEFT", True, 5)]
    places.release()
    assert now(places) == [("RIGHT", False, 4), ("LEFT", False, 6)]


def test_hold_of_others_is_not_released(places: PointerPlaces, tmp_path: Path) -> None:
    """Of an emergency that has superseded the run, while its step ends, or of a person."""
    places.hold(60.0)
    of_all = tmp_path / "pointer.json"
    pointer_file.write_atomic(of_all, replace(HERE, version=9, hold=True))  # the fence of an emergency
    places.release()
    assert now(places) == [("LEFT", True, 9), ("LEFT", True, 9)]


def test_changes_are_of_the_places_that_have_not_moved(places: PointerPlaces) -> None:
    billing, shop = (f"active cluster of {name}, as pointer.json says" for name in ("billing", "shop"))
    assert places.observe() == (Fact(billing, "LEFT"), Fact(shop, "LEFT"))
    assert places.changes((Fact(billing, "RIGHT"), Fact(shop, None))) == (Change(shop, None, "RIGHT"),)
    with pytest.raises(UsageError, match="the pointer names THIRD"):
        places.changes((Fact(billing, "LEFT"), Fact(shop, "THIRD")))


def test_place_without_a_pointer_is_refused(places: PointerPlaces, tmp_path: Path) -> None:
    (tmp_path / "pointer.json").unlink()
    with pytest.raises(UsageError, match="no pointer that applications follow"):
        places.read("s")


def test_newest_at_a_cluster_is_the_one_written_last_there() -> None:
    later = Pointer(7, "RIGHT", "127.0.0.1:2")
    assert newest_at("RIGHT", [HERE, THERE, later, None]) == later
    assert newest_at("THIRD", [HERE, None]) is None
