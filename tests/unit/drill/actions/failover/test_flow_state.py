"""The state of a flow: what counts as an application's."""

from __future__ import annotations

from drlib.config.replication_policy import DefaultReplicationPolicy
from drlib.drill.actions.failover.flow_state import of_applications
from drlib.mirror.status.worker_status import PartitionStatus


def test_of_applications_leaves_out_heartbeats_from_however_many_clusters_away() -> None:
    topics = ("heartbeats", "orders", "tokyo.heartbeats", "my-heartbeats")
    partitions = [PartitionStatus(topic, 0, f"paris.{topic}", 0, 5, 5, 9, 5) for topic in topics]
    kept = of_applications(partitions, DefaultReplicationPolicy())
    assert [partition.topic for partition in kept] == ["orders", "my-heartbeats"]
