"""Lookups of partitions: what the metadata of a cluster says, and what it means where a topic was created again."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence

import pytest

from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata, PartitionMetadata, TopicMetadata
from drlib.kafka.protocol.error_codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, BrokerError
from drlib.mirror.read_batches import locate, record_at
from drlib.model import TopicPartition

TOPIC_ID = uuid.UUID(int=7)


class Client(ClusterClient):
    """A cluster that has one topic, `orders`, with partition 0 led by broker 5 and partition 1 without a leader."""

    def __init__(self) -> None:
        super().__init__(["127.0.0.1:1"])

    async def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        partitions = {n: PartitionMetadata(n, leader, 0, (5,), (5,), 0) for n, leader in ((0, 5), (1, -1))}
        return ClusterMetadata("c", 5, {}, {"orders": TopicMetadata("orders", TOPIC_ID, 0, partitions, internal=False)})


def test_locate_gives_topic_id_and_leader() -> None:
    assert asyncio.run(locate(Client(), TopicPartition("orders", 0))) == (TOPIC_ID, 5)


@pytest.mark.parametrize(("partition", "code"), [(1, LEADER_NOT_AVAILABLE), (2, UNKNOWN_TOPIC_OR_PARTITION)])
def test_locate_of_a_partition_without_a_leader_or_of_none_is_a_brokers_error(partition: int, code: int) -> None:
    with pytest.raises(BrokerError) as caught:
        asyncio.run(locate(Client(), TopicPartition("orders", partition)))
    assert caught.value.code == code


def test_record_at_of_a_topic_created_again_with_fewer_partitions_is_not_there() -> None:
    assert asyncio.run(record_at(Client(), TopicPartition("orders", 2), TOPIC_ID, 0)) is None
