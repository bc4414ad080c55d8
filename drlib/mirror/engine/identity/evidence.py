"""Asks both clusters what shows whether a source topic is still the one that was mirrored.

Rules: a few records of each partition are compared, by key, value, headers and, where neither log has times of its own, time.
A batch that was compared with the mirror proves the log from then on, as long as it is there (`Proof`).
Not for: deciding (`rules`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import BatchHeader, iter_batches
from drlib.kafka.protocol.error_codes import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, BrokerError, raise_for
from drlib.kafka.protocol.fetch import FetchPartition, Proof
from drlib.mirror.engine.identity.rules import Evidence
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.read_batches import locate, read_range
from drlib.model import TopicPartition

PURPOSE: Final = "read"
SAMPLE_BYTES: Final = 64 << 10
MOST_COMPARED: Final = 5  # records at each end of what is left


@dataclass(frozen=True, slots=True)
class Question:
    """A partition whose log is to be compared. `topic_id`: by which the source is asked; `read_epoch`: the newest leader epoch
    that was read; `node`: the leader of the source's partition."""

    source: TopicPartition
    topic_id: uuid.UUID
    node: int
    target: TopicPartition
    target_id: uuid.UUID | None
    map: PartitionMap
    position: int
    read_epoch: int
    proof: Proof | None = None  # a batch that was read within this claim


@dataclass(frozen=True, slots=True)
class _Sample:
    """A record of the source, and whether its time can be compared."""

    record: recode.Record
    timed: bool


Batches = Sequence[tuple[BatchHeader, memoryview]]


async def gather(source: ClusterClient, target: ClusterClient, asked: Question) -> tuple[Evidence, Proof | None]:
    """The evidence about one partition, and a batch of it below the position.

    Raises `BrokerError`, `Unreachable`, `CorruptBatch`.
    """
    connection = await source.connection(asked.node, PURPOSE)
    partition, position = asked.source, asked.position
    start = (await requests.list_offsets(connection, [partition], requests.EARLIEST))[partition]
    end, epoch = (await requests.list_offset_epochs(connection, [partition], requests.LATEST))[partition]
    if asked.proof is not None and await _holds(connection, asked, asked.proof):
        return Evidence(position, start, end, asked.read_epoch, epoch, newest=True), asked.proof
    left = min(position, end)
    newest = oldest = proof = None
    if start < left:
        last = asked.map.segments()[-1:]
        high = await _batches(connection, asked, max(start, min(left, last[0].source_end if last else left) - 1))
        low = await _batches(connection, asked, start)
        behind = sorted(_samples(high, left), key=lambda sample: -sample.record.offset)
        newest = await _agree(target, asked, behind)
        oldest = await _agree(target, asked, sorted(_samples(low, left), key=lambda sample: sample.record.offset))
        whole = [(header, view) for header, view in (*low, *high) if header.next_offset <= left]
        proof = Proof.of(whole[-1][0].base_offset, whole[-1][1]) if whole else None
        if low and low[-1][0].next_offset >= position and not any(_samples(low, position)):
            start = position  # markers and empty batches: no record is left
    return Evidence(position, start, end, asked.read_epoch, epoch, newest, oldest), proof


async def agrees(source: ClusterClient, target: ClusterClient, asked: Question, end: int) -> bool | None:
    """Is the newest record that was mirrored of those below `end` the same on both clusters? False also where the source's log
    ends below it, or has a marker in its place; None: one has it no longer, or none was mirrored."""
    found = asked.map.segments().find_source(end - 1)
    if found is None:
        return None
    end = min(end, found[0].source_end)
    connection = await source.connection(asked.node, PURPOSE)
    try:
        batches = await _batches(connection, asked, end - 1, most_bytes=1)
    except BrokerError as error:
        if error.code != OFFSET_OUT_OF_RANGE:
            raise
        batches = ()
    if not batches:
        log_end = (await requests.list_offsets(connection, [asked.source], requests.LATEST))[asked.source]
        return False if log_end < end else None
    if batches[0][0].is_control and batches[0][0].base_offset < end:
        return False
    return await _agree(target, asked, sorted(_samples(batches, end), key=lambda sample: -sample.record.offset))


