"""A scan of a whole topic without a consumer group, as rows for checkers.

Rules: the end is taken once, at the start, so a scan ends even while records arrive; positions are compared, not record
offsets, because control records have offsets too; ids are taken from the producer's headers; the digest of every record is
computed from the returned bytes. Nothing is committed, no group is joined.
Not for: following a topic.
"""

import time
import uuid
from collections.abc import Collection, Iterator

from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from drlib import decoding
from drlib.errors import Unreachable
from drlib.lab.checker.history import Mirrored, digest
from drlib.lab.connection import Where, connection

_AGAIN_S = 0.1
_REMEDY = "Read the broker's log, and check that this client may read the topic"


def scan(
    where: Where,
    topic: str,
    *,
    since_ms: int | None = None,
    read_committed: bool = True,
    deadline_s: float = 60.0,
) -> Iterator[Mirrored]:
    """Every record of `topic` now on the cluster, or only those from the first with a timestamp >= `since_ms` on.

    Partitions interleave; each one is in order. A topic that does not exist has no records, one that cannot be asked for has
    unknown ones. Raises Unreachable when the end is not reached within `deadline_s` seconds, or may not be read.
    """
    until = time.monotonic() + deadline_s
    consumer = Consumer(
        {
            **connection(where),
            "group.id": f"drlib-scan-{uuid.uuid4()}",  # librdkafka wants one; it is never joined
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    try:
        open_partitions = _start(consumer, topic, since_ms, until)
        while open_partitions:
            for message in consumer.consume(1000, 0.1):
                if (error := message.error()) is None:
                    yield to_mirrored(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.pop(message.partition(), None)
                elif not error.retriable():
                    raise KafkaException(error)
            for at in consumer.position([TopicPartition(topic, p) for p in open_partitions]):
                if at.offset >= open_partitions[at.partition]:
                    del open_partitions[at.partition]
            if open_partitions and time.monotonic() > until:
                raise Unreachable(
                    f"could not read {topic} to its end", f"it took more than {deadline_s:g} s", "Read the broker's log"
                )
    except KafkaException as error:
        raise Unreachable(f"could not read {topic} to its end", error.args[0].str(), _REMEDY) from error
    finally:
        consumer.close()


def find_in_tail(
    where: Where, topic: str, ids: Collection[str], since_ms: int, deadline_s: float = 30.0
) -> dict[str, Mirrored]:
    """Those of `ids` that are in `topic` among the records from `since_ms` on, by id. Raises `Unreachable`."""
    wanted = set(ids)
    if not wanted:
        return {}
    rows = scan(where, topic, since_ms=since_ms, deadline_s=deadline_s)
    return {row.id: row for row in rows if row.id in wanted}


def to_mirrored(message: Message) -> Mirrored:
    headers = [(str(name), _bytes(content)) for name, content in message.headers() or ()]
    named = dict(headers)
    kind, timestamp = message.timestamp()
    timestamp_ms = -1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp
    key = _bytes(message.key())
    return Mirrored(
        message.topic() or "",
        _int(message.partition()),
        _int(message.offset()),
        text(named.get("id")),
        text(key),
        number(named.get("n")),
        timestamp_ms,
        digest(key, _bytes(message.value()), headers, timestamp_ms),
    )


def text(content: bytes | None) -> str:
    return "" if content is None else content.decode("utf-8", "backslashreplace")


def number(content: bytes | None) -> int:
    """The per-key number of a header, -1 when it is none."""
    return -1 if content is None else decoding.integer_or(-1, content)


def _start(consumer: Consumer, topic: str, since_ms: int | None, until: float) -> dict[int, int]:
    """Assign every partition with records to read; their ends by partition. Repeats what is not answered."""
    while True:
        try:
            return _assign(consumer, topic, since_ms)
        except KafkaException as error:
            if time.monotonic() > until:
                raise Unreachable(f"the ends of {topic} are unknown", error.args[0].str(), _REMEDY) from None
            consumer.poll(_AGAIN_S)


def _assign(consumer: Consumer, topic: str, since_ms: int | None) -> dict[int, int]:
    """Raises `KafkaException` for any answer that does not say where the records are."""
    metadata = consumer.list_topics(topic, timeout=2).topics[topic]
    if metadata.error is not None and metadata.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise KafkaException(metadata.error)
    starts: list[TopicPartition] = []
    ends: dict[int, int] = {}
    for partition in metadata.partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        if high > low:
            ends[partition] = high
            starts.append(TopicPartition(topic, partition, OFFSET_BEGINNING if since_ms is None else since_ms))
    if since_ms is not None and starts:
        starts = consumer.offsets_for_times(starts, timeout=10)
        for at in starts:
            if at.error is not None:
                raise KafkaException(at.error)
        for at in [at for at in starts if at.offset < 0]:  # nothing that young
            del ends[at.partition]
        starts = [at for at in starts if at.offset >= 0]
    consumer.assign(starts)
    return ends


def _bytes(content: object) -> bytes | None:
    if content is None:
        return None
    return content if isinstance(content, bytes) else str(content).encode()


def _int(value: int | None) -> int:
    return -1 if value is None else value
