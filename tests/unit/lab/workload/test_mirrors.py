"""Which flows the mirrors of several clusters have."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from drlib import Tour
from drlib.client.read_plan import Scope
from drlib.drill.scenarios.active.testbed import ActiveTestbed
from drlib.drill.scenarios.ordering.testbed import OrderingTestbed
from drlib.errors import UsageError
from drlib.lab.lab import Lab
from drlib.lab.workload.mirrors import LabMirrors, flows_among, flows_with, refuse_topic
from drlib.model import Flow


def test_flows_among_has_every_direction_and_flows_with_only_the_newcomers() -> None:
    assert len(set(flows_among(["A", "B", "C"]))) == 6
    assert set(flows_with("C", ["A", "B"])) == set(flows_among(["A", "B", "C"])) - set(flows_among(["A", "B"]))


def test_command_that_starts_a_worker_can_be_pasted_whatever_its_folder_is_called(tmp_path: Path) -> None:
    worker = LabMirrors(Lab(tmp_path / "it's my lab"), "mirror", "orders", (Flow("LEFT", "RIGHT"),))
    assert shlex.split(worker.command) == ["drlib", "mirror", str(worker.properties.resolve())]


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("a b", "there can be no topic 'a b'"),
        ("", "there can be no topic ''"),
        ("..", "there can be no topic '..'"),
        ("x" * 250, "1 to 249 letters"),
        ("LEFT.orders", "a cluster's alias is a part of its name, so that it counts as a mirror"),
        ("RIGHT.orders", "topic RIGHT.orders is not mirrored by LEFT->RIGHT"),
        ("__orders", "its name is that of an internal topic"),
    ],
)
def test_topic_that_would_not_be_mirrored_is_refused_before_anything_is_started(
    topic: str, why: str, tmp_path: Path
) -> None:
    for opened in (
        lambda: Tour(tmp_path, topic),
        lambda: OrderingTestbed(Lab(tmp_path), tmp_path, topic, Scope.TOPIC).mirrors(Flow("LEFT", "RIGHT")),
        lambda: ActiveTestbed(Lab(tmp_path), tmp_path, topic).mirrors("all", [Flow("LEFT", "RIGHT")]),
    ):
        with pytest.raises(UsageError, match=why):
            opened()
    assert not Lab(tmp_path).status()


def test_topic_with_a_period_is_mirrored_on_a_lab() -> None:
    refuse_topic("orders.v1", (Flow("LEFT", "RIGHT"),))
