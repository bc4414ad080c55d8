"""Numbers of ACL entries, against another client's."""

from __future__ import annotations

from enum import IntEnum

import pytest
from kafka.admin import ACLOperation, ACLPermissionType, ACLResourcePatternType

from drlib.kafka.protocol.acls import Operation, PatternType, Permission


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(Operation, ACLOperation), (Permission, ACLPermissionType), (PatternType, ACLResourcePatternType)],
)
def test_acl_numbers_are_kafkas(ours: type[IntEnum], theirs: type[IntEnum]) -> None:
    assert {member.name: member.value for member in ours} == {member.name: theirs[member.name].value for member in ours}
