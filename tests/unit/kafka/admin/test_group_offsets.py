"""Calls that need no broker's answer: about no group, and to a cluster that is silent."""

from __future__ import annotations

import pytest

from drlib.errors import Unreachable
from drlib.kafka.admin import group_offsets
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.ports import free_ports
from drlib.model import TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def silent() -> ClusterSettings:
    """A cluster whose port is closed."""
    return ClusterSettings("GONE", (f"127.0.0.1:{free_ports(1)[0]}",))


def test_calls_for_no_group_or_no_partition_ask_no_broker(silent: ClusterSettings) -> None:
    assert group_offsets.committed(silent, [], 1.0) == {}
    assert group_offsets.commit_all(silent, {}, 1.0) == {}
    group_offsets.commit(silent, "g", {}, 1.0)
    group_offsets.delete_offsets(silent, "g", [], 1.0)


def test_calls_to_a_silent_cluster_raise_unreachable_with_what_was_done(silent: ClusterSettings) -> None:
    with pytest.raises(Unreachable, match="reading the committed offsets of groups on GONE got no answer"):
        group_offsets.committed(silent, ["g"], 0.2)
    with pytest.raises(Unreachable, match="committing offsets of group g on GONE got no answer"):
        group_offsets.commit(silent, "g", {ORDERS: CommittedOffset(1)}, 0.2)
    with pytest.raises(Unreachable, match="committing offsets of 2 groups on GONE got no answer"):
        group_offsets.commit_all(silent, {g: {ORDERS: CommittedOffset(1)} for g in "gh"}, 0.2)
    with pytest.raises(Unreachable, match="deleting offsets of group g on GONE got no answer"):
        group_offsets.delete_offsets(silent, "g", [ORDERS], 0.2)
