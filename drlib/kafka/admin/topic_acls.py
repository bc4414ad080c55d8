"""List, create and delete the ACLs of a cluster's topics. Blocks.

Rules: a cluster without an authorizer is a `UsageError`. Of several ACLs the first refused one is raised, and those before it
are in effect. Creating an existing ACL and deleting a missing one are no errors. Deleting removes exactly the named ACL, never
others that match it. Brokers apply a change a moment after the controller has answered.
Not for: deciding which rules (`drlib.drill.actions.applications.deny_rules`, `acl_sync`).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from drlib.errors import UsageError
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.net import acl_requests as acls
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.acls import TopicAcl
from drlib.kafka.protocol.error_codes import SECURITY_DISABLED, BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings

Answer = TypeVar("Answer")


class NoAuthorizer(UsageError):
    """The cluster cannot have ACLs."""

    def __init__(self, alias: str) -> None:
        super().__init__(
            f"{alias} has no ACLs",
            "its brokers have no authorizer (authorizer.class.name), so it cannot deny access",
            "Leave `deny_write` out, or configure an authorizer first.",
        )


def topic_rules(cluster: ClusterSettings) -> tuple[TopicAcl, ...]:
    """Every ACL on topics. Raises `NoAuthorizer`, `BrokerError`, `Unreachable`, `SecurityFault`."""
    return _asked(cluster, acls.topic_acls)


def create_rules(cluster: ClusterSettings, rules: Sequence[TopicAcl]) -> None:
    """Raises as `topic_rules` does."""
    if rules:
        _raise_first(_asked(cluster, lambda connection: acls.create_topic_acls(connection, rules)))


def delete_rules(cluster: ClusterSettings, rules: Sequence[TopicAcl]) -> None:
    """Raises as `topic_rules` does."""
    if rules:
        _raise_first(_asked(cluster, lambda connection: acls.delete_topic_acls(connection, rules)))


def _asked(cluster: ClusterSettings, question: Callable[[Connection], Awaitable[Answer]]) -> Answer:
    async def ask() -> Answer:
        async with wire_client(cluster, client_id="drlib-rules") as client:
            try:
                return await question(await client.any_broker())
            except BrokerError as error:
                if error.code == SECURITY_DISABLED:
                    raise NoAuthorizer(cluster.alias) from error
                raise

    return blocking(ask())


def _raise_first(answers: Sequence[BrokerError | None]) -> None:
    for error in answers:
        if error is not None:
            raise error
