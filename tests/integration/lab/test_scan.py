"""What a scan says of a topic that it may not read, and what an application does then with records in doubt."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from fix_authorizer import acl, add_acls, drop_acls

from drlib.errors import Unreachable
from drlib.lab.apps.in_doubt import find_on_mirror
from drlib.lab.checker.scan import find_in_tail, scan
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import TopicSpec, acknowledged, create_topics


@pytest.mark.parametrize("operation", [AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS, AclOperation.DESCRIBE])
def test_records_of_a_topic_that_may_not_be_read_are_unknown_and_not_absent(
    authorizer_lab: Lab, fresh_topic: Callable[[str], str], operation: AclOperation
) -> None:
    """With WRITE or DESCRIBE_CONFIGS for another user not even its partitions are shown, with DESCRIBE for all they are."""
    cluster, topic = authorizer_lab.clusters["AUTHORIZED"], fresh_topic("mirror")
    create_topics(cluster.bootstrap, [TopicSpec(topic, 2)])
    began_ms = time.time_ns() // 1_000_000
    with acknowledged(cluster) as producer:
        for number in range(4):
            producer.produce(topic, value=b"{}", headers=[("id", b"%d" % number)], partition=number % 2)
    who = "User:*" if operation == AclOperation.DESCRIBE else "User:another"
    add_acls(cluster.bootstrap, acl(ResourceType.TOPIC, topic, operation, who=who))
    try:
        for look in (
            lambda: list(scan(cluster.bootstrap, topic, deadline_s=1.0)),
            lambda: find_in_tail(cluster.bootstrap, topic, {"0", "3"}, began_ms, deadline_s=1.0),
        ):
            with pytest.raises(Unreachable, match=rf"{topic}.*[Aa]uthorization failed"):
                look()
        asked = count()
        assert find_on_mirror(cluster.bootstrap, topic, {"0"}, began_ms, lambda: next(asked) > 0) is None, (
            "a record in doubt that the mirror may hold is not sent again"
        )
    finally:
        drop_acls(cluster.bootstrap, ResourceType.TOPIC, topic)
    assert find_in_tail(cluster.bootstrap, topic, {"0", "3"}, began_ms).keys() == {"0", "3"}
    assert list(scan(cluster.bootstrap, fresh_topic("nowhere"), deadline_s=5.0)) == []
