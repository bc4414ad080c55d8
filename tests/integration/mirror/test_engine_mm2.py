"""MM2's own Java client and our `translate` give the same exact position of a group after the engine mirrored its topic."""

from __future__ import annotations

import json
import subprocess
import sys

from confluent_kafka import Consumer
from fix_engine import Engine, create_topic, produce, read_all, wait_for
from testbed_mm2 import consume_some, java

from drlib.mirror.mm2.records import OffsetSync
from drlib.model import TopicPartition

PARTITIONS = 3
GROUP = "accounts"


def test_checkpoints_java_client_and_translate_agree_with_logs(engine: Engine) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, PARTITIONS)
    produce(engine.left, topic, 3000, partitions=PARTITIONS, codec="lz4")
    positions = consume_some(engine.left, topic, GROUP, 1500)
    assert positions
    worker = engine.start()
    engine.wait_caught_up(topic, PARTITIONS)
    remote = f"{engine.source}.{topic}"

    def reported() -> dict[str, list[object]]:
        seen = json.loads(java("TranslateOffsets.java", engine.right, engine.source, GROUP))
        groups: dict[str, dict[str, list[object]]] = seen["groups"]
        return groups[GROUP]

    wait_for("the checkpoints are there", lambda: len(reported()) == len(positions))
    assert engine.stop(worker) == 0, engine.log()
    argv = [sys.executable, "-m", "drlib.cli", "translate", str(engine.properties), "--json", "--group", GROUP]
    argv += ["--flow", f"{engine.source}->{engine.target}"]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == 0, shown.stderr
    rows = json.loads(shown.stdout)
    assert {row["partition"]: row["position"] for row in rows} == positions
    assert {row["kind"] for row in rows} == {"exact"}
    ours = {str(TopicPartition(remote, row["partition"])): row["offset"] for row in rows}
    assert ours == {name: value[0] for name, value in reported().items()}
    source, target = read_all(engine.left, topic, PARTITIONS), records_by_offset(engine.right, remote)
    for row in rows:
        partition, position = row["partition"], row["position"]
        if position < len(source[partition]):
            value = target[partition, row["offset"]]
            assert value == source[partition][position][1], f"partition {partition} resumes at another record"


def test_offset_syncs_without_lag_are_one_for_each_record(engine: Engine) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 40, partitions=1)
    engine.extra |= {"offset.lag.max": "0", "drlib.lanes": "1"}
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    produce(engine.left, topic, 40, partitions=1, first=40, batch=1)  # each record a batch of its own
    engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    written = read_all(engine.left, f"mm2-offset-syncs.{engine.target}.internal", 1)[0]
    syncs = [OffsetSync.decode(key, value) for key, value, _, _ in written]
    assert [sync.upstream_offset for sync in syncs] == [*range(80)]
    assert len({sync.offset for sync in syncs}) == 80


def records_by_offset(bootstrap: str, topic: str) -> dict[tuple[int, int], bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-of-{topic}",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: dict[tuple[int, int], bytes | None] = {}
    ended: set[int] = set()
    consumer.subscribe([topic])

    def step() -> bool:
        for message in consumer.consume(500, 0.1):
            if message.error() is None:
                found[message.partition() or 0, message.offset() or 0] = message.value()
            else:
                ended.add(message.partition() or 0)
        return len(ended) == PARTITIONS

    try:
        wait_for(f"{topic} is read", step)
    finally:
        consumer.close()
    return found
