"""What lies on the source before engines run: one topic of the workload's shape, or many empty ones.

Rules: records are counted as a read_committed consumer finds them, after compaction where there is one, and never taken
from what was sent. Not for: how fast producing is (`wire_load` says so itself).
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Producer

from bench.site import Site, create_topics, wire_load
from bench.workloads import RECORD_BYTES, Shape, Workload

TOPIC: Final = "bench"
TRANSACTION: Final = 1000  # records
ABORTED: Final = 10  # every tenth
_COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(8 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}
_CLEANER_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """`records` are on the source topic for an engine to copy; `words` describe them."""

    records: int
    words: str


def fill(site: Site, workload: Workload) -> Backlog:
    """Make the topic of a catch-up workload."""
    config = _COMPACTED if workload.shape is Shape.COMPACTED else {}
    create_topics(site.source_direct, [TOPIC], workload.partitions, config)
    if workload.shape is Shape.COMPACTED:
        _keyed(site, workload)
        records = _compacted(site, workload)
    elif workload.shape is Shape.TRANSACTIONAL:
        _transactions(site, workload)
        records = count(site, workload)
    else:
        size: dict[str, int | str] = {"batch_records": workload.batch_records, "codec": workload.codec}
        wire_load("produce", site.source_direct, TOPIC, workload.partitions, records=workload.records, **size)
        records = count(site, workload)
    return Backlog(records, f"{records:,} records of {RECORD_BYTES:,} bytes")


def count(site: Site, workload: Workload) -> int:
    return wire_load("fetch", site.source_direct, TOPIC, workload.partitions).records


def many_topics(site: Site, workload: Workload) -> list[str]:
    """Make the empty topics of a workload and return their names."""
    names = [f"{TOPIC}.{number:04}" for number in range(workload.topics)]
    create_topics(site.source_direct, names, workload.partitions)
    return names


def _producer(site: Site, **more: str | int) -> Producer:
    return Producer(
        {
            "bootstrap.servers": site.source_direct,
            "linger.ms": 5,
            "batch.size": 16384,
            "queue.buffering.max.messages": 200_000,
            "log_level": 0,
            **more,
        }
    )


def _send(producer: Producer, rng: random.Random, key: int, partition: int) -> None:
    while True:
        try:
            producer.produce(TOPIC, rng.randbytes(RECORD_BYTES - 8), b"%08d" % key, partition)
            return
        except BufferError:
            producer.poll(0.1)


def _flush(producer: Producer) -> None:
    rest = producer.flush(60)
    if rest:
        raise TimeoutError(f"{rest} records of {TOPIC} could not be produced")


def _keyed(site: Site, workload: Workload) -> None:
    """Twice as many records as keys, in random order: compaction leaves gaps everywhere."""
    producer, rng = _producer(site), random.Random(7)
    for _ in range(workload.records):
        key = rng.randrange(workload.records // 2)
        _send(producer, rng, key, key % workload.partitions)
    _flush(producer)


def _compacted(site: Site, workload: Workload) -> int:
    """Wait until the cleaner is through: records were removed, and a second count a second later is the same."""
    end = time.monotonic() + _CLEANER_S
    before = workload.records
    while time.monotonic() < end:
        time.sleep(1.0)
        now = count(site, workload)
        if now == before and now < 0.9 * workload.records:
            return now
        before = now
    raise TimeoutError(f"the log cleaner left {before} of {workload.records} records within {_CLEANER_S:g} s")


def _transactions(site: Site, workload: Workload) -> None:
    producer, rng = _producer(site, **{"transactional.id": "bench"}), random.Random(7)
    producer.init_transactions(30)
    for start in range(0, workload.records, TRANSACTION):
        producer.begin_transaction()
        for number in range(start, min(start + TRANSACTION, workload.records)):
            _send(producer, rng, number, number % workload.partitions)
        if start // TRANSACTION % ABORTED:
            producer.commit_transaction(30)
        else:
            _flush(producer)
            producer.abort_transaction(30)
