"""Moves that only read: what tools show of a topic, a group and a broker, and the end of a log.

Rules: an answer is lines of text; it changes nothing and judges nothing. Raises `DrlibError` where a site does not answer.
Not for: what `drlib incident status` shows (`observe`), nor moves that change something (`moves`).
"""

import socket
import ssl
from pathlib import Path
from typing import Final

from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.brokers.jvm_log import tail
from drlib.model import TopicPartition
from drlib.training.incidents.lab.testbed import WATCH, IncidentTestbed

_LINES: Final = 8
_ASK_S: Final = 3.0


def describe_topic(testbed: IncidentTestbed, site: str, topic: str) -> str:
    """The partitions with their log starts and ends, and the configurations that are set on the topic itself."""
    with testbed.cluster(site) as cluster:
        partitions = partitions_of(cluster, topic, site)
        starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
        configured = cluster.topic_config([topic])[topic]
    lines = [f"partition {p.partition}: offsets {starts[p]:,} to {ends[p]:,}" for p in partitions]
    lines += [f"{key}={value}" for key, value in sorted(configured.items())] or ["no configuration is set on it"]
    return "\n".join(lines)


def describe_group(testbed: IncidentTestbed, site: str, group: str) -> str:
    """The group's state and members, and by partition its committed offset, the log end and the lag."""
    with testbed.cluster(site) as cluster:
        described = cluster.group_descriptions([group])[group]
        if isinstance(described, DrlibError):
            raise described
        committed = cluster.group_offsets(group)
        ends = cluster.log_ends(committed)
    lines = [f"{described.state}, {len(described.members)} members"]
    lines += [
        f"{p.topic}-{p.partition}: committed offset {at.offset:,} of {ends[p]:,}, lag {max(0, ends[p] - at.offset):,}"
        for p, at in sorted(committed.items())
    ]
    return "\n".join(lines if committed else [*lines, "no committed offsets"])


def ask_broker(testbed: IncidentTestbed, site: str) -> str:
    """What ps, a TCP connection, a TLS handshake where there is one, and a Metadata request say of the site's broker."""
    broker = testbed.lab.clusters[site].brokers[0]
    state = next((process.state for process in testbed.lab.status() if process.name == broker.name), "")
    try:
        with testbed.cluster(site, _ASK_S) as cluster:
            answer = f"it answers a Metadata request with {len(cluster.topics())} topics"
    except DrlibError:
        answer = f"it does not answer a Metadata request within {_ASK_S:g} s"
    port = "its port accepts connections" if testbed.answers(site) else "its port accepts no connection"
    process = f"process state {state}" if state else "its process has ended"
    certificate = (_certificate(testbed, site),) if testbed.lab.secured and testbed.answers(site) else ()
    return "\n".join((process, port, *certificate, answer))


def _certificate(testbed: IncidentTestbed, site: str) -> str:
    """What a TLS handshake says of the certificate that the site's broker presents."""
    settings = testbed.settings(site)
    host, _, port = settings.bootstrap_servers[0].rpartition(":")
    context = ssl.create_default_context(cafile=settings.security["ssl.truststore.location"])
    try:
        with (
            socket.create_connection((host, int(port)), timeout=_ASK_S) as raw,
            context.wrap_socket(raw, server_hostname=host) as secured,
        ):
            return f"its certificate is valid until {(secured.getpeercert() or {}).get('notAfter')}"
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is refused: {error.verify_message}"
    except OSError as error:
        return f"it makes no TLS connection: {type(error).__name__}"


def read_log(testbed: IncidentTestbed, name: str) -> str:
    """The last lines of the log of a broker, an application or the mirror. Raises `UsageError` for another name."""
    logs = {record.name: record.log for record in testbed.lab.registry.records() if record.name != WATCH}
    if name not in logs:
        raise UsageError(f"log of {name}", "there is no process of that name", f"Use one of {', '.join(logs)}.")
    return tail(Path(logs[name]), _LINES) or "it is empty"


def partitions_of(cluster: Cluster, topic: str, site: str = "LEFT") -> list[TopicPartition]:
    """Raises `UsageError` when the cluster does not have the topic."""
    topics = cluster.topics([topic])
    if topic not in topics:
        raise UsageError(
            f"topic {topic}", f"{site} has no topic of that name", "List the topics: drlib incident status"
        )
    return [TopicPartition(topic, number) for number in range(topics[topic].partitions)]
