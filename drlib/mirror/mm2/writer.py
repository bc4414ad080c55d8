"""Writes MM2's own records, heartbeats, offset syncs and checkpoints, so that MM2's clients work with our flows.

Rules: bytes by `drlib.mirror.mm2.records`, everything to partition 0, no tombstones. These records only inform: a lost one
is superseded by the next, so an ordinary idempotent producer suffices, and a source that is down delays its offset syncs
without delaying anything else.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.mm2.records import Checkpoint, Heartbeat, OffsetSync

POSITION_HEADER = "drlib.position"  # the group's committed source offset, where the mirror was behind it
AS_OF_HEADER = "drlib.as-of-ms"  # when that was known to be its position


class Mm2Writer:
    """Writes one flow's records; call `poll` from the event loop and `close` at the end."""

    def __init__(self, settings: FlowSettings, source: ClusterSettings, target: ClusterSettings) -> None:
        self._flow = settings.flow
        policy = settings.policy
        self._heartbeats = policy.heartbeats_topic
        self._checkpoints = policy.checkpoints_topic(settings.flow.source)
        to_source = settings.offset_syncs_location == "source"
        other = settings.flow.target if to_source else settings.flow.source
        self._syncs = policy.offset_syncs_topic(other)
        self._target = _producer(target)
        self._sync_producer = _producer(source) if to_source else self._target
        self.failures = 0

    def heartbeat(self) -> None:
        now = clock.now_ms()
        beat = Heartbeat(self._flow.source, self._flow.target, now)
        self._produce(self._target, self._heartbeats, beat.key(), beat.value(), timestamp=now)

    def checkpoint(self, checkpoint: Checkpoint, position: int, as_of_ms: int) -> None:
        headers = [(POSITION_HEADER, str(position).encode()), (AS_OF_HEADER, str(as_of_ms).encode())]
        self._produce(self._target, self._checkpoints, checkpoint.key(), checkpoint.value(), headers=headers)

    def offset_syncs(self, syncs: Sequence[OffsetSync]) -> None:
        for sync in syncs:
            self._produce(self._sync_producer, self._syncs, sync.key(), sync.value())

    def poll(self) -> None:
        self._target.poll(0)
        self._sync_producer.poll(0)

    def close(self, timeout_s: float) -> None:
        """Flush the target's records; offset syncs for a source that does not answer are dropped."""
        self._target.flush(timeout_s)
        if self._sync_producer is not self._target and self._sync_producer.flush(min(timeout_s, 0.5)):
            self._sync_producer.purge()

    def _produce(
        self,
        producer: Producer,
        topic: str,
        key: bytes,
        value: bytes,
        *,
        timestamp: int = 0,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:
        try:
            producer.produce(
                topic,
                value=value,
                key=key,
                partition=0,
                timestamp=timestamp,
                headers=headers or [],
                on_delivery=self._delivered,
            )
        except (BufferError, KafkaException):  # the queue is full, or the topic is known to be unauthorized
            self.failures += 1

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failures += 1


def _producer(cluster: ClusterSettings) -> Producer:
    return Producer(
        {
            **cluster.confluent(),
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 100_000,
            "message.timeout.ms": 30_000,
            "log_level": 0,
        }
    )
