"""Where the source's logs begin and end, as far as the leaders of the partitions answer.

Rules: leaders are asked at the same time. One that does not answer leaves its own partitions unknown, and is named; where none
answers, that is an error.
Not for: which brokers answer at all (`drlib.kafka.admin.reachability`), what lag follows (`drlib.mirror.monitor.survey`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from drlib.errors import Unreachable
from drlib.kafka.admin.reachability import ClusterService
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.model import TopicPartition

Offsets = Mapping[TopicPartition, int]
Ends = tuple[Offsets, Offsets, Offsets]


@dataclass(frozen=True)
class SourceState:
    """Offsets of the mirrored partitions whose leader answered. `stable`: last stable offsets; `partly`: which brokers did not
    answer, empty where all did."""

    ends: Offsets
    starts: Offsets
    stable: Offsets
    metadata: ClusterMetadata
    partly: str = ""


async def read_source(
    client: ClusterClient, service: ClusterService, mirrored: Callable[[str], bool], timeout_s: float
) -> SourceState:
    """Ask the leaders of the topics that are `mirrored`, within `timeout_s`.

    Raises `Unreachable` or TimeoutError where the only leader does not answer, and `BrokerError`.
    """
    by_leader: dict[int, list[TopicPartition]] = {}
    for name, topic in service.metadata.topics.items():
        if topic.error_code == 0 and mirrored(name):
            for number, partition in topic.partitions.items():
                if partition.leader >= 0:
                    by_leader.setdefault(partition.leader, []).append(TopicPartition(name, number))
    silent = dict(service.silent)

    async def of_leader(leader: int) -> Ends | None:
        try:
            async with asyncio.timeout(timeout_s):
                return await _ends_of(client, leader, by_leader[leader])
        except (Unreachable, TimeoutError) as error:
            if len(by_leader) == 1:
                raise
            silent[leader] = str(error) or "no answer"
            return None

    answering = [leader for leader in by_leader if leader not in silent]
    answers = [each for each in await asyncio.gather(*map(of_leader, answering)) if each is not None]
    ends, starts, stable = ({tp: at for each in answers for tp, at in each[kind].items()} for kind in range(3))
    return SourceState(ends, starts, stable, service.metadata, partly(service.metadata, silent, by_leader))


async def _ends_of(client: ClusterClient, leader: int, partitions: Sequence[TopicPartition]) -> Ends:
    """Log ends, log starts and last stable offsets of what `leader` leads."""
    connection = await client.connection(leader)
    return (
        await requests.list_offsets(connection, partitions, requests.LATEST),
        await requests.list_offsets(connection, partitions, requests.EARLIEST),
        await requests.list_offsets(connection, partitions, requests.LATEST, "read_committed"),
    )


def partly(
    metadata: ClusterMetadata, silent: Mapping[int, str], by_leader: Mapping[int, Sequence[TopicPartition]]
) -> str:
    """Which brokers do not answer, and how many mirrored partitions they lead; empty where these lead none."""
    unknown = sum(len(partitions) for leader, partitions in by_leader.items() if leader in silent)
    if not unknown:
        return ""
    whom = ", ".join(f"broker {node}" for node in sorted(silent)[:5])
    return (
        f"{len(silent)} of {len(metadata.brokers)} brokers do not answer ({whom}); they lead {unknown} mirrored partitions, "
        "whose ends are unknown"
    )
