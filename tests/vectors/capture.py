"""Capture record batches as a real broker stores them: `python tests/vectors/capture.py BOOTSTRAP > batches.json`.

Each vector is the bytes of one or more batches as Fetch returned them, with the records a Kafka client (librdkafka)
reads there. Run it against a broker of the lab whose `log.cleaner.backoff.ms` is small.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.batch import iter_batches
from drlib.kafka.protocol.fetch import FetchPartition

T0 = 1_700_000_000_000


def produce(bootstrap: str, topic: str, codec: str, *, keys: int = 1000, transactional_id: str = "") -> Producer:
    more = {"transactional.id": transactional_id} if transactional_id else {}
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": "200", **more})
    if transactional_id:
        producer.init_transactions()
        producer.begin_transaction()
    for i in range(12):
        headers = [("trace", b"abc"), ("none", None), ("empty", b"")] if i % 3 == 0 else None
        key = None if keys == 1000 and i % 4 == 3 else f"k{i % keys}"
        value = None if i == 5 and keys == 1000 else f"value {i} ".encode() * 5
        producer.produce(topic, key=key, value=value, headers=headers, timestamp=T0 + i * 7, partition=0)
    return producer


async def fetched(bootstrap: str, topic: str) -> bytes:
    client = ClusterClient([bootstrap])
    metadata = await client.metadata([topic])
    found = metadata.topics[topic]
    connection = await client.connection(found.partitions[0].leader)
    data, position = b"", 0
    while True:  # one answer never goes past the end of a segment
        wanted = FetchPartition(found.name, found.topic_id, 0, position, 1 << 20)
        (answer,) = await requests.fetch(
            connection, [wanted], max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, read_committed=False
        )
        data += answer.records
        position = max([position, *(header.next_offset for header, _ in iter_batches(answer.records))])
        if position >= answer.high_watermark:
            break
    await client.close()
    return data


def read(bootstrap: str, topic: str, isolation: str) -> list[list[object]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    out: list[list[object]] = []
    while True:
        message = consumer.poll(10)
        if message is None or message.error():
            break
        headers = [[k, None if v is None else v.hex()] for k, v in message.headers() or []]
        key, value = message.key(), message.value()
        out.append(
            [
                message.offset(),
                message.timestamp()[1],
                key and key.hex(),
                None if value is None else value.hex(),
                headers,
            ]
        )
    consumer.close()
    return out


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} did not happen in time")
        time.sleep(0.1)


def has_gap(data: bytes) -> bool:
    return any(h.count and not h.contiguous for h, _ in iter_batches(data))


def main(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    run = uuid.uuid4().hex[:6]

    def create(name: str, **config: str) -> str:
        topic = f"vector.{name}.{run}"
        settings = {k.replace("_", "."): v for k, v in config.items()}
        for future in admin.create_topics([NewTopic(topic, 1, 1, config=settings)]).values():
            future.result()
        return topic

    topics: dict[str, str] = {}
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topics[codec] = create(codec)
        produce(bootstrap, topics[codec], codec).flush()
    topics["log-append-time"] = create("append", message_timestamp_type="LogAppendTime")
    produce(bootstrap, topics["log-append-time"], "lz4").flush()
    topics["committed"] = create("committed")
    produce(bootstrap, topics["committed"], "none", transactional_id=run + "c").commit_transaction()
    topics["aborted"] = create("aborted")
    aborted = produce(bootstrap, topics["aborted"], "zstd", transactional_id=run + "a")
    aborted.flush()
    aborted.abort_transaction()
    compact = create(
        "compact",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.001",
        segment_ms="1000",
        delete_retention_ms="0",
    )
    topics["compacted"] = compact
    produce(bootstrap, compact, "lz4", keys=5).flush()

    def compacted() -> bool:
        again = Producer({"bootstrap.servers": bootstrap})
        again.produce(compact, key="k1", value="newer", partition=0)
        again.flush()
        return has_gap(asyncio.run(fetched(bootstrap, compact)))

    until(compacted, "compaction")
    vectors = {
        name: {
            "bytes": asyncio.run(fetched(bootstrap, topic)).hex(),
            "records": read(bootstrap, topic, "read_uncommitted"),
            "committed": read(bootstrap, topic, "read_committed"),
        }
        for name, topic in topics.items()
    }
    json.dump(vectors, sys.stdout, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
