"""A producer or consumer as people write them with confluent-kafka or kafka-python: it knows one cluster, no pointer.

It writes what it experienced as a history. On SIGTERM it stops in order: a producer gives up what has no answer, and does not
send it again; a consumer has committed what it processed, or does not know. Restarted with `--first` it numbers on.
"""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.java_formats.properties import read
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.checker.history import NO_OFFSET, CommitStatus, Committed, Consumed, Produced, ProducedStatus
from drlib.lab.checker.history_files import HistoryWriter
from drlib.lab.checker.scan import to_mirrored

KEYS = 7


@dataclass(frozen=True)
class Client:
    name: str  # of the group, or of the producer
    alias: str
    bootstrap: str
    keys: dict[str, str]
    topics: list[str]

    @property
    def settings(self) -> ClusterSettings:
        return ClusterSettings(self.alias, tuple(self.bootstrap.split(",")), self.keys)

    def row(self, number: int, sent_ms: int, partition: int, offset: int, status: ProducedStatus) -> Produced:
        key, now = f"{self.name}-k{number % KEYS}", time.time_ns() // 1_000_000
        count = number // KEYS
        return Produced(
            f"{self.name}-{number}",
            key,
            count,
            self.alias,
            self.topics[0],
            partition,
            offset,
            sent_ms,
            now,
            status,
        )

    @property
    def of_kafka_python(self) -> dict[str, object]:
        made = librdkafka(self.settings)
        return {
            "bootstrap_servers": self.bootstrap.split(","),
            "security_protocol": self.keys["security.protocol"],
            "ssl_cafile": self.keys["ssl.truststore.location"],
            "sasl_mechanism": self.keys["sasl.mechanism"],
            "sasl_plain_username": made["sasl.username"],
            "sasl_plain_password": made["sasl.password"],
        }


def numbered(first: int, per_s: float, ended: list[bool]) -> Iterator[int]:
    began, number = time.monotonic(), first
    while not ended:
        yield number
        number += 1
        time.sleep(max(0.0, began + (number - first) / per_s - time.monotonic()))


