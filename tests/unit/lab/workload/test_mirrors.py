"""Which flows the mirrors of several clusters have."""

from __future__ import annotations

import shlex
from pathlib import Path

from drlib.lab.lab import Lab
from drlib.lab.workload.mirrors import LabMirrors, flows_among, flows_with
from drlib.model import Flow


def test_flows_among_has_every_direction_and_flows_with_only_the_newcomers() -> None:
    assert len(set(flows_among(["A", "B", "C"]))) == 6
    assert set(flows_with("C", ["A", "B"])) == set(flows_among(["A", "B", "C"])) - set(flows_among(["A", "B"]))


def test_command_that_starts_a_worker_can_be_pasted_whatever_its_folder_is_called(tmp_path: Path) -> None:
    worker = LabMirrors(Lab(tmp_path / "it's my lab"), "mirror", "orders", (Flow("LEFT", "RIGHT"),))
    assert shlex.split(worker.command) == ["drlib", "mirror", str(worker.properties.resolve())]
