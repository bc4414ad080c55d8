"""Copy the ACLs of mirrored topics to their mirror topics, where the file enables it.

Rules: decided in `drlib.mirror.sync.rules.acls`; ACLs are created, never deleted. A cluster without an authorizer is one event
(`AclSyncOff`), and no ACL is created until it has one; an ACL that the target refuses is an event of its own (`AclRefused`).
"""

from __future__ import annotations

from drlib.config.flow_settings import FlowSettings
from drlib.errors import Unreachable
from drlib.kafka.net import acl_requests
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
    """A `tasks.SyncTask`."""

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

    def reset(self) -> None:
        self._refused.clear()

    async def run_once(self) -> None:
        """Create the missing ACLs. Raises `NotAuthorized` where ACLs may not be described, `Unreachable`."""
        flow, policy = self._settings.flow, self._settings.policy
        source_acls = await self._list(self._source, self._source_settings)
        if source_acls is None:
            return
        target_acls = await self._list(self._target, self._target_settings)
        if target_acls is None:
            return
        self._events.resolve(OFF, str(flow))
        wanted = mirrored(
            source_acls, self._settings.mirrors_topic, lambda name: policy.remote_topic(flow.source, name)
        )
        to_create = missing(wanted, target_acls)
        results: list[BrokerError | None] = []
        if to_create:
            results = list(await acl_requests.create_topic_acls(await _any_connection(self._target), to_create))
        refused: set[str] = set()
        for acl, error in zip(to_create, results, strict=True):
            if error is not None and error.code == SECURITY_DISABLED:
                self._report_off(flow.target, error)
            elif error is not None:
                refused.add(str(acl))
                self._events.open(REFUSED, str(acl), _detail(error, "ALTER", self._target_settings))
        for acl_text in self._refused - refused:  # created since, or no longer wanted
            self._events.resolve(REFUSED, acl_text)
        self._refused = refused

    async def _list(self, cluster: ClusterClient, settings: ClusterSettings) -> tuple[TopicAcl, ...] | None:
        """The ACLs of all topics; None, and an event, where the cluster has no authorizer."""
        try:
            return await acl_requests.topic_acls(await _any_connection(cluster))
        except BrokerError as error:
            if error.code == SECURITY_DISABLED:
                self._report_off(settings.alias, error)
                return None
            if error.code in AUTHORIZATION:
                raise not_authorized(Right("cluster", "", ("DESCRIBE",)), settings) from error
            raise

    def _report_off(self, alias: str, error: BrokerError) -> None:
        self._events.open(OFF, str(self._settings.flow), f"{alias} has no authorizer, so no ACLs are copied. {error}")


def _detail(error: BrokerError, operation: str, cluster: ClusterSettings) -> str:
    forbidden = error.code in AUTHORIZATION
    return str(not_authorized(Right("cluster", "", (operation,)), cluster) if forbidden else error)


async def _any_connection(cluster: ClusterClient) -> Connection:
    """A connection to any broker that answers. Raises `Unreachable`."""
    await cluster.metadata([])
    for number, node in enumerate(sorted(cluster.brokers), start=1):
        try:
            return await cluster.connection(node, "acls")
        except Unreachable:
            if number == len(cluster.brokers):
                raise
    raise AssertionError("a cluster that answers has a broker")
