"""Many groups come over at once: each of their positions stands on the target."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from fix_engine import Engine, create_topic, produce

from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.run.registry import make_action
from drlib.drill.step.context import DrillContext
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.group_offsets import commit_all, committed
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort

PARTITIONS = 100


@pytest.fixture
def mirrored(lab: Lab, tmp_path: Path) -> Iterator[tuple[Engine, str]]:
    """A topic of 100 partitions, mirrored whole."""
    tag = uuid.uuid4().hex[:6]
    topic = f"many.{tag}"
    left, right = lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap
    engine = Engine(tmp_path, left, right, f"SRC{tag}", f"DST{tag}", topic)
    try:
        create_topic(left, topic, PARTITIONS)
        produce(left, topic, PARTITIONS * 20, partitions=PARTITIONS)
        engine.start()
        engine.wait_caught_up(topic, PARTITIONS)
        yield engine, topic
    finally:
        engine.close()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_positions_of_a_thousand_groups_stand_on_the_target(mirrored: tuple[Engine, str], tmp_path: Path) -> None:
    groups = 1000
    engine, topic = mirrored
    settings = load_mirror_settings(engine.properties)
    flow = Flow(engine.source, engine.target)
    tag = uuid.uuid4().hex[:6]
    source, target = settings.clusters[flow.source], settings.clusters[flow.target]
    wanted = {
        f"{tag}-{n}": {TopicPartition(topic, p): CommittedOffset((n + p) % 20) for p in range(PARTITIONS)}
        for n in range(groups)
    }
    assert not [error for error in commit_all(source, wanted, 60).values() if error is not None]
    place = DrillContext(clusters=settings.clusters, flow=flow, run_dir=tmp_path, properties=engine.properties)
    call = Call("groups.translate", (Argument("groups", f"{tag}-.*"), Argument("positions_from", "source")))
    step = make_action(call, place, "t")
    changes = step.changes(step.observe())
    began = time.monotonic()
    evidence = step.act(changes, Abort(tmp_path))
    took = time.monotonic() - began
    print(f"{groups} groups, {groups * PARTITIONS} positions: {took:.2f} s, {dict(evidence)}")
    assert (evidence["groups"], evidence["positions"]) == (groups, groups * PARTITIONS)
    assert evidence["exact"] == groups * PARTITIONS
    found = committed(target, list(wanted), 60)
    markers: dict[int, set[int]] = {p: set() for p in range(PARTITIONS)}
    for group, positions in wanted.items():
        there = found[group]
        assert isinstance(there, dict)
        assert len(there) == PARTITIONS
        for at, position in there.items():
            markers[at.partition].add(position.offset - positions[TopicPartition(topic, at.partition)].offset)
    assert all(len(shift) == 1 for shift in markers.values())  # each partition has its own, for all groups the same
    step.undo(changes)
    with Cluster(ClusterSettings("target", target.bootstrap_servers)) as cluster:
        assert not [listing for listing in cluster.groups() if listing.group.startswith(tag)]
