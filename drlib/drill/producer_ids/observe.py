"""Ask both clusters of a flow which producers each partition's leader knows, under the names that producers use. Read-only.

Rules: the target is asked about partitions only that the source has producers of. Our own lanes on the source are left out,
as nothing redirects them; on the target they count. A partition without a leader that answers is named, and hides no other.
What a broker refuses is raised: half a comparison is none.
Rights: Read on the topics on both clusters. Brokers name the transactional IDs only that one may describe.
Not for: judging (`rules`); a source that does not answer: nothing that the mirror keeps has its producers' IDs.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.drill.producer_ids.rules import ComparedIds, Known, find_collisions
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.mirror.sync.rules import local_topics
from drlib.model import TopicPartition

OURS: Final = "drlib."


async def compare_ids(
    flow: FlowSettings,
    aliases: Collection[str],
    source: tuple[ClusterClient, ClusterMetadata],
    target: tuple[ClusterClient, ClusterMetadata],
) -> ComparedIds:
    """The collisions of a flow. `aliases`: of all clusters of the file. Raises what a broker refuses, `Unreachable`."""
    partitions = [
        TopicPartition(name, number)
        for name, topic in sorted(source[1].topics.items())
        if topic.error_code == 0 and written_by_applications(flow, name, aliases)
        for number in topic.partitions
    ]
    here, missing = await known_producers(*source, partitions)
    here = [each for each in here if not each.name.startswith(OURS)]
    shared = sorted({each.partition for each in here if _exists(target[1], each.partition)})
    there, missing_there = await known_producers(*target, shared)
    why = [(str(each), f"{alias} has no leader of it that answers")
           for alias, parts in ((flow.flow.source, missing), (flow.flow.target, missing_there)) for each in parts]  # fmt: skip
    producers = len({(each.state.producer_id, each.state.epoch) for each in here})
    return ComparedIds(len(partitions), producers, find_collisions(here, there), tuple(why))


def written_by_applications(flow: FlowSettings, topic: str, aliases: Collection[str]) -> bool:
    """May applications write to this topic of the source, and so, redirected, to the one of the same name on the target?"""
    if local_topics.keeps_names(flow):
        return flow.mirrors_topic(topic) and not flow.policy.is_heartbeats(topic)
    return local_topics.is_wanted(flow, topic, aliases)


def _exists(metadata: ClusterMetadata, partition: TopicPartition) -> bool:
    topic = metadata.topics.get(partition.topic)
    return topic is not None and partition.partition in topic.partitions


async def known_producers(
    client: ClusterClient, metadata: ClusterMetadata, partitions: Iterable[TopicPartition]
) -> tuple[list[Known], list[TopicPartition]]:
    """What the leaders know, and the partitions without one. Raises what a broker refuses, `Unreachable`."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    missing = []
    for each in partitions:
        leader = metadata.topics[each.topic].partitions[each.partition].leader
        if leader in client.brokers:
            by_leader.setdefault(leader, {}).setdefault(each.topic, []).append(each.partition)
        else:
            missing.append(each)
    if not by_leader:
        return [], missing

    async def names_at(node: int) -> Mapping[int, str]:
        return await requests.transactional_ids(await client.connection(node, "control"))

    async def producers_at(node: int) -> list[tuple[TopicPartition, requests.ProducerState]]:
        connection = await client.connection(node, "control")
        known = await requests.describe_producers(connection, by_leader[node])
        return [(partition, state) for partition, states in known.items() for state in states]

    found, named = await asyncio.gather(
        asyncio.gather(*map(producers_at, by_leader)), asyncio.gather(*map(names_at, client.brokers))
    )
    names = {number: name for each in named for number, name in each.items()}
    return [
        Known(partition, state, names.get(state.producer_id, "")) for rows in found for partition, state in rows
    ], missing
