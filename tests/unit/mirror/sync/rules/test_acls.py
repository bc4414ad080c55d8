"""ACL rules: MirrorMaker 2's choices as a table, and the wildcard it gets wrong."""

from __future__ import annotations

import pytest

from drlib.kafka.protocol.acls import Operation, PatternType, Permission, TopicAcl
from drlib.mirror.sync.rules.acls import COPIED, mirrored, missing

ALLOW, DENY = Permission.ALLOW, Permission.DENY


def acl(operation: Operation, permission: Permission, topic: str = "orders", **more) -> TopicAcl:
    return TopicAcl(topic, "User:bob", "*", operation, permission, **more)


def copy(*source: TopicAcl) -> tuple[TopicAcl, ...]:
    return mirrored(source, lambda topic: topic != "private", lambda topic: f"A.{topic}")


@pytest.mark.parametrize("operation", list(Operation))
def test_every_denial_is_copied_as_it_is(operation: Operation) -> None:
    assert copy(acl(operation, DENY)) == (acl(operation, DENY, "A.orders"),)


@pytest.mark.parametrize("operation", list(Operation))
def test_what_is_allowed(operation: Operation) -> None:
    expected = {
        Operation.ALL: (acl(Operation.READ, ALLOW, "A.orders"),),
        Operation.WRITE: (),
    }.get(operation, (acl(operation, ALLOW, "A.orders"),))
    assert copy(acl(operation, ALLOW)) == expected


def test_the_table_is_complete() -> None:
    assert set(COPIED) == {(permission, operation) for permission in Permission for operation in Operation}


@pytest.mark.parametrize(
    "left",
    [
        acl(Operation.READ, ALLOW, "private"),
        acl(Operation.READ, ALLOW, "*"),
        acl(Operation.READ, DENY, "*"),
        acl(Operation.READ, ALLOW, "or", pattern=PatternType.PREFIXED),
    ],
)
def test_what_is_left_alone(left: TopicAcl) -> None:
    assert copy(left) == ()


def test_all_and_read_become_one_rule_and_only_missing_ones_are_created() -> None:
    wanted = copy(acl(Operation.ALL, ALLOW), acl(Operation.READ, ALLOW), acl(Operation.DESCRIBE, ALLOW))
    assert len(wanted) == 2
    there = (acl(Operation.READ, ALLOW, "A.orders"), acl(Operation.DELETE, DENY, "A.orders"))
    assert missing(wanted, there) == (acl(Operation.DESCRIBE, ALLOW, "A.orders"),)


def test_a_rule_reads_as_a_sentence() -> None:
    assert str(acl(Operation.READ, DENY)) == "DENY READ on orders for User:bob from *"
