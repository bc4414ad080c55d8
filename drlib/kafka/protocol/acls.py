"""ACL entries of topics, with Kafka's own numbers (`org.apache.kafka.common.acl`). Pure.

Not for: requests (`drlib.kafka.net.acl_requests`).
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

WILDCARD: Final = "*"


class PatternType(IntEnum):
    """`org.apache.kafka.common.resource.PatternType`."""

    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """`org.apache.kafka.common.acl.AclOperation`, those that a topic has."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11


class Permission(IntEnum):
    """`org.apache.kafka.common.acl.AclPermissionType`."""

    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True, order=True)
class TopicAcl:
    """One ACL on topics. `topic` is a name, a prefix, or `*`."""

    topic: str
    principal: str
    host: str
    operation: Operation
    permission: Permission
    pattern: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{self.permission.name} {self.operation.name} on {self.topic} for {self.principal} from {self.host}"
