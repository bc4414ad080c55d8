"""Where, in a log of a topic that both directions copy under one name, the records of each cluster lie.

Rules: a batch is a copy if a producer ID of the flow to that cluster wrote it, or MirrorMaker 2 before a takeover, as the
flow's journal has it (`OwnRecords`); and the cluster's own otherwise. The log's end
is read first and then the journal, which has each claim before its first batch. No offset map is asked: who judges a flow by
this does not rely on what the flow says of its copies. A journal that is not the one by which copies were recognised says
nothing about them, and is refused. The number of stretches is limited, and so is the memory for them.
Not for: who wrote a batch while it is mirrored (`drlib.mirror.engine.reverse`); how many records crossed late (`crossed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from drlib.config.both_ways.shared_topics import TopicsShared
from drlib.config.settings import MirrorSettings
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.admin.descriptions import Range
from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.taken_part import TakenPart, within
from drlib.mirror.read_batches import concurrently, locate, read_range
from drlib.model import Flow, TopicPartition

MOST: Final = 1_000_000  # stretches of one partition


@dataclass(frozen=True, slots=True)
class SharedMaps:
    """The maps of both directions, each read once. `there` is of `flow`."""

    flow: Flow
    there: Maps
    back: Maps

    def refuse_unknown_copies(self, topic: str) -> None:
        """Raises `TopicsShared` where a journal that says which records of `topic` are copies was deleted."""
        for flow, maps, other in ((self.flow, self.there, self.back), (self.flow.reverse, self.back, self.there)):
            for remembered in _remembered(maps, topic):
                if remembered != other.journal_id:
                    raise _unknown_copies(topic, flow.reverse)


def read_shared_maps(settings: MirrorSettings, flow: Flow) -> SharedMaps:
    """Both directions' maps now. Blocks. Raises as `read_flow_maps` does."""
    there, back = (read_flow_maps(settings, each, shared=True) for each in (flow, flow.reverse))
    return SharedMaps(flow, there, back)


def read_stretches_of(
    settings: MirrorSettings,
    flow: Flow,
    ranges: Mapping[TopicPartition, Range],
    *,
    copies: bool,
    journal: UUID | None = None,
) -> dict[TopicPartition, tuple[Range, ...]]:
    """Where in `ranges` of the logs on the target of `flow` the copies lie that it made, or all other records. Blocks.

    `journal`: the one that has to say so; None for whichever there is. A stretch may include offsets without a record.
    Raises `BrokerError`, `Unreachable`, and `TopicsShared` where the two clusters' records alternate too often, and for
    another journal.
    """
    if not (wanted := {p: each for p, each in ranges.items() if each.start < each.end}):
        return {}
    maps = read_flow_maps(settings, flow, shared=True)
    if journal is not None and maps.journal_id != journal:
        raise _unknown_copies(next(iter(wanted)).topic, flow)
    return blocking(_read(settings, flow, wanted, maps, copies))


async def _read(
    settings: MirrorSettings,
    flow: Flow,
    ranges: Mapping[TopicPartition, Range],
    maps: Maps,
    copies: bool,
) -> dict[TopicPartition, tuple[Range, ...]]:
    async with wire_client(settings.clusters[flow.target], client_id="drlib-origins") as client:
        await client.connect()

        async def one(item: tuple[TopicPartition, Range]) -> tuple[TopicPartition, tuple[Range, ...]]:
            partition, whole = item
            topic_id, leader = await locate(client, partition)
            connection = await client.connection(leader, "read")
            found, taken = Stretches(whole), _taken(maps, partition)
            async for header, _ in read_range(connection, topic_id, partition, whole.start, whole.end, committed=True):
                if taken is not None and header.base_offset < taken.takeover.target_offset:
                    copied = not within(taken.own or (), header.base_offset)
                else:
                    copied = header.magic >= 2 and header.producer_id in maps.producers
                found.add(copied, header.base_offset, header.next_offset)
                if len(found) > MOST:
                    raise TopicsShared(
                        f"which records of {partition} on {flow.target} are copies is not kept",
                        f"they alternate more than {MOST:,} times, more than is kept in memory",
                        f"Name the other topics; or let {partition.topic} keep less, with a shorter retention.ms.",
                    )
            return partition, tuple(found.of(copies))

        return dict(await concurrently(ranges.items(), one))


def _taken(maps: Maps, partition: TopicPartition) -> TakenPart | None:
    """What MirrorMaker 2 copied to a partition of the target. Raises `TopicsShared` where it is not known what that is."""
    names = next((n for n in reversed(maps.names.values()) if n.target_topic == partition.topic), None)
    key = None if names is None else SourcePartition(names.topic_id, partition.partition)
    offsets = None if key is None else maps.by_partition.get(key)
    taken = None if offsets is None else offsets.taken
    if taken is not None and taken.own is None:
        raise TopicsShared(
            f"which records of {partition} are copies by MirrorMaker 2 is not known yet",
            f"they lie below offset {taken.takeover.target_offset}, and are compared while drlib mirror runs",
            "Run 'drlib status': an event TakeoverUnexplained says what is missing.",
        )
    return taken


class Stretches:
    """Batches of one log in offset order, merged while they are of one cluster."""

    def __init__(self, whole: Range) -> None:
        self._whole = whole
        self._found: list[tuple[bool, int, int]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, copied: bool, first: int, end: int) -> None:
        """`first` and `end` may reach beyond the range that is asked for."""
        first, end = max(first, self._whole.start), min(end, self._whole.end)
        if self._found and self._found[-1][0] == copied:
            first = self._found.pop()[1]
        self._found.append((copied, first, end))

    def of(self, copies: bool) -> Iterator[Range]:
        """The stretches of copies, or all others."""
        return (Range(first, end) for copied, first, end in self._found if copied == copies)


def _unknown_copies(topic: str, flow: Flow) -> TopicsShared:
    return TopicsShared(
        f"which records of {topic} on {flow.target} are copies is unknown",
        f"the journal of {flow} on {flow.target} is not the one by which its copies were recognised: it was deleted",
        f"Run 'drlib status': it names the partitions of {topic} that are parked for this, and the remedy.",
    )


def _remembered(maps: Maps, topic: str) -> set[UUID]:
    """The journals by which copies in the newest incarnation of a source topic were recognised."""
    names = next((n for n in reversed(maps.names.values()) if n.source_topic == topic), None)
    journal = None if names is None else maps.reverse_journals.get(names.topic_id)
    return set() if journal is None else {journal}
