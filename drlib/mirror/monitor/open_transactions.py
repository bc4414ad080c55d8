"""Find the open transaction on the source that holds back the records after it, and say how to end it.

Rules: a partition whose last stable offset stays below its high watermark for longer than the flow's
`drlib.open.transaction.warning.seconds` is described, a few partitions at a time, once for each blocking offset. What brokers
do not say (no right to describe, a coordinator that does not answer) is reported as unknown. The source is only read: aborting
is the operator's decision.
Source: KIP-664 (DescribeProducers, ListTransactions, kafka-transactions.sh).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass

from drlib import clock, formats
from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.net import requests
from drlib.kafka.net.api_versions import UnsupportedRequest
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

NAME = "OpenTransaction"
DESCRIBED_AT_ONCE = 4


@dataclass(slots=True)
class _Held:
    offset: int
    since: float
    since_ms: int
    reported: bool = False


class OpenTransactions:
    def __init__(
        self, settings: FlowSettings, cluster: ClusterSettings, source: ClusterClient, events: EventLog
    ) -> None:
        self._after_s = settings.open_transaction_warning_s
        self._cluster = cluster
        self._source = source
        self._events = events
        self._held: dict[TopicPartition, _Held] = {}

    async def check(self, streams: Iterable[PartitionStream]) -> None:
        """Compare the last stable offsets with those of the previous check; open and resolve events."""
        now = time.monotonic()
        blocked: dict[TopicPartition, PartitionStream] = {}
        for stream in streams:
            if 0 <= stream.last_stable < stream.high_watermark:
                blocked[stream.source] = stream
        for partition in [p for p, held in self._held.items() if p not in blocked or _advanced(held, blocked[p])]:
            del self._held[partition]
            self._events.resolve(NAME, str(partition))
        described = 0
        for partition, stream in blocked.items():
            held = self._held.setdefault(partition, _Held(stream.last_stable, now, clock.now_ms()))
            if not held.reported and now - held.since >= self._after_s and described < DESCRIBED_AT_ONCE:
                described += 1
                held.reported = True
                await self._report(stream, held)

    async def _report(self, stream: PartitionStream, held: _Held) -> None:
        partition = stream.source
        try:
            detail = await self._describe(partition, held)
        except (DrlibError, TimeoutError, OSError, KeyError) as error:
            detail = f"{_since(held)} by an unknown producer (it could not be described: {error})"
        waiting = stream.high_watermark - held.offset
        self._events.open(
            NAME,
            str(partition),
            f"offset {held.offset}: {detail}; it holds back {waiting} offsets",
            remedy=(
                f"Let its application end it, or abort it: {self._cluster.tool('kafka-transactions.sh')} abort "
                f"--topic {partition.topic} --partition {partition.partition} --start-offset {held.offset}"
            ),
        )

    async def _describe(self, partition: TopicPartition, held: _Held) -> str:
        metadata = await self._source.metadata([partition.topic])
        leader = metadata.topics[partition.topic].partitions[partition.partition].leader
        connection = await self._source.connection(leader, "forecast")
        states = (await requests.describe_producers(connection, {partition.topic: [partition.partition]}))[partition]
        open_ones = sorted(
            (s for s in states if s.txn_start_offset >= 0), key=lambda s: abs(s.txn_start_offset - held.offset)
        )
        if not open_ones:
            return f"{_since(held)}, and the leader reports no open transaction"
        producer = open_ones[0]
        name, since = "transactional ID unknown", _since(held)
        with contextlib.suppress(UnsupportedRequest):  # before Kafka 3.0
            for node in metadata.brokers:
                coordinator = await self._source.connection(node, "forecast")
                for transactional_id in await requests.list_transactional_ids(coordinator, producer.producer_id):
                    name = f"transactional ID {transactional_id}"
                    state = await requests.describe_transaction(coordinator, transactional_id)
                    if state.started_ms >= 0:
                        started = formats.second(state.started_ms)
                        since = f"open since {started} UTC, transaction time-out {state.timeout_ms / 1000:g} s"
        return f"producer ID {producer.producer_id} ({name}), {since}"


def _advanced(held: _Held, stream: PartitionStream) -> bool:
    return stream.last_stable != held.offset


def _since(held: _Held) -> str:
    return f"held back since {formats.second(held.since_ms)} UTC"
