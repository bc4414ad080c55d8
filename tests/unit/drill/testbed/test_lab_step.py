"""What the lab's drills plan and refuse, and which flows make a mesh: pure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.scenarios.active.measurements import Revive
from drlib.drill.step.context import DrillContext
from drlib.drill.testbed.lab_step import appear, refuse_present
from drlib.errors import UsageError
from drlib.lab.lab import Lab
from drlib.lab.workload.mirrors import flows_among, flows_with
from drlib.model import Flow

OBSERVED = (
    Fact("ID of cluster LEFT", "abc"),
    Fact("process orders-producer", None),
    Fact("process orders-mirror", "runs"),
    Fact("topic orders on LEFT", None),
    Fact("topic LEFT.orders on RIGHT", "there"),
)


def at_lab(place: DrillContext) -> Revive:
    lab = Lab(place.run_dir / "lab")
    return Revive(topic="orders", cluster="LEFT").bind(replace(place, lab=lab), "kill")


def test_only_what_is_not_there_will_appear_so_an_undo_takes_away_nothing_of_others() -> None:
    assert appear(OBSERVED) == (
        Change("process orders-producer", None, "runs"),
        Change("topic orders on LEFT", None, "there"),
    )


def test_a_topic_with_records_of_somebody_else_is_refused_by_name() -> None:
    refuse_present(OBSERVED, [("LEFT", "orders")])
    with pytest.raises(UsageError, match=r"topic LEFT\.orders on RIGHT is there already"):
        refuse_present(OBSERVED, [("LEFT", "orders"), ("RIGHT", "LEFT.orders")])


def test_a_moment_is_the_first_one_whoever_asks_again(tmp_path: Path) -> None:
    place = DrillContext(clusters={}, flow=Flow("LEFT", "RIGHT"), run_dir=tmp_path)
    first = at_lab(place).moment_ms("fault")
    assert at_lab(place).moment_ms("fault") == first  # a process that takes the step up makes a step of its own
    assert [path.name for path in (tmp_path / "moments").iterdir()] == ["kill-fault"]


def test_a_step_of_the_lab_says_so_where_there_is_none_and_is_never_called_done_unmeasured(tmp_path: Path) -> None:
    place = DrillContext(clusters={}, flow=Flow("LEFT", "RIGHT"), run_dir=tmp_path)
    with pytest.raises(UsageError, match="it is for a lab's clusters only"):
        Revive(topic="orders", cluster="LEFT").bind(place, "kill")
    assert at_lab(place).probe(()) is Reach.PARTLY


def test_a_mesh_has_every_direction_and_a_newcomer_only_its_own() -> None:
    assert len(set(flows_among(["A", "B", "C"]))) == 6
    assert set(flows_with("C", ["A", "B"])) == set(flows_among(["A", "B", "C"])) - set(flows_among(["A", "B"]))
