"""What steps of lab drills plan and refuse: pure."""

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


def test_appear_lists_only_missing_entities() -> None:
    assert appear(OBSERVED) == (
        Change("process orders-producer", None, "runs"),
        Change("topic orders on LEFT", None, "there"),
    )


def test_refuse_present_names_the_existing_topic() -> None:
    refuse_present(OBSERVED, [("LEFT", "orders")])
    with pytest.raises(UsageError, match=r"topic LEFT\.orders on RIGHT already exists"):
        refuse_present(OBSERVED, [("LEFT", "orders"), ("RIGHT", "LEFT.orders")])


def test_record_moment_repeated_keeps_the_first(tmp_path: Path) -> None:
    place = DrillContext(clusters={}, flow=Flow("LEFT", "RIGHT"), run_dir=tmp_path)
    first = at_lab(place).moment_ms("fault")
    assert at_lab(place).moment_ms("fault") == first  # a process that takes the step up makes a step of its own
    assert [path.name for path in (tmp_path / "moments").iterdir()] == ["kill-fault"]


def test_lab_step_without_lab_is_refused_and_never_done(tmp_path: Path) -> None:
    place = DrillContext(clusters={}, flow=Flow("LEFT", "RIGHT"), run_dir=tmp_path)
    with pytest.raises(UsageError, match="it is for a lab's clusters only"):
        Revive(topic="orders", cluster="LEFT").bind(place, "kill")
    assert at_lab(place).probe(()) is Reach.PARTLY
