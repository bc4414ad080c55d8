"""Finds the open transaction on the source that holds everything behind it back, and says how to end it.

Rules: a partition whose last stable offset stays below its high watermark for longer than the flow's
`drlib.open.transaction.warning.seconds` is asked about, a few partitions a look, once per offset that blocks. What the
brokers do not tell (no right to describe, a coordinator that does not answer) is said as unknown. The source is only
read: aborting is a person's decision.
Source: KIP-664 (DescribeProducers, ListTransactions, kafka-transactions.sh).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

NAME = "OpenTransaction"
LOOKS_AT_ONCE = 4


@dataclass(slots=True)
class _Held:
    offset: int
    since: float
    since_ms: int
    told: bool = False


class OpenTransactions:
    def __init__(
        self, settings: FlowSettings, cluster: ClusterSettings, source: ClusterClient, events: EventLog
    ) -> None:
        self._after_s = settings.open_transaction_warning_s
        self._cluster = cluster
        self._source = source
        self._events = events
        self._held: dict[TopicPartition, _Held] = {}

    async def look(self, streams: Iterable[PartitionStream]) -> None:
        """Compare the last stable offsets with those of the look before; open and resolve events."""
        now = time.monotonic()
        blocked: dict[TopicPartition, PartitionStream] = {}
        for stream in streams:
            if 0 <= stream.last_stable < stream.high_watermark:
                blocked[stream.source] = stream
        for partition in [p for p, held in self._held.items() if p not in blocked or _moved(held, blocked[p])]:
            del self._held[partition]
            self._events.resolve(NAME, str(partition))
        asked = 0
        for partition, stream in blocked.items():
            held = self._held.setdefault(partition, _Held(stream.last_stable, now, clock.now_ms()))
            if not held.told and now - held.since >= self._after_s and asked < LOOKS_AT_ONCE:
                asked += 1
                held.told = True
                await self._tell(stream, held)

    async def _tell(self, stream: PartitionStream, held: _Held) -> None:
        partition = stream.source
        try:
            detail = await self._who(partition, held)
        except (DrlibError, TimeoutError, OSError, KeyError) as error:
            detail = f"held back since {_clock(held.since_ms)} by a producer that could not be asked for ({error})"
        waiting = stream.high_watermark - held.offset
        self._events.open(
            NAME,
            str(partition),
            f"offset {held.offset}: {detail}; {waiting} offsets wait behind it",
            remedy=(
                "Let its application end it, or abort it: kafka-transactions.sh --bootstrap-server "
                f"{','.join(self._cluster.bootstrap_servers)} abort --topic {partition.topic} "
                f"--partition {partition.partition} --start-offset {held.offset}"
            ),
        )

    async def _who(self, partition: TopicPartition, held: _Held) -> str:
        metadata = await self._source.metadata([partition.topic])
        leader = metadata.topics[partition.topic].partitions[partition.partition].leader
        connection = await self._source.connection(leader, "forecast")
        states = (await requests.describe_producers(connection, {partition.topic: [partition.partition]}))[partition]
        open_ones = sorted(
            (s for s in states if s.txn_start_offset >= 0), key=lambda s: abs(s.txn_start_offset - held.offset)
        )
        if not open_ones:
            return f"held back since {_clock(held.since_ms)}, and the leader names no open transaction"
        producer = open_ones[0]
        name, since = "transactional ID unknown", f"held back since {_clock(held.since_ms)}"
        for node in metadata.brokers:
            coordinator = await self._source.connection(node, "forecast")
            for transactional_id in await requests.list_transactional_ids(coordinator, producer.producer_id):
                name = f"transactional ID {transactional_id}"
                state = await requests.describe_transaction(coordinator, transactional_id)
                if state.started_ms >= 0:
                    since = f"open since {_clock(state.started_ms)}, its time-out is {state.timeout_ms / 1000:g} s"
        return f"producer ID {producer.producer_id} ({name}), {since}"


def _moved(held: _Held, stream: PartitionStream) -> bool:
    return stream.last_stable != held.offset


def _clock(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
