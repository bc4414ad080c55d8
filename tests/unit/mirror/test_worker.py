"""Which pairs of clusters only write heartbeats, and which flow's owner writes them; what a worker that waits reports."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drlib.config.both_ways.shared_topics import TopicsShared
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.mirror.monitor.flow_view import WAITING, overview
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status.event_kinds import KINDS
from drlib.mirror.status.worker_status import WorkerStatus
from drlib.mirror.worker import Reporting, Worker, heartbeats_owner, mirror, pairs_with_heartbeats
from drlib.model import Flow

THREE = """
clusters = A, B, C
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
C.bootstrap.servers = 127.0.0.1:3
A->B.enabled = true
B->C.enabled = true
"""


def load(tmp_path: Path, text: str) -> MirrorSettings:
    path = tmp_path / "mm2.properties"
    path.write_text(THREE + text)
    return load_mirror_settings(path)


def pairs(settings: MirrorSettings) -> set[str]:
    return {str(f.flow) for f in pairs_with_heartbeats(settings, settings.enabled_flows)}


def test_pairs_with_heartbeats_are_all_that_are_not_enabled(tmp_path: Path) -> None:
    assert pairs(load(tmp_path, "")) == {"B->A", "A->C", "C->A", "C->B"}


def test_pairs_with_heartbeats_switched_off_for_one_pair_or_all(tmp_path: Path) -> None:
    assert pairs(load(tmp_path, "C->A.emit.heartbeats.enabled = false")) == {"B->A", "A->C", "C->B"}
    one = "emit.heartbeats.enabled = false\nB->A.emit.heartbeats.enabled = true"
    assert pairs(load(tmp_path, one)) == {"B->A"}
    assert pairs(load(tmp_path, "emit.heartbeats.interval.seconds = -1")) == set()


def test_heartbeats_owner_is_the_opposite_flow_or_the_first() -> None:
    enabled = [Flow("A", "B"), Flow("B", "C")]
    assert heartbeats_owner(Flow("C", "B"), enabled) == 1
    assert heartbeats_owner(Flow("B", "A"), enabled) == 0
    assert heartbeats_owner(Flow("C", "A"), enabled) == 0


async def test_ring_with_synchronized_group_offsets_is_refused_before_a_cluster_is_asked(tmp_path: Path) -> None:
    names = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    settings = load(tmp_path, f"C->A.enabled = true\n{names}\nB->C.sync.group.offsets.enabled = true")
    with pytest.raises(TopicsShared, match="group offsets cannot be synchronized between B and C"):
        await mirror(settings)


async def test_worker_that_waits_for_its_clusters_names_them_and_each_remedy_once(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    addresses = "A.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\n"
    path.write_text(f"clusters = A, B\n{addresses}A->B.enabled = true\nemit.heartbeats.enabled = false\n")
    seen: list[WorkerStatus] = []

    def waits(status: WorkerStatus) -> bool:
        seen.append(status)
        return any(event.settled for event in status.events)

    await mirror(load_mirror_settings(path), until=waits)
    (event,) = seen[-1].events
    assert event.name == "FlowUnreachable"
    assert "A: no broker of the cluster at 127.0.0.1:1 can be reached" in event.detail
    assert "B: no broker of the cluster at 127.0.0.1:2 can be reached" in event.detail
    assert "Check" not in event.detail
    assert event.remedy == KINDS["FlowUnreachable"].remedy
    view = overview(
        Survey("A->B", seen[-1].at_ms, 2, source_error="down", target_error="down"), [seen[-1]], seen[-1].at_ms
    )
    assert view.state == WAITING
    assert view.open_events[0].opened_ms == event.opened_ms > 0


async def test_worker_name_too_hard_to_match_is_one_event_of_its_flow_and_key(tmp_path: Path) -> None:
    settings = load(tmp_path, "topics = (tU|tUtU)+c, orders\nA->B.sync.group.offsets.enabled = true")
    worker = Worker(settings, settings.enabled_flows, Reporting())
    chosen = worker._runners[0].setup.settings
    assert chosen.mirrors_topic("orders")
    for number in range(3):  # names that another team may give
        assert not chosen.mirrors_topic("tU" * 60 + f"{number}c")
    await asyncio.sleep(0)
    (event,) = worker.status().events
    assert (event.name, event.entity, event.flow) == ("PatternTooSlow", "A->B topics", "A->B")
    assert "the patterns `(tU|tUtU)+c, orders` take too long: matching `tUtU" in event.detail
    assert "restart the worker" in event.remedy
