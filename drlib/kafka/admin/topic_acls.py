"""The ACL rules of a cluster's topics for whoever is no mirror: listed, created and deleted. Blocks.

Rules: a cluster without an authorizer is a `UsageError` that says so; of several rules the first one refused is raised, and
those before it hold; creating what is there and deleting what is not are no errors. Deleting takes exactly the rule that is
named, never what merely matches it. Brokers learn of a change from the controller a moment after it was answered.
Not for: deciding which rules (`drlib.drill.actions.applications.deny_rules`, `acl_sync`).
"""

from __future__ import annotations

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
    """A cluster that has no rules, and can have none."""

    def __init__(self, alias: str) -> None:
        super().__init__(
            f"{alias} has no ACL rules",
            "its brokers have no authorizer (authorizer.class.name), so nobody can be denied anything there",
            "Leave `deny_write` out, or configure an authorizer first.",
        )


def topic_rules(cluster: ClusterSettings) -> tuple[TopicAcl, ...]:
    """Every rule about topics. Raises `NoAuthorizer`, `BrokerError`, `Unreachable`, `SecurityFault`."""
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
        client = wire_client(cluster, client_id="drlib-rules")
        try:
            brokers = (await client.connect()).brokers
            return await question(await client.connection(min(brokers)))
        except BrokerError as error:
            if error.code == SECURITY_DISABLED:
                raise NoAuthorizer(cluster.alias) from error
            raise
        finally:
            await client.close()

    return blocking(ask())


def _raise_first(answers: Sequence[BrokerError | None]) -> None:
    for error in answers:
        if error is not None:
            raise error
