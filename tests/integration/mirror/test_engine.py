"""The engine between real brokers: verbatim copies, kill -9 at every failpoint, takeovers, gaps, refused batches."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from fix_engine import Engine, create_topic, produce, read_all, traffic, wait_for, wait_for_markers

from drlib.config.settings import load_mirror_settings
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.model import Flow, TranslationKind

PARTITIONS = 3
KILLS = ["after-fetch", "after-journal-write", "mid-produce", "after-ack", "mid-claim", "after-claim"]
LATER = [("after-fetch", 5), ("mid-produce", 4), ("after-ack", 4), ("mid-claim", 2)]
PASSAGES = [*((stage, 1) for stage in KILLS), *(pytest.param(*each, marks=pytest.mark.long) for each in LATER)]


def test_mirror_every_codec_is_copied_and_sigterm_drains(engine: Engine) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, PARTITIONS)
    for at, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        produce(engine.left, topic, 900, partitions=PARTITIONS, first=900 * at, codec=codec, batch=2000 * (at + 1))
    worker = engine.start()
    engine.wait_caught_up(topic, PARTITIONS)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(topic, PARTITIONS)


@pytest.mark.parametrize(("stage", "passage"), PASSAGES)
def test_worker_kill_nine_at_every_failpoint_copies_exactly_once(engine: Engine, stage: str, passage: int) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, PARTITIONS)
    produce(engine.left, topic, 3000, partitions=PARTITIONS, batch=4000)
    first = engine.start(failpoint=f"{stage}:{passage}")
    with traffic(engine.left, topic, partitions=PARTITIONS, first=3000):
        assert first.wait(60) == -signal.SIGKILL, engine.log()
    second = engine.start()
    engine.wait_caught_up(topic, PARTITIONS)
    assert engine.stop(second) == 0, engine.log()
    engine.assert_same(topic, PARTITIONS)


def test_lane_owner_resumed_after_takeover_changes_nothing(engine: Engine) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, PARTITIONS)
    produce(engine.left, topic, 3000, partitions=PARTITIONS)
    sleeper = engine.start()
    engine.wait_caught_up(topic, PARTITIONS, 0)
    with traffic(engine.left, topic, partitions=PARTITIONS, first=3000, count=90):
        sleeper.send_signal(signal.SIGSTOP)
        heir = engine.start()
        engine.wait_caught_up(topic, PARTITIONS, 1)
        sleeper.send_signal(signal.SIGCONT)
        produce(engine.left, topic, 900, partitions=PARTITIONS, first=10**6)
    wait_for(
        "both workers together have everything",
        lambda: (
            len(read_all(engine.right, f"{engine.source}.{topic}", PARTITIONS)[0])
            >= len(read_all(engine.left, topic, PARTITIONS)[0])
        ),
    )
    wait_for(  # whichever of the two owns the lanes now
        "the worker that woke up has no open LaneLost",
        lambda: not any(e.name == "LaneLost" and e.resolved_ms is None for e in engine.events(0)),
        40,
    )
    assert engine.stop(sleeper) == 0, engine.log()
    assert engine.stop(heir) == 0, engine.log()
    last = engine.start()
    engine.wait_caught_up(topic, PARTITIONS)
    assert engine.stop(last) == 0
    engine.assert_same(topic, PARTITIONS)


def test_transactions_only_committed_records_copied_and_positions_exact(
    engine: Engine,
) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, 1)
    producer = Producer({"bootstrap.servers": engine.left, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for number in range(30):
        producer.begin_transaction()
        for record in range(7):
            producer.produce(topic, value=f"{number}-{record}".encode(), partition=0)
        if number % 3 == 2:
            producer.flush(30)  # unsent records would leave the broker nothing to abort
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    wait_for_markers(engine.left, topic, 1)
    consume_to_the_end(engine.left, topic, "reader-of-transactions")
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(topic, 1)
    settings = load_mirror_settings(engine.properties)
    (found,) = translate_groups(settings, Flow(engine.source, engine.target), ["reader-of-transactions"])
    assert found.translation.kind is TranslationKind.EXACT
    there = read_all(engine.right, f"{engine.source}.{topic}", 1)[0]
    assert len(there) == 20 * 7


def test_mirror_old_records_and_compaction_gaps_keep_their_offsets(engine: Engine) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, 1, retention_ms="-1")
    producer = Producer({"bootstrap.servers": engine.left, "log_level": 0, "linger.ms": 5})
    for number in range(2000):
        producer.produce(topic, value=b"%d" % number, partition=0, timestamp=1_357_000_000_000 + number)
    assert producer.flush(30) == 0
    first = engine.start(failpoint="after-ack:1")
    assert first.wait(60) == -signal.SIGKILL, engine.log()
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(topic, 1)


def test_produce_refused_batch_parks_only_its_partition(engine: Engine, right: str) -> None:
    topic = engine.topics
    engine.extra["sync.topic.configs.enabled"] = "false"  # the limit would be put right, on a slow machine in time
    create_topic(engine.left, topic, 2)
    create_topic(right, f"{engine.source}.{topic}", 2, max_message_bytes="20000")
    produce(engine.left, topic, 10, partitions=2)
    producer = Producer({"bootstrap.servers": engine.left, "log_level": 0})
    producer.produce(topic, value=b"x" * 50_000, partition=0)
    producer.flush(10)
    produce(engine.left, topic, 1000, partitions=2, first=100, batch=4000)
    engine.start()

    def parked() -> bool:
        from drlib.mirror.status import worker_status as status

        try:
            state = status.read(engine.status_path(0))
        except Exception:
            return False
        by_number = {p.partition: p for f in state.flows for p in f.partitions}
        return len(by_number) == 2 and "10" in by_number[0].parked and by_number[1].mirrored == 505

    wait_for("partition 0 is parked and partition 1 is through", parked)


def consume_to_the_end(bootstrap: str, topic: str, group: str) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    ended = False

    def step() -> bool:
        nonlocal ended
        message = consumer.poll(0.1)
        if message is not None and message.error() is not None:
            ended = True
        return ended

    try:
        wait_for(f"{group} is at the end", step)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def test_discovery_new_topic_is_mirrored(engine: Engine, fresh_topic: Callable[[], str]) -> None:
    first, second = engine.topics, fresh_topic()
    engine.topics = f"{first}, {second}"
    create_topic(engine.left, first, 1)
    produce(engine.left, first, 100, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(first, 1)
    create_topic(engine.left, second, 2)
    produce(engine.left, second, 100, partitions=2)
    engine.wait_caught_up(second, 2)
    produce(engine.left, first, 100, partitions=1, first=100)
    engine.wait_caught_up(first, 1)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(first, 1)
    engine.assert_same(second, 2)
