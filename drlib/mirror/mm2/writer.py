"""Writes MM2's own records, heartbeats, offset syncs and checkpoints, so that MM2's clients work with our flows.

Rules: bytes by `drlib.mirror.mm2.records`, everything to partition 0, no tombstones. These records only inform: a lost one
is superseded by the next, so an ordinary idempotent producer suffices, and a source that is down delays its offset syncs
without delaying anything else. Of a group that commits nothing more there is no next: who wrote a checkpoint is called when it
was lost. Secrets and certificates that were renewed are used once records are not answered, and a producer that has lost all
brokers is replaced (`drlib.kafka.broker_states`). An idempotent producer ends for good when a log loses its last batches
(unclean election): then it is replaced, and the caller gets a `WriterFailed`. A topic that refuses these records is an event; a
cluster that does not answer is reported elsewhere.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.connect import QUIET, librdkafka
from drlib.kafka.broker_states import BrokerStates
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.mm2.records import Checkpoint, Heartbeat, OffsetSync
from drlib.mirror.status.worker_status import EventLog

POSITION_HEADER = "drlib.position"  # the group's committed source offset, where the mirror was behind it
AS_OF_HEADER = "drlib.as-of-ms"  # when that was known to be its position
TRANSACTION_HEADER = "drlib.transaction"  # producer ID and epoch of the transaction that committed the position
TOPICS_HEADER = "drlib.topic-ids"  # of a topic that both directions copy: its IDs on the source and on the target
SHARE_HEADER = (
    "drlib.share-group"  # of a share group: what lies complete behind its start offset (`mirror.share_groups`)
)
GONE_HEADER = "drlib.gone"  # the position is no longer on the source: it was deleted, or has expired


_ANSWERS_MISSING = frozenset(  # no broker refused the record
    {
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._UNKNOWN_TOPIC,  # deleted: `InternalTopicsWatch` creates it again
    }
)


MESSAGE_TIMEOUT_MS: Final = 30_000
RENEW_S: Final = 10.0  # between two looks at secrets and brokers while records are not answered
_STRANDED_S: Final = 60.0  # that a producer has had to find a broker before another one takes its place
Lost = Callable[[], object]


class WriterFailed(DrlibError):
    """A producer of these records has ended for good; another one has taken its place."""

    def __init__(self, cluster: str, error: KafkaException) -> None:
        super().__init__(
            f"the producer of heartbeats, checkpoints and offset syncs on {cluster} has ended",
            str(error.args[0]),
            "Nothing to do, if it was one unclean leader election: the next records are written by a new producer.",
        )


class Mm2Writer:
    """Writes one flow's records; call `poll` from the event loop and `close` at the end."""

    def __init__(
        self, settings: FlowSettings, source: ClusterSettings, target: ClusterSettings, events: EventLog
    ) -> None:
        self._events = events
        self._refused: set[str] = set()  # topics
        self._flow = settings.flow
        policy = settings.policy
        self._heartbeats = policy.heartbeats_topic
        self._checkpoints = policy.checkpoints_topic(settings.flow.source)
        to_source = settings.offset_syncs_location == "source"
        other = settings.flow.target if to_source else settings.flow.source
        self._syncs = policy.offset_syncs_topic(other)
        self._target = _RestartingProducer(target, settings.client_id(target.alias))
        self._sync_producer = self._target
        if to_source:
            self._sync_producer = _RestartingProducer(source, settings.client_id(source.alias))
        self.failures = 0
        self._unanswered, self._renew_at = False, 0.0

    def heartbeat(self) -> None:
        now = clock.now_ms()
        beat = Heartbeat(self._flow.source, self._flow.target, now)
        self._produce(self._target, self._heartbeats, beat.key(), beat.value(), timestamp=now)

    def checkpoint(
        self,
        checkpoint: Checkpoint,
        position: int,
        as_of_ms: int,
        topic_ids: str = "",
        transaction: tuple[int, int] | None = None,
        *,
        lost: Lost,
    ) -> None:
        """`lost`: called when it was not written."""
        more = () if transaction is None else ((TRANSACTION_HEADER, f"{transaction[0]}/{transaction[1]}".encode()),)
        self._write_checkpoint(checkpoint, position, as_of_ms, *more, topic_ids=topic_ids, lost=lost)

    def gone(self, checkpoint: Checkpoint, position: int, as_of_ms: int, topic_ids: str = "", *, lost: Lost) -> None:
        """The last checkpoint once more, as Java's readers take no null values. A later one brings the position back."""
        self._write_checkpoint(checkpoint, position, as_of_ms, (GONE_HEADER, b"1"), topic_ids=topic_ids, lost=lost)

    def share_checkpoint(
        self, checkpoint: Checkpoint, start: int, as_of_ms: int, complete: bytes, *, lost: Lost
    ) -> None:
        self._write_checkpoint(checkpoint, start, as_of_ms, (SHARE_HEADER, complete), lost=lost)

    def _write_checkpoint(
        self,
        checkpoint: Checkpoint,
        position: int,
        as_of_ms: int,
        *more: tuple[str, bytes],
        topic_ids: str = "",
        lost: Lost,
    ) -> None:
        headers = [(POSITION_HEADER, str(position).encode()), (AS_OF_HEADER, str(as_of_ms).encode()), *more]
        if topic_ids:
            headers.append((TOPICS_HEADER, topic_ids.encode()))
        self._produce(self._target, self._checkpoints, checkpoint.key(), checkpoint.value(), headers=headers, lost=lost)

    def offset_syncs(self, syncs: Sequence[OffsetSync]) -> None:
        for sync in syncs:
            self._produce(self._sync_producer, self._syncs, sync.key(), sync.value())

    def poll(self) -> None:
        """Raises `WriterFailed`."""
        due = self._unanswered and time.monotonic() >= self._renew_at
        if due:
            self._unanswered, self._renew_at = False, time.monotonic() + RENEW_S
        for producer in dict.fromkeys((self._target, self._sync_producer)):
            if due:
                producer.renew()
            producer.poll()

    def close(self, timeout_s: float) -> None:
        """Flush the target's records; offset syncs for a source that does not answer are dropped."""
        self._target.close(timeout_s)
        if self._sync_producer is not self._target:
            self._sync_producer.close(min(timeout_s, 0.5))

    def _produce(
        self,
        producer: _RestartingProducer,
        topic: str,
        key: bytes,
        value: bytes,
        *,
        timestamp: int = 0,
        headers: list[tuple[str, bytes]] | None = None,
        lost: Lost = lambda: None,
    ) -> None:
        try:
            producer.produce(
                topic,
                value=value,
                key=key,
                partition=0,
                timestamp=timestamp,
                headers=headers or [],
                on_delivery=partial(self._delivered, lost),
            )
        except (BufferError, KafkaException):  # the queue is full, or the topic is known to be unauthorized
            self.failures += 1
            lost()

    def _delivered(self, lost: Lost, error: KafkaError | None, message: Message) -> None:
        topic = str(message.topic())
        if error is not None:
            self.failures += 1
            lost()
            if error.code() in _ANSWERS_MISSING:
                self._unanswered = True
            else:
                self._refused.add(topic)
                self._events.open("Mm2RecordRefused", topic, error.str())
        elif topic in self._refused:
            self._refused.discard(topic)
            self._events.resolve("Mm2RecordRefused", topic)


