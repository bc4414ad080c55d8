"""Copies the ACL rules of mirrored topics to their mirror topics, where the file asks for it.

Rules: decided in `drlib.mirror.sync.rules.acls`; rules are created, never deleted. A cluster without an authorizer is one event
(`AclSyncOff`) and nothing is tried against it until it has one; a rule the target refuses is an event of its own.
"""

from __future__ import annotations

from drlib.config.settings import FlowSettings
from drlib.errors import Unreachable
from drlib.kafka.net import acl_requests as acls
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.acls import TopicAcl
from drlib.kafka.protocol.error_codes import AUTHORIZATION, SECURITY_DISABLED, BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.preflight.checks import not_authorized
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.rules.acls import mirrored, missing

OFF, REFUSED = "AclSyncOff", "AclRefused"


class AclSync:
    """A `duty.Duty`."""

    name = "AclSyncFailed"

    def __init__(
        self,
        settings: FlowSettings,
        source: tuple[ClusterClient, ClusterSettings],
        target: tuple[ClusterClient, ClusterSettings],
        events: EventLog,
    ) -> None:
        self._settings = settings
        self._source, self._source_settings = source
        self._target, self._target_settings = target
        self._events = events
        self._refused: set[str] = set()

    def forget(self) -> None:
        self._refused.clear()

    async def look(self) -> None:
        flow, policy = self._settings.flow, self._settings.policy
        here = await self._list(self._source, self._source_settings)
        there = await self._list(self._target, self._target_settings) if here is not None else None
        if here is None or there is None:
            return
        self._events.resolve(OFF, str(flow))
        wanted = mirrored(here, self._settings.mirrors_topic, lambda name: policy.remote_topic(flow.source, name))
        lacking = missing(wanted, there)
        results = await acls.create_topic_acls(await _any(self._target), lacking) if lacking else []
        refused: set[str] = set()
        for acl, error in zip(lacking, results, strict=True):
            if error is not None and error.code == SECURITY_DISABLED:
                self._off(flow.target, error)
            elif error is not None:
                refused.add(str(acl))
                self._events.open(REFUSED, str(acl), _detail(error, "ALTER", self._target_settings))
        for rule in self._refused - refused:  # made since, by us or by hand, or wanted no more
            self._events.resolve(REFUSED, rule)
        self._refused = refused

    async def _list(self, cluster: ClusterClient, settings: ClusterSettings) -> tuple[TopicAcl, ...] | None:
        try:
            return await acls.topic_acls(await _any(cluster))
        except BrokerError as error:
            if error.code == SECURITY_DISABLED:
                self._off(settings.alias, error)
                return None
            if error.code in AUTHORIZATION:
                raise not_authorized(Right("cluster", "", ("DESCRIBE",)), settings) from error
            raise

    def _off(self, alias: str, error: BrokerError) -> None:
        self._events.open(OFF, str(self._settings.flow), f"{alias} has no authorizer, so no ACLs are copied. {error}")


def _detail(error: BrokerError, operation: str, cluster: ClusterSettings) -> str:
    forbidden = error.code in AUTHORIZATION
    return str(not_authorized(Right("cluster", "", (operation,)), cluster) if forbidden else error)


async def _any(cluster: ClusterClient) -> Connection:
    """A connection to whichever broker can be reached. Raises `Unreachable`."""
    await cluster.metadata([])
    for number, node in enumerate(sorted(cluster.brokers), start=1):
        try:
            return await cluster.connection(node, "acls")
        except Unreachable:
            if number == len(cluster.brokers):
                raise
    raise AssertionError("a cluster that answers has a broker")
