"""A producer of the lab stands still when it says so: held, of this pointer, and nothing in flight."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drlib.client.pointer import POINTER_NAME
from drlib.lab.apps import specs
from drlib.lab.apps.process import StatusFile
from drlib.lab.lab import Lab
from drlib.lab.workload.applications import LabApplications


@pytest.fixture
def applications(tmp_path: Path) -> Iterator[LabApplications]:
    lab = Lab(tmp_path)
    for name in ("flights", "flights-tx"):
        specs.write(tmp_path / f"{name}.spec.json", specs.ProducerSpec(str(tmp_path / POINTER_NAME), ""))
    specs.write(tmp_path / "arrivals.spec.json", specs.ConsumerSpec(str(tmp_path / POINTER_NAME), "", "arrivals"))
    lab.registry.start(
        "flights",
        [sys.executable, "-c", "import signal; signal.pause()"],
        log=tmp_path / "flights.log",
        die_with_parent=True,
    )
    yield LabApplications(lab, tmp_path / "history")
    lab.registry.stop("flights")


def says(applications: LabApplications, phase: str, version: int, in_flight: int = 0, name: str = "flights") -> None:
    StatusFile(name, str(applications.status_path(name))).report(phase, "LEFT", version, 100, in_flight)


def test_still_sending_running_producer_has_not_seen_the_hold(applications: LabApplications, tmp_path: Path) -> None:
    says(applications, "running", 6)
    assert applications.still_sending(tmp_path / POINTER_NAME, 7) == "flights has not seen the hold yet"
    says(applications, "holding", 6)
    assert applications.still_sending(tmp_path / POINTER_NAME, 7) == "flights has not seen the hold yet"
    says(applications, "holding", 7, in_flight=5)
    assert applications.still_sending(tmp_path / POINTER_NAME, 7) == "flights waits for the answer to 5 records"
    says(applications, "holding", 7)
    assert applications.still_sending(tmp_path / POINTER_NAME, 7) == ""


def test_still_sending_absent_producer_is_not_waited_for(applications: LabApplications, tmp_path: Path) -> None:
    says(applications, "holding", 7)
    says(applications, "running", 6, name="flights-tx")  # its process has ended
    assert applications.still_sending(tmp_path / POINTER_NAME, 7) == ""
    says(applications, "stopped", 6)
    assert applications.still_sending(tmp_path / POINTER_NAME, 7) == ""
    says(applications, "running", 6)
    assert applications.still_sending(tmp_path / "other", 7) == ""


def test_producer_status_change_that_matters_to_a_hold_is_written_at_once(tmp_path: Path) -> None:
    file = StatusFile("flights", str(tmp_path / "status"))
    calls = []
    for phase, version, in_flight in (("running", 6, 9), ("holding", 7, 9), ("holding", 7, 4), ("holding", 7, 0)):
        file.report(phase, "LEFT", version, 100, in_flight)
        calls.append((tmp_path / "status").read_text().count(f'"in_flight": {in_flight}'))
    assert calls == [1, 1, 0, 1]  # 9 to 4 tells nothing new, and waits
