"""Reads from the target which producers the source had, as workers kept them in the journal: the source is not asked.

Rules: of a source topic that was re-created the newest one counts. A lane that copies and whose worker kept nothing is named:
nothing known is never taken for nothing there. Producers count as well where their topic is mirrored again from the start.
Not for: comparing them with those of the target (`drlib.drill.producer_ids.observe`); a flow that MirrorMaker 2 mirrors,
which keeps none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.requests import ProducerState
from drlib.kafka.protocol import recode
from drlib.mirror.journal.entries import (
    Entry,
    Producers,
    ProducersKnown,
    TopicIdentified,
    TopicNames,
    decode,
)
from drlib.mirror.journal.fields import FORMAT
from drlib.mirror.journal.producers.kinds import KeptProducer
from drlib.mirror.journal.renamed import identified, renamed
from drlib.mirror.offsets.map.load_maps import find_journal
from drlib.mirror.read_batches import locate, read_range
from drlib.mirror.source_producers.leaders import Known
from drlib.model import TopicPartition

_WANTED: Final = frozenset(
    bytes((FORMAT, each.KIND)) for each in (Producers, ProducersKnown, TopicIdentified, TopicNames)
)
_PURPOSE: Final = "kept-producers"


@dataclass(frozen=True, slots=True)
class KeptOfSource:
    """The producers of a flow's source. Times in ms since the epoch.

    `topics`: that are mirrored; `asked_ms`: when the leaders of all partitions named theirs, 0 where those of a lane never did;
    `copied_ms`: up to when those of copied records are among them; `left_out`: how many there was no room for; `lanes`: those
    that kept nothing.
    """

    known: tuple[Known, ...] = ()
    topics: frozenset[str] = frozenset()
    asked_ms: int = 0
    copied_ms: int = 0
    left_out: int = 0
    lanes: tuple[int, ...] = ()


async def read_kept(target: ClusterClient, journal_topic: str) -> KeptOfSource:
    """What the journal of a flow has. Raises `JournalMissing`, `JournalCorrupt`, other `BrokerError`s, and `Unreachable`."""
    numbers = sorted((await find_journal(target, journal_topic)).partitions)
    read = await asyncio.gather(*(_read(target, TopicPartition(journal_topic, number)) for number in numbers))
    return kept_in(dict(zip(numbers, read, strict=True)))


def kept_in(journals: Mapping[int, Sequence[Entry]]) -> KeptOfSource:
    """The same, of the entries of each lane, oldest first. Pure."""
    known: list[Known] = []
    states: list[ProducersKnown] = []
    topics: set[str] = set()
    silent: list[int] = []
    for lane, entries in journals.items():
        newest = {each.source_topic: each.topic_id for each in entries if isinstance(each, TopicNames)}
        names = {topic_id: topic for topic, topic_id in newest.items()}
        state = [each for each in entries if isinstance(each, ProducersKnown)]
        states += state
        silent += [lane] if names and not state else []
        topics |= newest.keys()
        known += [
            Known(TopicPartition(names[slot.partition.topic_id], slot.partition.partition), _state(each), each.name)
            for slot in entries
            if isinstance(slot, Producers) and slot.partition.topic_id in names
            for each in slot.producers
        ]
    return KeptOfSource(
        tuple(known),
        frozenset(topics),
        0 if silent else min((each.asked_ms for each in states), default=0),
        min((each.copied_ms for each in states), default=0),
        sum(each.left_out for each in states),
        tuple(silent),
    )


def _state(each: KeptProducer) -> ProducerState:
    marker = 0 if each.transactional else -1
    return ProducerState(each.producer_id, each.epoch, -1, each.last_ms or -1, coordinator_epoch=marker)


async def _read(target: ClusterClient, partition: TopicPartition) -> list[Entry]:
    """The entries of a journal partition that say something of producers, oldest first."""
    topic_id, leader = await locate(target, partition)
    connection = await target.connection(leader, _PURPOSE)
    starts = await requests.list_offsets(connection, [partition], requests.EARLIEST)
    ends = await requests.list_offsets(connection, [partition], requests.LATEST)
    newest: dict[bytes, bytes] = {}
    async for header, view in read_range(connection, topic_id, partition, starts[partition], ends[partition]):
        for record in recode.records(view) if not header.is_control else ():
            if record.key is None or bytes(record.key[:2]) not in _WANTED:
                continue
            newest.pop(record.key, None)
            if record.value is not None:
                newest[record.key] = record.value
    entries = [decode(key, value) for key, value in newest.items()]
    return renamed(entries, identified(entries))
