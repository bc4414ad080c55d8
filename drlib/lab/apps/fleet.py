"""Five producers with different codecs and batch sizes that together write one topic, in order for every key.

Rules: idempotent, acks=all; a carrier is pinned to one producer, so the records of a key keep their order in one queue; the
caller bounds the records in flight. A record is *in doubt* from `send` until its delivery report, and stays so after an error
that does not exclude that it was written: librdkafka does not tell "never sent" from "sent, no answer".
Not for: deciding what to do with records in doubt (`in_doubt`).
"""

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drlib.clock import now_ms
from drlib.errors import Unreachable
from drlib.lab.apps.flights import Flight
from drlib.lab.apps.process import abandon
from drlib.lab.checker.history import NO_OFFSET, Produced, ProducedStatus, digest
from drlib.lab.clocks import MachineClock
from drlib.lab.connection import Where, connection

# Small and large, compressed and not: a mirror has to move every kind of batch.
KINDS: Final[tuple[dict[str, str | int], ...]] = (
    {"compression.type": "none", "batch.size": 16_384, "linger.ms": 5},
    {"compression.type": "gzip", "batch.size": 32_768, "linger.ms": 20},
    {"compression.type": "snappy", "batch.size": 65_536, "linger.ms": 10},
    {"compression.type": "lz4", "batch.size": 131_072, "linger.ms": 50},
    {"compression.type": "zstd", "batch.size": 1_000_000, "linger.ms": 100},
)

# Errors after which the record is certainly not in the log; after any other it may have been written.
_REFUSED: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    }
)


@dataclass(frozen=True, slots=True)
class Sent:
    """A record in flight or in doubt, sent at `sent_ms`; its timestamp is `stamp_ms`, by a clock that may be wrong."""

    flight: Flight
    sent_ms: int
    stamp_ms: int
    digest: int

    def row(
        self, cluster: str, topic: str, status: ProducedStatus, partition: int = NO_OFFSET, offset: int = NO_OFFSET
    ) -> Produced:
        """Its history row with this status."""
        f = self.flight
        acked_ms = now_ms() if status is ProducedStatus.ACKED else NO_OFFSET
        return Produced(
            f.id, f.key, f.n, cluster, topic, partition, offset, self.sent_ms, acked_ms, status, self.digest
        )


class Fleet:
    """The producers for one cluster. `on_row` gets a history row for every record with a known outcome."""

    def __init__(
        self,
        where: Where,
        cluster: str,
        topic: str,
        on_row: Callable[[Produced], None],
        clock: MachineClock | None = None,
    ) -> None:
        self._clock = clock or MachineClock(None)
        self._cluster = cluster
        self._topic = topic
        self._on_row = on_row
        self._in_flight: dict[int, Sent] = {}
        self._doubts: dict[int, Sent] = {}
        self._last_report = time.monotonic()
        self.acked = 0
        shared = {
            **connection(where),
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": "murmur2_random",  # Java's; librdkafka's own would place keys elsewhere
            "message.timeout.ms": 0,
            "delivery.report.only.error": False,
            "queue.buffering.max.messages": 100_000,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": 5_000,
            "log_level": 2,
        }
        self._producers = [Producer({**shared, **kind}) for kind in KINDS]

    @property
    def in_flight(self) -> int:
        """Records without a delivery report."""
        return len(self._in_flight)

    @property
    def silent_s(self) -> float:
        """Seconds since the last delivery report, 0 while nothing is in flight."""
        return time.monotonic() - self._last_report if self._in_flight else 0.0

    def send(self, flight: Flight, timestamp_ms: int | None = None) -> bool:
        """Queue one record with `timestamp_ms`, or now by its clock. False when the queue is full: poll and try again.

        Raises `Unreachable` where the producer takes no record any more.
        """
        sent_ms = now_ms()
        stamp = self._clock.at(self._cluster, sent_ms) if timestamp_ms is None else timestamp_ms
        headers = record_headers(flight)
        key = flight.key.encode()
        sent = Sent(flight, sent_ms, stamp, digest(key, flight.value, headers, stamp))
        if not self._in_flight:
            self._last_report = time.monotonic()
        try:
            self._producers[zlib.crc32(flight.carrier.encode()) % len(KINDS)].produce(
                self._topic,
                value=flight.value,
                key=key,
                headers=headers,
                timestamp=stamp,
                on_delivery=partial(self._delivered, sent),
            )
        except BufferError:
            return False
        except KafkaException as error:
            if error.args[0].code() in _REFUSED:  # before it was queued
                self._on_row(sent.row(self._cluster, self._topic, ProducedStatus.REFUSED))
                return True
            raise Unreachable(  # a fatal error of one record ends its producer for good: every later one is refused by it
                f"no record can be written to {self._topic} on {self._cluster}",
                f"the producer refuses it: {error.args[0].str()}",
                "Read the broker's log, then start the application again.",
            ) from None
        self._in_flight[flight.position] = sent
        return True

    def poll(self) -> None:
        """Serve delivery reports without waiting."""
        for producer in self._producers:
            producer.poll(0)

    def drain(self, seconds: float, patience_s: float) -> bool:
        """Wait up to `seconds` for all delivery reports, at most `patience_s` between two. True when all came."""
        until = time.monotonic() + seconds
        while self._in_flight:
            for producer in self._producers:
                producer.flush(0.01)
            if time.monotonic() > until or self.silent_s > patience_s:
                return not self._in_flight
        return True

    def give_up(self) -> list[Sent]:
        """Close the producers and return the records in doubt, in the order of the stream."""
        for producer in self._producers:
            producer.purge(in_queue=True, in_flight=True, blocking=True)
        until = time.monotonic() + 1.0
        while self._in_flight and time.monotonic() < until:
            for producer in self._producers:
                producer.poll(0.01)
        self._doubts.update(self._in_flight)
        self._in_flight.clear()
        producers, self._producers = self._producers, []
        abandon(lambda: [producer.close() for producer in producers], 0.5)
        doubts = [self._doubts[position] for position in sorted(self._doubts)]
        for sent in doubts:
            self._on_row(sent.row(self._cluster, self._topic, ProducedStatus.IN_DOUBT))
        return doubts

    def _delivered(self, sent: Sent, error: KafkaError | None, message: Message) -> None:
        if self._in_flight.pop(sent.flight.position, None) is None:
            return  # given up before the report came
        self._last_report = time.monotonic()
        if error is None:
            self.acked += 1
            partition, offset = place(message.partition()), place(message.offset())
            self._on_row(sent.row(self._cluster, self._topic, ProducedStatus.ACKED, partition, offset))
        elif error.code() in _REFUSED:
            self._on_row(sent.row(self._cluster, self._topic, ProducedStatus.REFUSED))
        else:
            self._doubts[sent.flight.position] = sent


def record_headers(flight: Flight) -> list[tuple[str, bytes]]:
    """The headers of every record: its id, its number within its key, and its event time in ms, as ASCII."""
    return [
        ("id", flight.id.encode()),
        ("n", b"%d" % flight.n),
        ("event-time", b"%d" % flight.event_ms),
    ]


def place(value: int | None) -> int:
    return NO_OFFSET if value is None else value
