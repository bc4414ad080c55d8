"""Records that were first written on one cluster of a flow whose topics both directions copy: which are its own, and how many
crossed only after the applications had moved.

Rules: a batch is the cluster's own unless a producer ID of the flow back wrote it; a claim is journaled before its first batch,
so the log's end is read first, and then the journal. The pointer says where the target's logs ended when applications moved:
what the flow wrote behind that crossed late. Such records are on both clusters; nothing is settled.
Not for: topics that one direction copies (`find`), positions of groups (`shared_logs`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from drlib.config.settings import MirrorSettings
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.admin.descriptions import CommittedOffset, Range
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.read_batches import concurrently, locate, read_range
from drlib.model import Flow, TopicPartition


@dataclass(frozen=True, slots=True)
class TopicCrossed:
    """Records of one topic that were first written on the source: `crossed` are on the target since the applications moved
    there, `left` are still to be copied."""

    topic: str
    crossed: int
    left: int


@dataclass(frozen=True, slots=True)
class Crossed:
    """`read_there`: by group, how many of the crossed records it had read on the source; `read_there_at_most`: or fewer, as the
    flow back may have written its position there, and so what it read on the target."""

    topics: tuple[TopicCrossed, ...]
    read_there: Mapping[str, int]
    read_there_at_most: bool = False

    @property
    def records(self) -> int:
        return sum(each.crossed for each in self.topics)

    @property
    def left(self) -> int:
        return sum(each.left for each in self.topics)


def count_own(
    settings: MirrorSettings, flow: Flow, ranges: Mapping[TopicPartition, Range]
) -> dict[TopicPartition, int]:
    """How many records in `ranges` of the flow's source its own clients wrote, by partition. Blocks.

    Raises `BrokerError` or `Unreachable`.
    """
    if not (wanted := {p: each for p, each in ranges.items() if each.start < each.end}):
        return {}
    copying = read_flow_maps(settings, flow.reverse, shared=True).producers
    return blocking(_count_own(settings, flow, wanted, copying))


async def _count_own(
    settings: MirrorSettings, flow: Flow, ranges: Mapping[TopicPartition, Range], copying: Collection[int]
) -> dict[TopicPartition, int]:
    async with wire_client(settings.clusters[flow.source], client_id="drlib-crossed") as client:
        await client.connect()

        async def one(item: tuple[TopicPartition, Range]) -> tuple[TopicPartition, int]:
            partition, there = item
            topic_id, leader = await locate(client, partition)
            connection = await client.connection(leader, "read")
            own = 0
            async for header, _ in read_range(connection, topic_id, partition, there.start, there.end, committed=True):
                if header.magic < 2 or header.producer_id not in copying:
                    inside = min(header.next_offset, there.end) - max(header.base_offset, there.start)
                    own += min(header.count, inside)
            return partition, own

        return dict(await concurrently(ranges.items(), one))


def crossed_late(
    maps: Maps,
    moved_at: Mapping[str, tuple[int, ...]],
    left: Mapping[TopicPartition, int],
    positions: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
    *,
    synchronized: bool = False,
) -> Crossed:
    """`moved_at`: where the target's logs of each topic ended when the applications moved; `left`: own records that are not
    copied yet; `positions`: of groups on the source, `synchronized` by the flow back or not. Pure."""
    topics: dict[str, tuple[int, int]] = {}
    read_there = dict.fromkeys(positions, 0)
    for topic, ends in sorted(moved_at.items()):
        for number, end in enumerate(ends):
            partition = TopicPartition(topic, number)
            offsets = maps.source(topic, number) or PartitionMap()
            crossed, waiting = topics.get(topic, (0, 0))
            reached = max(end, offsets.target_end or 0)
            topics[topic] = crossed + offsets.segments_on_target(end, reached), waiting + left.get(partition, 0)
            for group, at in positions.items():
                if partition in at:
                    read_there[group] += offsets.segments().straddling(at[partition].offset, end)
    return Crossed(
        tuple(TopicCrossed(topic, *counts) for topic, counts in topics.items() if any(counts)),
        {group: count for group, count in sorted(read_there.items()) if count},
        synchronized,
    )
