"""Positions of a group that a cluster takes in part are taken back: the group is left as a whole, and others are moved."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from confluent_kafka.admin import AclOperation, AclPermissionType, ResourceType
from fix_authorizer import acl, add_acls
from fix_engine import create_topic, wait_for

from drlib.drill.actions.groups import commit
from drlib.drill.actions.groups.rules import PositionMove
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.model import TopicPartition, TranslationKind


@pytest.mark.parametrize("before", [None, 3])
def test_group_that_is_refused_for_one_topic_is_left_as_a_whole_and_holds_up_no_other(
    authorizer_lab: Lab, before: int | None
) -> None:
    """An OffsetCommit is answered for each partition: those of other topics are committed."""
    tag = f"in-part-{uuid.uuid4().hex[:6]}"
    bootstrap = authorizer_lab.clusters["AUTHORIZED"].bootstrap
    target = ClusterSettings("AUTHORIZED", (bootstrap,))
    allowed, denied = TopicPartition(f"{tag}.allowed", 0), TopicPartition(f"{tag}.denied", 0)
    for partition in (allowed, denied):
        create_topic(bootstrap, partition.topic, 1)

    def move(group: str, partition: TopicPartition, offset: int) -> PositionMove:
        return PositionMove(group, partition, offset, partition, offset, TranslationKind.EXACT, 0, 0, before=before)

    groups = (f"{tag}.both", f"{tag}.other")
    moves = [move(groups[0], allowed, 5), move(groups[0], denied, 6), move(groups[1], allowed, 7)]
    with Cluster(target) as cluster:
        if before is not None:
            for group in groups:
                cluster.alter_group_offsets(group, {allowed: CommittedOffset(before), denied: CommittedOffset(before)})
    was = commit.committed_positions(target, groups)
    add_acls(
        bootstrap,
        acl(ResourceType.TOPIC, denied.topic, AclOperation.ALL),
        acl(ResourceType.TOPIC, denied.topic, AclOperation.READ, AclPermissionType.DENY),
    )

    def refused() -> bool:
        with Cluster(target) as cluster:
            try:
                cluster.commit(f"{tag}.probe", {denied: CommittedOffset(1)})
            except Exception as error:
                return "TOPIC_AUTHORIZATION_FAILED" in str(error)
        return False

    wait_for("the denial is in effect", refused)
    for _ in range(2):  # and by a process that resumes it
        used = commit.write_unless_used(target, moves)
        assert list(used) == [groups[0]]
        assert denied.topic in used[groups[0]]
        now = commit.committed_positions(target, groups)
        assert now[groups[0]] == was[groups[0]]
        assert now[groups[1]][allowed].offset == 7
    commit.put_back(target, [replace(moves[2], before=before)])
    assert commit.committed_positions(target, groups) == was
