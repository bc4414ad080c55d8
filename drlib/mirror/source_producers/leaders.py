"""Ask the leaders of partitions which producers they know, and every broker for the transactional IDs of these. Read-only.

Rules: a partition without a leader that answers is named, and hides no other. What a broker refuses is raised.
Rights: Read on the topics. Brokers name the transactional IDs only that one may describe.
Source: KIP-664 (DescribeProducers from Kafka 2.8 on, ListTransactions from 3.0 on).
Not for: what is kept of them (`recorder`), and what collides (`drlib.drill.producer_ids.rules`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.net.requests import ProducerState
from drlib.model import TopicPartition

OURS: Final = "drlib."
"""Transactional IDs of lanes begin with it: nothing redirects them."""
_AT_ONCE: Final = 200  # partitions of one request: an answer that is decoded at once has to be small


@dataclass(frozen=True, slots=True)
class Known:
    """A producer that the leader of `partition` has state of; `name` is its transactional ID, "" where that is not known."""

    partition: TopicPartition
    state: ProducerState
    name: str = ""


async def ask_leaders(
    client: ClusterClient, metadata: ClusterMetadata, partitions: Iterable[TopicPartition], purpose: str = "control"
) -> tuple[list[Known], list[TopicPartition]]:
    """What the leaders know, and the partitions without one. `purpose`: of the connections.

    Raises `BrokerError`, `Unreachable`, and `UnsupportedRequest` of an old broker.
    """
    by_leader: dict[int, list[TopicPartition]] = {}
    missing = []
    for each in partitions:
        leader = metadata.topics[each.topic].partitions[each.partition].leader
        if leader in client.brokers:
            by_leader.setdefault(leader, []).append(each)
        else:
            missing.append(each)
    if not by_leader:
        return [], missing

    async def names_at(node: int) -> Mapping[int, str]:
        return await requests.transactional_ids(await client.connection(node, purpose))

    async def producers_at(node: int) -> list[tuple[TopicPartition, ProducerState]]:
        connection = await client.connection(node, purpose)
        rows = []
        for part in _parts(by_leader[node]):
            known = await requests.describe_producers(connection, part)
            rows += [(partition, state) for partition, states in known.items() for state in states]
        return rows

    found, named = await asyncio.gather(
        asyncio.gather(*map(producers_at, by_leader)), asyncio.gather(*map(names_at, client.brokers))
    )
    names = {number: name for each in named for number, name in each.items()}
    return [
        Known(partition, state, names.get(state.producer_id, "")) for rows in found for partition, state in rows
    ], missing


def _parts(partitions: list[TopicPartition]) -> Iterator[Mapping[str, list[int]]]:
    for first in range(0, len(partitions), _AT_ONCE):
        part: dict[str, list[int]] = {}
        for each in partitions[first : first + _AT_ONCE]:
            part.setdefault(each.topic, []).append(each.partition)
        yield part