def produce_confluent(client: Client, first: int, per_s: float, history: HistoryWriter, ended: list[bool]) -> None:
    waiting: dict[int, int] = {}
    producer = Producer({**librdkafka(client.settings), "enable.idempotence": True, "linger.ms": 5, "log_level": 0})

    def delivered(number: int, error: KafkaError | None, message: Message) -> None:
        sent_ms = waiting.pop(number)
        status = ProducedStatus.ACKED if error is None else ProducedStatus.IN_DOUBT
        offset = message.offset() if error is None else NO_OFFSET
        history.append(client.row(number, sent_ms, message.partition() or 0, offset or 0, status))

    for number in numbered(first, per_s, ended):
        if len(waiting) < 500:
            row = client.row(number, time.time_ns() // 1_000_000, -1, NO_OFFSET, ProducedStatus.IN_DOUBT)
            waiting[number] = row.sent_ms
            producer.produce(
                client.topics[0],
                b"x" * 100,
                row.key,
                headers={"id": row.id.encode(), "n": str(row.n).encode()},
                on_delivery=lambda error, message, number=number: delivered(number, error, message),
            )
        producer.poll(0)
        history.tick()
    producer.flush(5)
    producer.purge(in_flight=True)
    producer.flush(5)
    assert not waiting


def produce_kafka_python(client: Client, first: int, per_s: float, history: HistoryWriter, ended: list[bool]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(**client.of_kafka_python, linger_ms=5, acks="all", max_block_ms=1000)
    waiting: list[tuple[int, int, object]] = []

    def settle(*, at_end: bool) -> None:
        for entry in [each for each in waiting if at_end or each[2].is_done]:  # type: ignore[attr-defined]
            waiting.remove(entry)
            number, sent_ms, future = entry
            if future.is_done and future.succeeded():  # type: ignore[attr-defined]
                found = future.value  # type: ignore[attr-defined]
                history.append(client.row(number, sent_ms, found.partition, found.offset, ProducedStatus.ACKED))
            else:
                history.append(client.row(number, sent_ms, -1, NO_OFFSET, ProducedStatus.IN_DOUBT))

    for number in numbered(first, per_s, ended):
        row = client.row(number, time.time_ns() // 1_000_000, -1, NO_OFFSET, ProducedStatus.IN_DOUBT)
        headers = [("id", row.id.encode()), ("n", str(row.n).encode())]
        if len(waiting) < 500:
            try:
                future = producer.send(client.topics[0], b"x" * 100, row.key.encode(), headers)
                waiting.append((number, row.sent_ms, future))
            except Exception as error:
                print(f"not sent: {type(error).__name__}", flush=True)
        settle(at_end=False)
        history.tick()
    try:
        producer.flush(5)
    except Exception as error:
        print(f"not flushed: {type(error).__name__}", flush=True)
    settle(at_end=True)
    producer.close(timeout=1)


def consume_confluent(client: Client, history: HistoryWriter, ended: list[bool]) -> None:
    consumer = Consumer(
        {
            **librdkafka(client.settings),
            "group.id": client.name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe(client.topics)
    while not ended:
        messages = [message for message in consumer.consume(100, 0.2) if message.error() is None]
        rows = [to_mirrored(message) for message in messages]
        processed(client, history, [(r.topic, r.partition, r.offset, r.id, r.key, r.n) for r in rows])
        if messages:
            try:
                consumer.commit(asynchronous=False)
                committed(client, history, rows_ends=[(r.topic, r.partition, r.offset + 1) for r in rows])
            except KafkaException as error:
                print(f"not committed: {error.args[0].name()}", flush=True)
        history.tick()
    consumer.close()


def consume_kafka_python(client: Client, history: HistoryWriter, ended: list[bool]) -> None:
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError as Failed

    consumer = KafkaConsumer(
        *client.topics,
        **client.of_kafka_python,
        group_id=client.name,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    while not ended:
        try:
            found = [record for records in consumer.poll(200).values() for record in records]
        except Failed as error:
            print(f"not read: {type(error).__name__}", flush=True)
            time.sleep(0.2)
            continue
        rows = []
        for each in found:
            headers = dict(each.headers)
            identity = headers["id"].decode(), each.key.decode(), int(headers["n"])
            rows.append((each.topic, each.partition, each.offset, *identity))
        processed(client, history, rows)
        if rows:
            try:
                consumer.commit()
                committed(client, history, rows_ends=[(r[0], r[1], r[2] + 1) for r in rows])
            except Failed as error:
                print(f"not committed: {type(error).__name__}", flush=True)
        history.tick()
    consumer.close(autocommit=False)


def processed(client: Client, history: HistoryWriter, rows: list[tuple[str, int, int, str, str, int]]) -> None:
    now = time.time_ns() // 1_000_000
    history.append_all(Consumed(client.name, client.alias, *row, now) for row in rows)


def committed(client: Client, history: HistoryWriter, rows_ends: list[tuple[str, int, int]]) -> None:
    ends: dict[tuple[str, int], int] = {}
    for topic, partition, offset in rows_ends:
        ends[topic, partition] = max(offset, ends.get((topic, partition), 0))
    now = time.time_ns() // 1_000_000
    rows = [Committed(client.name, client.alias, *where, end, now, CommitStatus.ACKED) for where, end in ends.items()]
    history.append_all(rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=["confluent-kafka", "kafka-python"])
    parser.add_argument("role", choices=["produce", "consume"])
    parser.add_argument("--name", required=True)
    parser.add_argument("--alias", required=True, help="of the cluster, in the history")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--config", type=Path, required=True, help="security keys, as Java has them")
    parser.add_argument("--topics", required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--per-s", type=float, default=15.0)
    o = parser.parse_args()
    ended: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    keys = {key: entry.value for key, entry in read(o.config).effective().items() if "config.providers" not in key}
    client = Client(o.name, o.alias, o.bootstrap, keys, o.topics.split(","))
    with HistoryWriter(o.history) as history:
        match o.library, o.role:
            case "confluent-kafka", "produce":
                produce_confluent(client, o.first, o.per_s, history, ended)
            case "confluent-kafka", _:
                consume_confluent(client, history, ended)
            case _, "produce":
                produce_kafka_python(client, o.first, o.per_s, history, ended)
            case _:
                consume_kafka_python(client, history, ended)


if __name__ == "__main__":
    main()
