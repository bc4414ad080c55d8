"""A producer or consumer as people write them with confluent-kafka, kafka-python or aiokafka: it knows one address, no pointer.

Rules: it writes what it experienced as a history. On SIGTERM it stops in order: a producer gives up what has no answer, and
does not send it again; a consumer has committed what it processed, or does not know. Started again with `--first` it numbers
on. With `--restart-after S` it does what a service manager would: once nothing was acknowledged, or processed, for S seconds,
or it has failed, it ends, and begins again in the same process; each start is a line in a file beside the history.
Not for: the clients that follow the pointer (`drlib.lab.apps`).
Longer than most modules: two roles of three libraries.

Run as `python -m drlib.lab.clients.python_client LIBRARY ROLE ...`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from drlib.clock import now_ms
from drlib.files import stored_descriptor
from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.java_formats.properties import read
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.checker import scan
from drlib.lab.checker.history import NO_OFFSET, CommitStatus, Committed, Consumed, Produced, ProducedStatus
from drlib.lab.checker.history_files import HistoryWriter
from drlib.outgoing.environment import child_environment
from drlib.outgoing.terminal import show
from drlib.runs.signals import SIGNALS, SignalSafeEvent

KEYS: Final = 7
MOST_WAITING: Final = 500  # records without an answer
LIBRARIES: Final = ("confluent-kafka", "kafka-python", "aiokafka")
_FIRST: Final = 2  # times that long until the first record: a client starts slowly beside others
_EXIT_S: Final = 8.0  # that a client may take to end before it is ended
Where = tuple[str, int, int, str, str, int]  # topic, partition, offset, id, key, number


@dataclass
class Progress:
    """What a watchdog reads: when something was acknowledged or processed last, and the number that is sent next."""

    began: float = field(default_factory=time.monotonic)
    at: float | None = None
    number: int = 0
    ended: SignalSafeEvent = field(default_factory=SignalSafeEvent)
    again: bool = False

    def made(self) -> None:
        self.at = time.monotonic()

    def end(self) -> None:
        """For good, as SIGTERM asks."""
        self.again = False
        self.ended.set()


@dataclass(frozen=True)
class Client:
    name: str  # of the group, or of the producer
    alias: str
    bootstrap: str
    keys: dict[str, str]
    topics: list[str]
    progress: Progress

    @property
    def settings(self) -> ClusterSettings:
        return ClusterSettings(self.alias, tuple(self.bootstrap.split(",")), self.keys)

    @property
    def ended(self) -> bool:
        return self.progress.ended.is_set()

    def row(self, number: int, sent_ms: int, partition: int, offset: int, status: ProducedStatus) -> Produced:
        if status is ProducedStatus.ACKED:
            self.progress.made()
        key, count = f"{self.name}-k{number % KEYS}", number // KEYS
        name, topic = f"{self.name}-{number}", self.topics[0]
        return Produced(name, key, count, self.alias, topic, partition, offset, sent_ms, now_ms(), status)

    def in_doubt(self, number: int, sent_ms: int) -> Produced:
        return self.row(number, sent_ms, -1, NO_OFFSET, ProducedStatus.IN_DOUBT)

    def headers(self, number: int) -> list[tuple[str, bytes]]:
        return [("id", f"{self.name}-{number}".encode()), ("n", str(number // KEYS).encode())]

    def key(self, number: int) -> bytes:
        return f"{self.name}-k{number % KEYS}".encode()

    @property
    def of_python(self) -> dict[str, object]:
        """The settings of kafka-python and aiokafka."""
        servers: dict[str, object] = {"bootstrap_servers": self.bootstrap.split(",")}
        if not self.keys:
            return servers
        made = librdkafka(self.settings)
        return servers | {
            "security_protocol": self.keys["security.protocol"],
            "ssl_cafile": self.keys["ssl.truststore.location"],
            "sasl_mechanism": self.keys["sasl.mechanism"],
            "sasl_plain_username": made["sasl.username"],
            "sasl_plain_password": made["sasl.password"],
        }


VALUE: Final = b"x" * 100


def numbered(client: Client, first: int, per_s: float) -> Iterator[int]:
    began, number = time.monotonic(), first
    while not client.ended:
        yield number
        number = client.progress.number = number + 1
        client.progress.ended.wait(max(0.0, began + (number - first) / per_s - time.monotonic()))


def produce_confluent(client: Client, first: int, per_s: float, history: HistoryWriter) -> None:
    waiting: dict[int, int] = {}
    own = {"enable.idempotence": True, "linger.ms": 5, "log_level": 0}
    producer = Producer({**librdkafka(client.settings), **own})

    def delivered(number: int, error: KafkaError | None, message: Message) -> None:
        sent_ms = waiting.pop(number)
        if error is None:
            partition, offset = message.partition() or 0, message.offset() or 0
            history.append(client.row(number, sent_ms, partition, offset, ProducedStatus.ACKED))
        else:
            history.append(client.in_doubt(number, sent_ms))

    for number in numbered(client, first, per_s):
        if len(waiting) < MOST_WAITING:
            waiting[number] = now_ms()
            producer.produce(
                client.topics[0],
                VALUE,
                client.key(number),
                headers=client.headers(number),
                on_delivery=lambda error, message, number=number: delivered(number, error, message),
            )
        producer.poll(0)
        history.tick()
    producer.flush(5)
    producer.purge(in_flight=True)
    producer.flush(5)
    assert not waiting


def produce_kafka_python(client: Client, first: int, per_s: float, history: HistoryWriter) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(**{**client.of_python, "linger_ms": 5, "acks": "all", "max_block_ms": 1000})
    waiting: list[tuple[int, int, object]] = []

    def settle(*, at_end: bool) -> None:
        for entry in [each for each in waiting if at_end or each[2].is_done]:  # type: ignore[attr-defined]
            waiting.remove(entry)
            number, sent_ms, future = entry
            if future.is_done and future.succeeded():  # type: ignore[attr-defined]
                found = future.value  # type: ignore[attr-defined]
                history.append(client.row(number, sent_ms, found.partition, found.offset, ProducedStatus.ACKED))
            else:
                history.append(client.in_doubt(number, sent_ms))

    for number in numbered(client, first, per_s):
        if len(waiting) < MOST_WAITING:
            sent_ms = now_ms()
            try:
                future = producer.send(client.topics[0], VALUE, client.key(number), client.headers(number))
                waiting.append((number, sent_ms, future))
            except Exception as error:
                show(f"not sent: {type(error).__name__}")
        settle(at_end=False)
        history.tick()
    try:
        producer.flush(5)
    except Exception as error:
        show(f"not flushed: {type(error).__name__}")
    settle(at_end=True)
    producer.close(timeout=1)


async def produce_aiokafka(client: Client, first: int, per_s: float, history: HistoryWriter) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(**client.of_python)
    await producer.start()
    waiting: dict[int, tuple[int, asyncio.Future[object]]] = {}

    def settle(*, at_end: bool) -> None:
        for number, (sent_ms, future) in list(waiting.items()):
            if not future.done() and not at_end:
                continue
            del waiting[number]
            if future.done() and not future.cancelled() and future.exception() is None:
                found = future.result()
                where = found.partition, found.offset  # type: ignore[attr-defined]
                history.append(client.row(number, sent_ms, *where, ProducedStatus.ACKED))
            else:
                history.append(client.in_doubt(number, sent_ms))

    number = first
    while not client.ended:
        if len(waiting) < MOST_WAITING:
            sent_ms = now_ms()
            try:
                async with asyncio.timeout(1.0):
                    what = {"value": VALUE, "key": client.key(number), "headers": client.headers(number)}
                    waiting[number] = (sent_ms, await producer.send(client.topics[0], **what))
            except Exception as error:
                show(f"not sent: {type(error).__name__}")
        number = client.progress.number = number + 1
        settle(at_end=False)
        history.tick()
        await asyncio.sleep(1 / per_s)
    if waiting:
        await asyncio.wait([future for _, future in waiting.values()], timeout=5)
    settle(at_end=True)
    await _closed(producer.stop())


def consume_confluent(client: Client, history: HistoryWriter) -> None:
    own = {"group.id": client.name, "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({**librdkafka(client.settings), **own})
    consumer.subscribe(client.topics)
    while not client.ended:
        messages = [message for message in consumer.consume(100, 0.2) if message.error() is None]
        rows = [(r.topic, r.partition, r.offset, r.id, r.key, r.n) for r in map(scan.to_mirrored, messages)]
        processed(client, history, rows)
        if messages:
            try:
                consumer.commit(asynchronous=False)
                committed(client, history, rows)
            except KafkaException as error:
                show(f"not committed: {error.args[0].name()}")
        history.tick()
    consumer.close()


def consume_kafka_python(client: Client, history: HistoryWriter) -> None:
    from kafka import KafkaConsumer
    from kafka.errors import KafkaError as Failed

    own = {"group_id": client.name, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer(*client.topics, **{**client.of_python, **own})
    while not client.ended:
        try:
            found = [record for records in consumer.poll(200).values() for record in records]
        except Failed as error:
            show(f"not read: {type(error).__name__}")
            client.progress.ended.wait(0.2)
            continue
        rows = _rows(found)
        processed(client, history, rows)
        if rows:
            try:
                consumer.commit()
                committed(client, history, rows)
            except Failed as error:
                show(f"not committed: {type(error).__name__}")
        history.tick()
    consumer.close(autocommit=False)


async def consume_aiokafka(client: Client, history: HistoryWriter) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.errors import KafkaError as Failed

    own = {"group_id": client.name, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = AIOKafkaConsumer(*client.topics, **{**client.of_python, **own})
    await consumer.start()
    while not client.ended:
        try:
            found = [record for records in (await consumer.getmany(timeout_ms=200)).values() for record in records]
            rows = _rows(found)
            processed(client, history, rows)
            if rows:
                async with asyncio.timeout(5.0):
                    await consumer.commit()
                committed(client, history, rows)
        except (Failed, TimeoutError) as error:
            show(f"not read or not committed: {type(error).__name__}")
        history.tick()
    await _closed(consumer.stop())


async def _closed(closing: object) -> None:
    try:
        async with asyncio.timeout(2.0):
            await closing  # type: ignore[misc]
    except (Exception, asyncio.CancelledError) as error:  # aiokafka cancels its own tasks
        show(f"not closed: {type(error).__name__}")


def _rows(found: Sequence[object]) -> list[Where]:
    """Of records as kafka-python and aiokafka have them."""
    rows: list[Where] = []
    for each in found:
        headers = dict(each.headers)  # type: ignore[attr-defined]
        identity = scan.text(headers.get("id")), scan.text(each.key), scan.number(headers.get("n"))  # type: ignore[attr-defined]
        rows.append((each.topic, each.partition, each.offset, *identity))  # type: ignore[attr-defined]
    return rows


def processed(client: Client, history: HistoryWriter, rows: list[Where]) -> None:
    now = now_ms()
    if rows:
        client.progress.made()
    history.append_all(Consumed(client.name, client.alias, *row, now) for row in rows)


def committed(client: Client, history: HistoryWriter, rows: list[Where]) -> None:
    ends: dict[tuple[str, int], int] = {}
    for topic, partition, offset, *_ in rows:
        ends[topic, partition] = max(offset + 1, ends.get((topic, partition), 0))
    now = now_ms()
    history.append_all(
        Committed(client.name, client.alias, *where, end, now, CommitStatus.ACKED) for where, end in ends.items()
    )


def _restart_when_silent(progress: Progress, silent_s: float, history: HistoryWriter) -> None:
    """Begin this program again `silent_s` seconds after the last progress, with the next number. Runs on a thread."""
    while not progress.ended.wait(0.2):
        now = time.monotonic()
        if now - progress.began > _FIRST * silent_s if progress.at is None else now - progress.at > silent_s:
            progress.again = True
            progress.ended.set()
            time.sleep(_EXIT_S)  # `main` begins again as soon as the client has ended; some never do
            if progress.again:
                history.flush()
                _again(progress)


def _again(progress: Progress) -> None:
    arguments = [text for text in sys.argv[1:] if not text.startswith("--first=")]
    argv = [sys.executable, "-P", "-m", "drlib.lab.clients.python_client", *arguments]
    os.execve(sys.executable, [*argv, f"--first={progress.number + 1}"], env=child_environment())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("role", choices=["produce", "consume"])
    parser.add_argument("--name", required=True)
    parser.add_argument("--alias", required=True, help="of the cluster, in the history")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--config", type=Path, help="security keys, as Java has them")
    parser.add_argument("--topics", required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--per-s", type=float, default=15.0)
    parser.add_argument("--restart-after", type=float, default=0.0, metavar="S")
    o = parser.parse_args()
    progress = Progress(number=o.first)
    for number in SIGNALS:
        signal.signal(number, lambda *_: progress.end())
    found = {} if o.config is None else read(o.config).effective()
    keys = {key: entry.value for key, entry in found.items() if "config.providers" not in key}
    client = Client(o.name, o.alias, o.bootstrap, keys, o.topics.split(","), progress)
    try:
        with HistoryWriter(o.history) as history:
            if o.restart_after:
                _note_start(o.history)
                watchdog = threading.Thread(
                    target=_restart_when_silent, args=(progress, o.restart_after, history), daemon=True
                )
                watchdog.start()
            _run(client, o.library, o.role, o.first, o.per_s, history)
    except (Exception, asyncio.CancelledError) as error:  # aiokafka's own tasks are cancelled when it ends
        if not o.restart_after:
            raise
        show(f"failed: {type(error).__name__}")
        if not progress.ended.wait(1.0):
            progress.again = True
    if progress.again:
        _again(progress)


def _note_start(history: Path) -> None:
    descriptor = stored_descriptor(starts_path(history), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, b"%d\n" % now_ms())
    finally:
        os.close(descriptor)


def starts_path(history: Path) -> Path:
    """Where each start of a client that restarts is noted."""
    return history.with_suffix(".starts")


def _run(client: Client, library: str, role: str, first: int, per_s: float, history: HistoryWriter) -> None:
    match library, role:
        case "confluent-kafka", "produce":
            produce_confluent(client, first, per_s, history)
        case "confluent-kafka", _:
            consume_confluent(client, history)
        case "kafka-python", "produce":
            produce_kafka_python(client, first, per_s, history)
        case "kafka-python", _:
            consume_kafka_python(client, history)
        case _, "produce":
            asyncio.run(produce_aiokafka(client, first, per_s, history))
        case _:
            asyncio.run(consume_aiokafka(client, history))


if __name__ == "__main__":
    main()
