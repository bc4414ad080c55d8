"""The pointer that a failover finds: of its source, of its target already, or of a cluster that is not in its flow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drlib.client import pointer_file
from drlib.client.pointer import Pointer, PointerConflict, fitted
from drlib.drill.actions.applications.fence_source import AWAY, FenceSource
from drlib.drill.actions.applications.move_pointer import MovePointer
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step.context import DrillContext
from drlib.drill.step.step_output import read_part
from drlib.errors import Deviated
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.ports import free_ports
from drlib.model import Flow
from drlib.runs.abort import Abort
from drlib.runs.check import Verdict

HERE = Pointer(3, "LEFT", "127.0.0.1:1")


@pytest.fixture
def place(tmp_path: Path) -> DrillContext:
    names = ("LEFT", "RIGHT", "THIRD")
    clusters = {a: ClusterSettings(a, (f"127.0.0.1:{p}",)) for a, p in zip(names, free_ports(3), strict=True)}
    return DrillContext(
        clusters=clusters, flow=Flow("LEFT", "RIGHT"), run_dir=tmp_path, pointer=tmp_path / "pointer.json"
    )


def names(place: DrillContext, active: str) -> Pointer:
    assert place.pointer is not None
    pointer = replace(HERE, active=active)
    pointer_file.write_atomic(place.pointer, pointer)
    return pointer


def test_move_pointer_of_a_third_cluster_is_left_and_said(place: DrillContext, tmp_path: Path) -> None:
    move, pointer = MovePointer().bind(place, "move"), names(place, "THIRD")
    assert move.changes([Fact(move.pointer.entity, "THIRD")]) == ()
    evidence = move.act((), Abort(tmp_path))
    assert evidence["active"] == "THIRD"
    assert "THIRD, which is no cluster of LEFT->RIGHT" in str(evidence["left"])
    assert move.pointer.read().pointer == pointer


def test_move_pointer_that_went_to_a_third_cluster_since_the_plan_is_a_conflict(
    place: DrillContext, tmp_path: Path
) -> None:
    move = MovePointer().bind(place, "move")
    planned = [Change(move.pointer.entity, "LEFT", "RIGHT")]
    names(place, "THIRD")
    with pytest.raises(PointerConflict, match="THIRD"):
        move.act(planned, Abort(tmp_path))


def test_move_pointer_that_another_run_moved_since_the_plan_is_kept(place: DrillContext, tmp_path: Path) -> None:
    move = MovePointer().bind(place, "move")
    (planned,) = move.changes([Fact(move.pointer.entity, None)])
    assert move.settled(planned) == ("RIGHT",)
    pointer = names(place, "RIGHT")
    assert move.act((planned,), Abort(tmp_path))["active"] == "RIGHT"
    assert move.pointer.read().pointer == pointer


def test_pointer_of_all_moves_no_application_of_another_source_in_a_file(place: DrillContext, tmp_path: Path) -> None:
    """One of THIRD, one that THIRD's failover brought to RIGHT, and one of LEFT's own."""
    names(place, "LEFT")
    common = place.pointer
    assert common is not None
    own = {
        "third": Pointer(5, "THIRD", "t:1"),
        "came": Pointer(4, "RIGHT", "r:1", "THIRD.", {"THIRD.orders": (7,)}),
        "ours": Pointer(6, "LEFT", "127.0.0.1:1"),
    }
    for name, pointer in own.items():
        pointer_file.write_atomic(pointer_file.own_file(common, name), pointer)
    properties = tmp_path / "mm2.properties"
    properties.write_text(
        "clusters = LEFT, RIGHT, THIRD\nLEFT.bootstrap.servers = l:1\nRIGHT.bootstrap.servers = r:1\n"
        "THIRD.bootstrap.servers = t:1\nLEFT->RIGHT.enabled = true\nTHIRD->RIGHT.enabled = true\n"
    )
    everyone = MovePointer().bind(replace(place, properties=properties), "move").pointer
    moved = Pointer(everyone.read().next_version, "RIGHT", "r:1", "LEFT.")
    for before in (HERE, moved):  # and once more, as a run that is resumed does
        everyone.write(before, moved)
        stored = {name: pointer_file.read(pointer_file.own_file(common, name)) for name in own}
        assert pointer_file.read(common) == moved
        assert stored["ours"] == moved
        for name in ("third", "came"):
            assert stored[name] == replace(own[name], version=stored[name].version)
            assert stored[name].version > moved.version


@pytest.mark.parametrize(("active", "planned"), [("LEFT", "write"), ("RIGHT", AWAY), ("THIRD", "at THIRD")])
def test_fence_holds_only_those_that_follow_the_pointer_at_the_source(
    place: DrillContext, tmp_path: Path, active: str, planned: str
) -> None:
    fence, pointer = FenceSource().bind(place, "fence"), names(place, active)
    observed = fence.observe()
    assert observed == (Fact(fence.entity, planned),)
    changes = fence.changes(observed)
    fence.act(changes, Abort(tmp_path))
    held = fence.pointer.read().pointer
    assert held is not None
    assert held.hold is (active == "LEFT")
    assert held.hold or held == pointer
    assert [fence.settled(change) for change in changes] == [(AWAY,)] * (active == "LEFT")


class OfManyPartitions(MovePointer):
    def _after(self, version: int) -> Pointer:
        return Pointer(version, "RIGHT", "127.0.0.1:2", "LEFT.", {f"LEFT.{n}": (1,) * 1000 for n in range(500)})


def test_move_of_more_partitions_than_a_record_takes_leaves_their_ends_out_and_says_so(
    place: DrillContext, tmp_path: Path
) -> None:
    """The process that wrote it was killed; the one that continues says it, too."""
    move, before = OfManyPartitions().bind(place, "move"), names(place, "LEFT")
    after, why = fitted(move._after(4))
    move.pointer.write(before, after)
    move.act((), Abort(tmp_path))
    (check,) = read_part(tmp_path, "move").checks
    assert (check.name, check.verdict, check.evidence) == (
        "the pointer has the ends of mirror topics",
        Verdict.CONDITIONS,
        why,
    )
    assert "the ends of 500000 partitions are too large for a record" in why


def test_steps_whose_undo_was_killed_before_its_line_know_how_far_it_came(place: DrillContext) -> None:
    """An undo writes the pointer of before under a newer version: it is not unknown, which would end each rollback there."""
    held, moved = replace(names(place, "LEFT"), version=4, hold=True), replace(HERE, version=5, active="RIGHT")
    fence, move = FenceSource().bind(place, "fence"), MovePointer().bind(place, "move")
    fence.pointer.write(HERE, held)
    move.pointer.write(held, moved)
    move.undo(())
    assert (move.probe(()), fence.probe(())) == (Reach.UNTOUCHED, Reach.PARTLY)
    fence.undo(())
    assert fence.probe(()) is Reach.UNTOUCHED
    assert place.pointer is not None
    pointer_file.write_atomic(place.pointer, replace(HERE, version=9, active="THIRD"))
    assert fence.probe(()) is Reach.UNKNOWN


def test_steps_that_were_killed_go_on_where_a_person_has_moved_the_pointer_meanwhile(place: DrillContext) -> None:
    """Both leave it as it is: unknown would end each attempt to continue the run."""
    held, by_hand = replace(names(place, "LEFT"), version=4, hold=True), replace(HERE, version=9, active="RIGHT")
    fence, move = FenceSource().bind(place, "fence"), MovePointer().bind(place, "move")
    fence.pointer.write(HERE, held)
    move.pointer.write(held, replace(by_hand, version=5, cutover={"LEFT.orders": (7,)}))
    assert place.pointer is not None
    pointer_file.write_atomic(place.pointer, by_hand)
    assert (move.probe(()), fence.probe(())) == (Reach.PARTLY, Reach.PARTLY)
    with pytest.raises(Deviated, match="another client changed it"):
        move.undo(())
    assert pointer_file.read(place.pointer) == by_hand
