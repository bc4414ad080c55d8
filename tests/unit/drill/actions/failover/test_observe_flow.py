"""The state of a flow: what counts as an application's, and what of it is lost where the source answers in part."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from sample_flow import NOW, partition, survey
from silent_clusters import silent_clusters
from testbed_moves import Place

from drlib.config.replication_policy import DefaultReplicationPolicy
from drlib.drill.actions.failover import observe_flow
from drlib.drill.actions.failover.observe_flow import ObservedFlow, of_applications, partition_losses
from drlib.mirror.monitor.flow_view import overview
from drlib.mirror.status.worker_status import PartitionStatus
from drlib.model import Flow


def test_of_applications_leaves_out_heartbeats_from_however_many_clusters_away() -> None:
    topics = ("heartbeats", "orders", "tokyo.heartbeats", "my-heartbeats")
    partitions = [PartitionStatus(topic, 0, f"paris.{topic}", 0, 5, 5, 9, 5) for topic in topics]
    kept = of_applications(partitions, DefaultReplicationPolicy())
    assert [partition.topic for partition in kept] == ["orders", "my-heartbeats"]


def test_loss_is_zero_only_where_the_source_itself_says_the_log_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's last report of a partition that has no leader now bounds nothing by itself."""
    monkeypatch.setattr(observe_flow, "Cluster", lambda _: nullcontext())
    monkeypatch.setattr(observe_flow, "_last_timestamps", lambda *_: {})
    in_part = survey(partitions=(partition(0, 90, -1), partition(1, 5, 5)), source_partly="orders-0 has no leader")
    view = overview(survey(partitions=(partition(0, 90, 90), partition(1, 5, 5))), [], NOW)
    with silent_clusters(tmp_path / "mirror.properties", "LEFT", "RIGHT") as file:
        place = Place(properties=str(file)).workplace(tmp_path)
        losses = partition_losses(place, Flow("LEFT", "RIGHT"), ObservedFlow(in_part, view, None))
    assert [each.at_most_s for each in losses] == [None, 0.0]