async def first_other(source: ClusterClient, target: ClusterClient, asked: Question, high: int) -> int:
    """From which offset on, `high` at most, the source's log is not the one that was mirrored. By bisection: a log that went
    back has the same records up to one offset, and others from there on."""
    connection = await source.connection(asked.node, PURPOSE)
    low = (await requests.list_offsets(connection, [asked.source], requests.EARLIEST))[asked.source]
    while low < high:
        middle = (low + high) // 2
        same = await agrees(source, target, asked, middle + 1)
        if same is None:
            break
        low, high = (middle + 1, high) if same else (low, middle)
    return low


async def _holds(connection: Connection, asked: Question, proof: Proof) -> bool:
    """Does the source's log still have a batch?"""
    wanted = FetchPartition(asked.source.topic, asked.topic_id, asked.source.partition, proof.offset, proof.size)
    (answer,) = await requests.fetch(connection, [wanted], min_bytes=0, max_bytes=proof.size, read_committed=False)
    raise_for(0 if answer.error_code == OFFSET_OUT_OF_RANGE else answer.error_code, f"reading {asked.source}")
    return proof.holds(answer.records)


async def _batches(connection: Connection, asked: Question, offset: int, *, most_bytes: int = SAMPLE_BYTES) -> Batches:
    """The first batches of the source's log from `offset` on, one at least."""
    wanted = FetchPartition(asked.source.topic, asked.topic_id, asked.source.partition, offset, most_bytes)
    (answer,) = await requests.fetch(connection, [wanted], min_bytes=0, max_bytes=most_bytes, read_committed=False)
    raise_for(answer.error_code, f"reading {asked.source} at {offset}", topics=[asked.source.topic])
    return [(header, view) for header, view in iter_batches(answer.records) if header.next_offset > offset]


def _samples(batches: Batches, end: int) -> Iterator[_Sample]:
    """The records of `batches` below offset `end`."""
    for header, view in batches:
        if header.is_control or header.base_offset >= end:
            continue
        timed = header.magic >= 2 and not header.is_log_append_time
        for record in recode.records(view):
            if record.offset < end:
                yield _Sample(record, timed)


async def _agree(target: ClusterClient, asked: Question, samples: Sequence[_Sample]) -> bool | None:
    """Is the first of `samples` that both logs still have the same record on both? None: there is none."""
    compared = 0
    for sample in samples:
        found = asked.map.segments().find_source(sample.record.offset)
        if found is None or not found[0].source <= sample.record.offset < found[0].source_end:
            continue  # never mirrored, as a record of an aborted transaction, or not known any more
        if compared == MOST_COMPARED:
            break
        compared += 1
        copy = await _copy(target, asked, found[0].target + sample.record.offset - found[0].source)
        if copy is not None:
            return _digest(sample, timed=copy.timed) == _digest(copy, timed=sample.timed)
    return None


def _digest(sample: _Sample, *, timed: bool) -> bytes:
    record = sample.record
    return recode.digest(record.key, record.value, record.headers, record.timestamp if timed and sample.timed else None)


async def _copy(target: ClusterClient, asked: Question, offset: int) -> _Sample | None:
    """The record of the mirror at `offset`; None where it is gone."""
    try:
        found_id, leader = await locate(target, asked.target)
        if found_id != asked.target_id:
            return None
        connection = await target.connection(leader, PURPOSE)
        async for header, view in read_range(connection, found_id, asked.target, offset, offset + 1):
            for record in () if header.is_control else recode.records(view):
                if record.offset == offset:
                    return _Sample(record, header.magic >= 2 and not header.is_log_append_time)
    except BrokerError as error:
        if error.code not in (OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION):
            raise
    return None
