"""A producer of the lab stands still when it says so: held, of this pointer, and nothing in flight."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drlib.client.pointer import POINTER_NAME
from drlib.drill.actions.applications.held_producers import still_sending
from drlib.drill.step.context import DrillContext
from drlib.lab.apps.process import StatusFile
from drlib.lab.lab import Lab
from drlib.model import Flow


@pytest.fixture
def place(tmp_path: Path) -> Iterator[DrillContext]:
    lab = Lab(tmp_path)
    lab.registry.start(
        "flights",
        [sys.executable, "-c", "import signal; signal.pause()"],
        log=tmp_path / "flights.log",
        die_with_parent=True,
    )
    yield DrillContext(
        clusters={}, flow=Flow("LEFT", "RIGHT"), run_dir=tmp_path / "run", lab=lab, pointer=tmp_path / POINTER_NAME
    )
    lab.registry.stop("flights")


def says(place: DrillContext, phase: str, version: int, in_flight: int = 0, name: str = "flights") -> None:
    assert place.lab is not None
    path = place.lab.root / f"{name}.status.json"
    StatusFile(name, str(path)).report(phase, "LEFT", version, 100, in_flight)


def test_still_sending_running_producer_has_not_seen_the_hold(place: DrillContext) -> None:
    says(place, "running", 6)
    assert still_sending(place, 7) == "flights has not seen the hold yet"
    says(place, "holding", 6)
    assert still_sending(place, 7) == "flights has not seen the hold yet"
    says(place, "holding", 7, in_flight=5)
    assert still_sending(place, 7) == "flights waits for the answer to 5 records"
    says(place, "holding", 7)
    assert still_sending(place, 7) == ""


def test_still_sending_absent_producer_is_not_waited_for(place: DrillContext, tmp_path: Path) -> None:
    says(place, "holding", 7)
    says(place, "running", 6, name="flights-tx")  # its process has ended
    assert still_sending(place, 7) == ""
    says(place, "stopped", 6)
    assert still_sending(place, 7) == ""
    says(place, "running", 6)
    elsewhere = DrillContext(clusters={}, flow=place.flow, run_dir=tmp_path, lab=place.lab, pointer=tmp_path / "other")
    assert still_sending(elsewhere, 7) == ""
    assert still_sending(DrillContext(clusters={}, flow=place.flow, run_dir=tmp_path), 7) == ""


def test_producer_status_change_that_matters_to_a_hold_is_written_at_once(tmp_path: Path) -> None:
    file = StatusFile("flights", str(tmp_path / "status"))
    told = []
    for phase, version, in_flight in (("running", 6, 9), ("holding", 7, 9), ("holding", 7, 4), ("holding", 7, 0)):
        file.report(phase, "LEFT", version, 100, in_flight)
        told.append((tmp_path / "status").read_text().count(f'"in_flight": {in_flight}'))
    assert told == [1, 1, 0, 1]  # 9 to 4 tells nothing new, and waits
