"""Reads from the target which transactions it has in part: the journal of a flow, its offset maps, and the two put together.

Rules: the source is not asked. Of a source topic that was re-created the newest one counts. A partition whose map was refused
is one of which nothing is known.
Not for: deciding (`rules`), and a flow that MirrorMaker 2 mirrors, which records no transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drlib.config.settings import MirrorSettings
from drlib.mirror.journal.entries import CommittedTransactions, SourcePartition, Transactions
from drlib.mirror.journal.transactions import GAP, TransactionCommitted, by_partition
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.transactions.rules import Decision, PartitionLog, decide
from drlib.model import Flow, TopicPartition


@dataclass(frozen=True, slots=True)
class TransactionsFound:
    """`committed`: transactions whose partitions are recorded, oldest first. `noted`: were transactions read?"""

    decision: Decision
    committed: tuple[TransactionCommitted, ...]
    noted: bool
    maps: Maps

    @property
    def followed(self) -> bool:
        """Were partitions of transactions recorded at all?"""
        return bool(self.committed)

    def mirrored_to(self, partition: TopicPartition) -> int | None:
        """Below which source offset all is on the target; None where that is not known."""
        offsets = self.maps.source(partition.topic, partition.partition)
        return None if offsets is None else _reached(offsets)

    def mirror_of(self, partition: TopicPartition) -> TopicPartition | None:
        """The mirror of a source partition; None without one."""
        names = [names for names in self.maps.names.values() if names.source_topic == partition.topic]
        return TopicPartition(names[-1].target_topic, partition.partition) if names else None

    def target_offset(self, partition: TopicPartition, offset: int) -> int | None:
        """Where the record at a source offset, or the next one, is in the mirror."""
        offsets = self.maps.source(partition.topic, partition.partition)
        return None if offsets is None else offsets.forward(offset).offset


def find_transactions(settings: MirrorSettings, flow: Flow) -> TransactionsFound:
    """Decide about the newest transactions of a flow's source. Blocks. Raises as `read_flow_maps` does."""
    return found_in(read_flow_maps(settings, flow, shared=True))


def found_in(maps: Maps) -> TransactionsFound:
    slots = by_partition(maps.transactions)
    committed = {entry.number: entry for entry in maps.transactions if isinstance(entry, CommittedTransactions)}
    newest = {names.source_topic: names.topic_id for names in maps.names.values()}
    logs: list[PartitionLog] = []
    keys = set(slots) | set(maps.by_partition) | set(maps.refused)
    for key in sorted(key for key in keys if key.topic_id in maps.names):
        topic = maps.names[key.topic_id].source_topic
        if newest[topic] == key.topic_id:
            logs.append(_log(maps, key, TopicPartition(topic, key.partition), slots.get(key, ())))
    ordered: list[TransactionCommitted] = []
    for number in sorted(committed):
        ordered += committed[number].transactions
    return TransactionsFound(decide(logs, ordered), tuple(ordered), bool(slots), maps)


def _log(maps: Maps, key: SourcePartition, partition: TopicPartition, slots: Sequence[Transactions]) -> PartitionLog:
    offsets = maps.by_partition.get(key)
    reached = None if offsets is None else _reached(offsets)
    events = tuple(event for slot in slots for event in slot.events if event.producer_id != GAP)
    return PartitionLog(partition, reached, events, dropped=bool(slots) and slots[0].number > 0)


def _reached(offsets: PartitionMap) -> int:
    return max(offsets.covered or 0, offsets.source_end or 0)
