"""A worker stays within its --memory with a large backlog on the source and a slow target."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from fix_engine import Engine, create_topic, wait_for

from drlib.lab.lab import Lab
from drlib.mirror.status import worker_status as status

PARTITIONS = 8
RECORD_BYTES = 1000
BACKLOG_BYTES = 160 << 20
MEMORY_MIB = 160
TARGET_BYTES_S = 8 << 20
DELIVERED_BYTES = 16 << 20


@pytest.fixture
def slow_target(lab: Lab) -> Iterator[str]:
    """The target's address behind a link much slower than the source."""
    lab.proxy.set("RIGHT", direction="requests", bandwidth=TARGET_BYTES_S)
    yield lab.clusters["RIGHT"].link_bootstrap
    lab.proxy.clear("RIGHT")


def fill(bootstrap: str, topic: str) -> None:
    """A backlog in batches as a producer with Kafka's defaults writes them: 16 KB, records of 1 KB."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "log_level": 0, "batch.size": 16384, "linger.ms": 1000, "acks": 1}
    )
    value = b"x" * RECORD_BYTES
    for number in range(BACKLOG_BYTES // RECORD_BYTES):
        while True:
            try:
                producer.produce(topic, value=value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(60) == 0


def most_resident_mib(pid: int) -> float:
    """Peak resident set of a process, as Linux counts it."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def test_worker_slow_target_and_large_backlog_stays_within_memory(engine: Engine, slow_target: str) -> None:
    topic = engine.topics
    engine.right = slow_target
    create_topic(engine.left, topic, PARTITIONS)
    fill(engine.left, topic)
    worker = engine.start("--memory", f"{MEMORY_MIB}MiB")

    def delivered() -> bool:
        if not engine.status_path(0).exists():
            return False
        return sum(flow.bytes for flow in status.read(engine.status_path(0)).flows) > DELIVERED_BYTES

    wait_for("the target takes what it can", delivered)
    most = most_resident_mib(worker.pid)
    mirrored = sum(p.mirrored for flow in status.read(engine.status_path(0)).flows for p in flow.partitions)
    assert mirrored * RECORD_BYTES < BACKLOG_BYTES / 2, "the target was not slow"
    assert most < MEMORY_MIB, engine.log()
    assert engine.stop(worker) == 0, engine.log()