class _RestartingProducer:
    """A producer that is replaced when it reports a fatal error, as `WriterFailed` then says. `client_id`: by which quotas know
    the mirror."""

    def __init__(self, cluster: ClusterSettings, client_id: str) -> None:
        self._cluster, self._client_id = cluster, client_id
        self._security = cluster.connection()
        self._make()

    def _make(self) -> None:
        configuration = librdkafka(self._cluster)
        brokers = BrokerStates(configuration)
        self._producer = _producer({**configuration, "client.id": self._client_id, **brokers.settings})
        self._brokers, self._made = brokers, time.monotonic()

    def produce(
        self,
        topic: str,
        *,
        key: bytes,
        value: bytes,
        partition: int,
        timestamp: int,
        headers: list[tuple[str, bytes]],
        on_delivery: Callable[[KafkaError | None, Message], None],
    ) -> None:
        """Raises `BufferError`, `KafkaException`, `WriterFailed`."""
        try:
            self._producer.produce(
                topic,
                value=value,
                key=key,
                partition=partition,
                timestamp=timestamp,
                headers=headers,
                on_delivery=on_delivery,
            )
        except KafkaException as error:
            self._replace_after(error)
            raise

    def poll(self) -> None:
        """Raises `KafkaException`, `WriterFailed`."""
        try:
            self._producer.poll(0)
        except KafkaException as error:
            self._replace_after(error)
            raise

    def close(self, timeout_s: float) -> None:
        """Flush, and drop what could not be sent."""
        with contextlib.suppress(KafkaException):  # these records only inform
            if self._producer.flush(timeout_s):
                self._producer.purge()

    def renew(self) -> None:
        """Replace the producer if secrets or certificates are others by now, or if it has had no broker for long."""
        with contextlib.suppress(DrlibError):  # they may be written just now
            found = self._cluster.connection()
            lost = self._brokers.none_for_long and time.monotonic() - self._made > _STRANDED_S
            if found != self._security or lost:
                former = [self._producer]
                self._make()
                self._security = found
                _drop(former[0])
                # Its end may wait for a broker that it has lost, and the event loop for it.
                threading.Thread(target=former.clear, daemon=True).start()

    def _replace_after(self, error: KafkaException) -> None:
        """Raises `WriterFailed` after a fatal error, when another producer has taken this one's place."""
        if not error.args[0].fatal():
            return
        _drop(self._producer)
        self._make()
        raise WriterFailed(self._cluster.alias, error) from error


def _drop(producer: Producer) -> None:
    """Drop what was not sent; who wrote it is called by the poll."""
    with contextlib.suppress(KafkaException):
        producer.purge()
        producer.poll(0)


def _producer(configuration: Mapping[str, object]) -> Producer:
    return Producer(
        {
            **configuration,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 100_000,
            "message.timeout.ms": MESSAGE_TIMEOUT_MS,
            "log_level": 0,
        },
        logger=QUIET,
    )
