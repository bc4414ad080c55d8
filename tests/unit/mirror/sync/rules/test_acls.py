"""ACL rules: MirrorMaker 2's choices as a table, and the wildcard it gets wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from drlib.kafka.protocol.acls import Operation, PatternType, Permission, TopicAcl
from drlib.mirror.sync.rules.acls import COPIED, mirrored, missing

ALLOW, DENY = Permission.ALLOW, Permission.DENY


def acl(operation: Operation, permission: Permission, topic: str = "orders", **more: Any) -> TopicAcl:
    return TopicAcl(topic, "User:bob", "*", operation, permission, **more)


def copy(*source: TopicAcl) -> tuple[TopicAcl, ...]:
    return mirrored(source, lambda topic: topic != "private", lambda topic: f"A.{topic}")


@pytest.mark.parametrize("operation", list(Operation))
def test_mirrored_deny_is_copied_unchanged(operation: Operation) -> None:
    assert copy(acl(operation, DENY)) == (acl(operation, DENY, "A.orders"),)


@pytest.mark.parametrize("operation", list(Operation))
def test_mirrored_allow_by_operation(operation: Operation) -> None:
    expected = {
        Operation.ALL: (acl(Operation.READ, ALLOW, "A.orders"),),
        Operation.WRITE: (),
    }.get(operation, (acl(operation, ALLOW, "A.orders"),))
    assert copy(acl(operation, ALLOW)) == expected


def test_copied_has_every_permission_and_operation() -> None:
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
def test_mirrored_prefixed_wildcard_and_unmirrored_acls_are_left(left: TopicAcl) -> None:
    assert copy(left) == ()


def test_mirrored_denial_of_writing_to_everyone_is_left_as_the_mirror_is_one_of_them() -> None:
    fence = TopicAcl("orders", "User:*", "*", Operation.WRITE, DENY)
    assert copy(fence) == ()
    others = (replace(fence, operation=Operation.READ), replace(fence, host="10.0.0.7"))
    assert copy(*others) == tuple(sorted(replace(each, topic="A.orders") for each in others))


def test_missing_all_and_read_become_one_acl() -> None:
    wanted = copy(acl(Operation.ALL, ALLOW), acl(Operation.READ, ALLOW), acl(Operation.DESCRIBE, ALLOW))
    assert len(wanted) == 2
    there = (acl(Operation.READ, ALLOW, "A.orders"), acl(Operation.DELETE, DENY, "A.orders"))
    assert missing(wanted, there) == (acl(Operation.DESCRIBE, ALLOW, "A.orders"),)


def test_acl_text_reads_as_a_sentence() -> None:
    assert str(acl(Operation.READ, DENY)) == "DENY READ on orders for User:bob from *"
