"""Rights of a secured lab's users: ACLs of their principals, created and deleted as the lab.

Rules: requests go through INTERNAL, whose user is a super user; a right is one binding for each operation. Kafka's authorizer
reads the controllers' log, so a change is in effect on every broker a moment after the call returns.
Not for: what a role needs (`drlib.mirror.preflight.required_acls` and what uses it).
"""

from collections.abc import Iterable
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from drlib.lab.brokers.cluster import Cluster
from drlib.lab.brokers.security import APPLICATION
from drlib.mirror.preflight.required_acls import Kind, Right

_KINDS: Final[dict[Kind, ResourceType]] = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.BROKER,  # librdkafka's name of the cluster resource
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
_CLUSTER: Final = "kafka-cluster"
_S: Final = 30.0


def grant(cluster: Cluster, user: str, rights: Iterable[Right]) -> None:
    """Allow `user` of a secured lab the `rights`. Granting one again changes nothing. Raises `KafkaException`."""
    bindings = list(dict.fromkeys(binding for right in rights for binding in _bindings(user, right)))
    if bindings:
        admin = _admin(cluster)  # held: its requests end with it
        for created in admin.create_acls(bindings, request_timeout=_S).values():
            created.result(_S)


def grant_application(cluster: Cluster) -> None:
    """Let the user of applications read and write topics, and create those of a Streams application of ours; keep it from
    writing to drlib's own. Raises `KafkaException`."""
    every = "*"
    rights = (
        Right("topic", every, ("READ", "WRITE")),
        Right("topic", "client-", ("CREATE",), prefixed=True),
        Right("group", every, ("READ",)),
        Right("transactional-id", every, ("WRITE",)),
    )
    grant(cluster, APPLICATION, rights)
    denied = [Right("topic", name, ("WRITE",), prefixed=True) for name in ("drlib.", "__drlib-journal.")]
    bindings = [binding for right in denied for binding in _bindings(APPLICATION, right, AclPermissionType.DENY)]
    admin = _admin(cluster)
    for created in admin.create_acls(bindings, request_timeout=_S).values():
        created.result(_S)


def revoke(cluster: Cluster, user: str, rights: Iterable[Right]) -> int:
    """Delete the ACLs that allow `user` the `rights`; how many there were. Raises `KafkaException`."""
    filters = [
        AclBindingFilter(
            b.restype, b.name, b.resource_pattern_type, b.principal, b.host, b.operation, b.permission_type
        )
        for right in rights
        for b in _bindings(user, right)
    ]
    if not filters:
        return 0
    admin = _admin(cluster)
    deleted = admin.delete_acls(filters, request_timeout=_S)
    return sum(len(done.result(_S)) for done in deleted.values())


def _bindings(user: str, right: Right, permission: AclPermissionType = AclPermissionType.ALLOW) -> list[AclBinding]:
    pattern = ResourcePatternType.PREFIXED if right.prefixed else ResourcePatternType.LITERAL
    name = _CLUSTER if right.kind == "cluster" else right.name
    return [
        AclBinding(_KINDS[right.kind], name, pattern, f"User:{user}", "*", AclOperation[operation], permission)
        for operation in right.operations
    ]


def _admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.internal_bootstrap, "log_level": 0, **cluster.broker_client()})
