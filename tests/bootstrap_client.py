"""An application with its library's default settings: it prints each value it reads, or writes numbered ones.

Arguments: library, role, bootstrap.servers, topic, name, and `key=value` of settings in the library's own spelling.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from typing import Any

EVERY_S = 0.1


def confluent(role: str, servers: str, topic: str, name: str, more: dict[str, Any]) -> None:
    from confluent_kafka import Consumer, Producer

    common = {"bootstrap.servers": servers, "log_level": 0, **more}
    if role == "consume":
        consumer = Consumer({**common, "group.id": name, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        while True:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                print(message.value().decode(), flush=True)
    producer = Producer({**common, "enable.idempotence": True})
    for number in itertools.count():
        producer.produce(topic, f"{name}-{number}".encode())
        producer.poll(0)
        time.sleep(EVERY_S)


def kafka_python(role: str, servers: str, topic: str, name: str, more: dict[str, Any]) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    if role == "consume":
        consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=name, auto_offset_reset="earliest", **more)
        while True:
            try:
                for record in consumer:
                    print(record.value.decode(), flush=True)
            except Exception as error:
                print(f"error {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                time.sleep(EVERY_S)
    producer = KafkaProducer(bootstrap_servers=servers, max_block_ms=1000, **more)
    for number in itertools.count():
        try:
            producer.send(topic, f"{name}-{number}".encode())
        except Exception as error:
            print(f"error {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        time.sleep(EVERY_S)


def aiokafka(role: str, servers: str, topic: str, name: str, more: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def consume() -> None:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=servers, group_id=name, auto_offset_reset="earliest", **more
        )
        await consumer.start()
        async for record in consumer:
            print(record.value.decode(), flush=True)

    async def produce() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=servers, **more)
        await producer.start()
        for number in itertools.count():
            await producer.send(topic, f"{name}-{number}".encode())
            await asyncio.sleep(EVERY_S)

    asyncio.run(consume() if role == "consume" else produce())


def main() -> None:
    library, role, servers, topic, name, *more = sys.argv[1:]
    settings = {key: json.loads(value) for key, _, value in (each.partition("=") for each in more)}
    {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka}[library](
        role, servers, topic, name, settings
    )


if __name__ == "__main__":
    main()
