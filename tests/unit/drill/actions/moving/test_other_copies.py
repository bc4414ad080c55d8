"""Which topics of the cluster that is left a third one fills, and what to do where they do not stand still."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.drill.actions.moving.other_copies import filled_by_others, hint
from drlib.model import Flow, TopicPartition

MOVING = Flow("A", "B")
TOPICS = ("orders", "C.orders", "C.other", "D.orders", "orders.eu")
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@pytest.fixture
def settings(tmp_path: Path) -> MirrorSettings:
    return of(tmp_path, "C->A.enabled = true\nC->A.topics = orders\nD->A.enabled = false\n")


def of(folder: Path, more: str) -> MirrorSettings:
    file = folder / "mm2.properties"
    clusters = "".join(f"{alias}.bootstrap.servers = 127.0.0.1:{n}\n" for n, alias in enumerate("ABCD", 1))
    file.write_text(f"clusters = A, B, C, D\n{clusters}A->B.enabled = true\nB->A.enabled = true\n{more}")
    return load_mirror_settings(file)


def test_mirrors_of_a_flow_that_runs_into_the_cluster_are_filled_by_others(settings: MirrorSettings) -> None:
    assert filled_by_others(settings, MOVING, TOPICS) == {"C.orders"}
    assert filled_by_others(settings, Flow("B", "A"), ("orders", "A.orders", "C.orders")) == frozenset()


def test_topics_that_another_flow_copies_under_their_own_names_have_to_stand_still(tmp_path: Path) -> None:
    """Its copies look like what applications write there."""
    settings = of(tmp_path, f"C->A.enabled = true\nC->A.topics = orders\nC->A.replication.policy.class = {IDENTITY}\n")
    assert filled_by_others(settings, MOVING, TOPICS) == frozenset()
    said = hint(settings, MOVING, [TopicPartition("other", 0), TopicPartition("orders", 1)])
    assert said.startswith(" C->A writes to orders, too: stop its worker")
    assert "out of C->A.topics in mm2.properties" in said


def test_hint_says_how_to_see_who_writes_and_nothing_where_nothing_grew(settings: MirrorSettings) -> None:
    at = [TopicPartition("orders", 1), TopicPartition("orders", 0)]
    assert hint(settings, MOVING, at) == " See who writes to orders: drlib inventory mm2.properties"
    assert hint(settings, MOVING, []) == ""
