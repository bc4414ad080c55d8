"""Finds topics that hold transactions: of a transaction over several partitions, a part may be visible on the other cluster.

Rules: a mirror copies committed records, each partition on its own, so that at any moment, and after a failover, one partition
may be past a transaction that another has not reached. A topic counts where a partition's leader knows a producer that has
ended a transaction there, or has one open; leaders forget producers after `producer.id.expiration.ms`, a day by default. Where
the source does not answer, nothing is said.
Source: DescribeProducers (KIP-664), whose `coordinatorEpoch` is -1 for producers without transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.read_batches import concurrently
from drlib.model import Flow

PATIENCE_S: Final = 3.0  # with the source: during a failover it may be silent


def visible_in_part(settings: MirrorSettings, flow: Flow, topics: Iterable[str]) -> str:
    """One sentence about those of `topics`, on the flow's source, that hold transactions; "" where none is known to. Blocks."""
    try:
        found = blocking(_transactional_topics(settings.clusters[flow.source], sorted(set(topics))))
    except (DrlibError, TimeoutError, OSError):
        return ""
    return sentence(found, flow)


def sentence(topics: Iterable[str], flow: Flow) -> str:
    """What to know about the transactions in `topics`; "" without any."""
    names = ", ".join(sorted(topics))
    if not names:
        return ""
    return (
        f"{names}: written in transactions. Each partition is mirrored on its own, so of a transaction over several partitions "
        f"a part may be visible on {flow.target} before the rest, also at a group's translated positions."
    )


async def _transactional_topics(cluster: ClusterSettings, topics: list[str]) -> set[str]:
    if not topics:
        return set()
    async with asyncio.timeout(PATIENCE_S), wire_client(cluster, client_id="drlib-transactions") as client:
        metadata = await client.metadata(topics)
        by_leader: dict[int, dict[str, list[int]]] = {}
        for name, topic in metadata.topics.items():
            for number, partition in topic.partitions.items():
                if not topic.error_code and partition.leader >= 0:
                    by_leader.setdefault(partition.leader, {}).setdefault(name, []).append(number)
        answers = await concurrently(by_leader.items(), lambda led: _of_leader(client, *led))
    return {name for names in answers for name in names}


async def _of_leader(client: ClusterClient, node: int, partitions: dict[str, list[int]]) -> set[str]:
    connection = await client.connection(node, "control")
    producers = await requests.describe_producers(connection, partitions)
    return {partition.topic for partition, known in producers.items() if any(p.transactional for p in known)}
