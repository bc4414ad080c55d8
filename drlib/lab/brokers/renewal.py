"""Certificates of running brokers, replaced without a restart: dynamic broker configurations (KIP-226).

Rules: a certificate has the subject and names of the one before, which Kafka demands, and a file of its own, because a broker
reads a file again when the name of it changes. It counts for connections that are made from then on; those that exist stay as
they are. Requests go through INTERNAL.
Not for: certificates of clients.
"""

import ssl
from datetime import datetime
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from drlib.errors import Unreachable, UsageError
from drlib.files import read_stored
from drlib.lab.brokers.broker import HOST
from drlib.lab.brokers.cluster import Cluster
from drlib.lab.processes import wait_until

_S: Final = 30.0
_SUBJECT: Final = "broker"


def renew_certificate(cluster: Cluster, until: datetime | None = None) -> None:
    """Let the brokers of `cluster` present a new certificate; `until`: when it expires, else after years.

    They present it when this returns. Raises `UsageError` for a lab without TLS, `Unreachable`, `KafkaException`,
    `MissingDependency`.
    """
    vault = cluster.vault
    listeners = [] if vault is None else [n for n, protocol in vault.security.listeners.items() if protocol.encrypted]
    if vault is None or not listeners:
        raise UsageError(
            f"{cluster.alias} has no certificate", "its listeners have no TLS", "Start a lab with --secured."
        )
    taken = len(list(vault.authority.folder.glob(f"{_SUBJECT}-{cluster.alias}-*.pem")))
    file = vault.authority.issue(_SUBJECT, file=f"{_SUBJECT}-{cluster.alias}-{taken + 1}", until=until)
    entries = [
        ConfigEntry(
            f"listener.name.{name.lower()}.ssl.keystore.location",
            str(file),
            incremental_operation=AlterConfigOpType.SET,
        )
        for name in listeners
    ]
    resources = [
        ConfigResource(ResourceType.BROKER, str(broker.spec.node_id), incremental_configs=entries)
        for broker in cluster.brokers
    ]
    admin = AdminClient({"bootstrap.servers": cluster.internal_bootstrap, "log_level": 0, **cluster.broker_client()})
    for changed in admin.incremental_alter_configs(resources, request_timeout=_S).values():
        changed.result(_S + 1)
    for broker in cluster.brokers:  # the change is in effect a moment later, at one listener after the other
        spec = broker.spec
        known = {"CLIENT": spec.client_port, "LINK": spec.link_port, "APPS": spec.apps_port, **spec.more}
        ports = [known[name] for name in listeners if known[name]]
        if not wait_until(lambda at=ports: all(_presents(port, file) for port in at), _S):  # type: ignore[misc]
            raise Unreachable(
                f"broker {broker.name} does not present its new certificate",
                f"waited {_S:g} s",
                f"Read {broker.log}.",
            )


def _presents(port: int, file: Path) -> bool:
    """Does the listener at `port` present the certificate in `file`?"""
    try:
        return ssl.get_server_certificate((HOST, port), timeout=_S).strip().encode() in read_stored(file)
    except OSError:
        return False
