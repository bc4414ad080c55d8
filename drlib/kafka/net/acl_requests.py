"""Requests for the ACLs of a cluster's topics: describe, create and delete.

Rules: an answer may have no ACLs; a cluster without an authorizer is a `BrokerError` with SECURITY_DISABLED. (librdkafka
returns an empty list for both, so drlib sends these requests itself.) Any broker answers and forwards changes.
Source: `DescribeAclsRequest.json`, `CreateAclsRequest.json`, `DeleteAclsRequest.json` of Kafka.
"""

from collections.abc import Sequence
from typing import Final

from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.acls import Operation, PatternType, Permission, TopicAcl
from drlib.kafka.protocol.error_codes import BrokerError, raise_for

TOPIC: Final = 2
ANY: Final = 1
_OPERATIONS: Final = frozenset(Operation)
_PERMISSIONS: Final = frozenset(Permission)
_PATTERNS: Final = frozenset(PatternType)


async def topic_acls(conn: Connection) -> tuple[TopicAcl, ...]:
    """Every ACL on topics, by name. Raises `BrokerError`, SECURITY_DISABLED where the cluster has no authorizer.

    An ACL with an operation that this version does not know is left out.
    """
    answer = await conn.ask(
        DescribeAclsRequest,
        resource_type_filter=TOPIC,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    raise_for(answer.error_code, "listing the ACLs of topics", answer.error_message)
    acls = [
        TopicAcl(
            resource.resource_name,
            acl.principal,
            acl.host,
            Operation(acl.operation),
            Permission(acl.permission_type),
            PatternType(resource.pattern_type),
        )
        for resource in answer.resources
        for acl in resource.acls
        if acl.operation in _OPERATIONS and acl.permission_type in _PERMISSIONS and resource.pattern_type in _PATTERNS
    ]
    return tuple(sorted(acls))


async def create_topic_acls(conn: Connection, acls: Sequence[TopicAcl]) -> list[BrokerError | None]:
    """Create ACLs; an existing one is no error. Returns the error of each, in order."""
    creation = CreateAclsRequest.AclCreation
    answer = await conn.ask(
        CreateAclsRequest,
        creations=[
            creation(
                resource_type=TOPIC,
                resource_name=acl.topic,
                resource_pattern_type=int(acl.pattern),
                principal=acl.principal,
                host=acl.host,
                operation=int(acl.operation),
                permission_type=int(acl.permission),
            )
            for acl in acls
        ],
    )
    return [
        BrokerError(result.error_code, f"creating {acl}", result.error_message) if result.error_code else None
        for acl, result in zip(acls, answer.results, strict=True)
    ]


async def delete_topic_acls(conn: Connection, acls: Sequence[TopicAcl]) -> list[BrokerError | None]:
    """Delete exactly these ACLs; a missing one is no error. Returns the error of each, in order."""
    only = DeleteAclsRequest.DeleteAclsFilter
    answer = await conn.ask(
        DeleteAclsRequest,
        filters=[
            only(
                resource_type_filter=TOPIC,
                resource_name_filter=acl.topic,
                pattern_type_filter=int(acl.pattern),
                principal_filter=acl.principal,
                host_filter=acl.host,
                operation=int(acl.operation),
                permission_type=int(acl.permission),
            )
            for acl in acls
        ],
    )
    errors: list[BrokerError | None] = []
    for acl, result in zip(acls, answer.filter_results, strict=True):
        failed = next((part for part in (result, *result.matching_acls) if part.error_code), None)
        errors.append(failed and BrokerError(failed.error_code, f"deleting {acl}", failed.error_message))
    return errors
