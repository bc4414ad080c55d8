"""Which groups read topics that no flow mirrors, and which topics of theirs this user may not see."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from sample_observation import on_target

from drlib.config.settings import load_mirror_settings
from drlib.drill.readiness.observe.groups import SourceGroups, find_readers, is_ahead, mirrored_positions, with_read_on
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.net.cluster_client import ClusterMetadata, TopicMetadata
from drlib.model import TopicPartition

FILE = """clusters = paris, lyon
paris.bootstrap.servers = p:1
lyon.bootstrap.servers = l:1
paris->lyon.enabled = true
topics = orders.*
"""


def test_topic_that_only_the_members_of_a_group_name_counts_as_what_the_group_reads(tmp_path: Path) -> None:
    """A topic that this user may not describe is in no committed offset and in no metadata."""
    (tmp_path / "mm2.properties").write_text(FILE)
    settings = load_mirror_settings(tmp_path / "mm2.properties")
    flow = settings.enabled_flows[0]
    seen = ClusterMetadata(
        "id", 1, {}, {name: TopicMetadata(name, uuid.UUID(int=1), 0, {}, False) for name in ("orders", "clicks")}
    )
    committed = {TopicPartition("orders", 0): CommittedOffset(1), TopicPartition("gone", 0): CommittedOffset(1)}
    groups = SourceGroups(0, {"billing": committed, "stats": {}})
    assert find_readers(groups, settings, flow, seen, {}).unmirrored == ()
    assigned = {"stats": ("clicks", "hidden", "orders.hidden", "lyon.hidden"), "other": ("hidden",)}
    (reader,) = find_readers(groups, settings, flow, seen, assigned).unmirrored
    assert (reader.group, reader.topics) == ("stats", ("hidden",))


def test_local_topic_with_the_name_of_a_mirror_is_named_where_the_target_has_no_such_topic(tmp_path: Path) -> None:
    (tmp_path / "mm2.properties").write_text(FILE)
    settings = load_mirror_settings(tmp_path / "mm2.properties")
    flow = settings.enabled_flows[0]
    names = ("orders", "lyon.orders.v1", "lyon.clicks")
    source, target = (
        ClusterMetadata("id", 1, {}, {name: TopicMetadata(name, uuid.UUID(int=1), 0, {}, False) for name in there})
        for there in (names, ("orders.v1", "v1", "paris.orders"))
    )
    groups = SourceGroups(0, {"billing": {TopicPartition(name, 0): CommittedOffset(1) for name in names}})
    (reader,) = find_readers(groups, settings, flow, source, {}, target).unmirrored
    assert (reader.topics, reader.as_mirrors) == (("lyon.clicks",), ("lyon.clicks",))
    assert find_readers(groups, settings, flow, source, {}).unmirrored == (), "the target does not say which it has"


def test_topic_that_counts_as_heartbeats_of_an_unknown_cluster_is_named_with_its_readers(tmp_path: Path) -> None:
    (tmp_path / "mm2.properties").write_text(FILE)
    settings = load_mirror_settings(tmp_path / "mm2.properties")
    flow = settings.enabled_flows[0]
    names = ("orders", "heartbeats", "paris.heartbeats", "lyon.heartbeats", "device.heartbeats", "my-heartbeats")
    seen = ClusterMetadata("id", 1, {}, {name: TopicMetadata(name, uuid.UUID(int=1), 0, {}, False) for name in names})
    committed = {TopicPartition(name, 0): CommittedOffset(1) for name in names}
    found = find_readers(SourceGroups(0, {"billing": committed}), settings, flow, seen, {})
    assert found.as_heartbeats == (("billing", ("device.heartbeats",)),)


def test_positions_in_deleted_topics_are_left_out_under_any_names(tmp_path: Path) -> None:
    (tmp_path / "mm2.properties").write_text(FILE)
    flow = load_mirror_settings(tmp_path / "mm2.properties").enabled_flows[0]
    orders, gone = TopicPartition("orders", 0), TopicPartition("orders.old", 0)
    committed = {orders: CommittedOffset(1), gone: CommittedOffset(7), TopicPartition("clicks", 0): CommittedOffset(1)}
    groups = SourceGroups(0, {"billing": committed})
    seen = ClusterMetadata("id", 1, {}, {"orders": TopicMetadata("orders", uuid.UUID(int=1), 0, {}, False)})
    assert mirrored_positions(groups, flow, seen) == {("billing", orders): CommittedOffset(1)}
    assert {at for _, at in mirrored_positions(groups, flow, None)} == {orders, gone}, "it does not say which there are"


@pytest.mark.parametrize(("by_now", "read_on"), [(5, False), (4, False), (6, True), (None, False)])
def test_position_ahead_of_one_that_was_read_before_the_group_read_on_may_be_the_mirrors(
    by_now: int | None, read_on: bool
) -> None:
    """A mirror that synchronizes offsets had put it there between the two questions."""
    ahead, level = on_target(8, 5, 9), on_target(5, 5, 9)
    assert (is_ahead(ahead), is_ahead(level), is_ahead(on_target(8, 5, 9, in_use=True))) == (True, False, False)
    item = ahead.translation
    now = SourceGroups(0, {} if by_now is None else {item.group: {item.source: CommittedOffset(by_now)}})
    assert [each.read_on for each in with_read_on((ahead, level), now)] == [read_on, False]
