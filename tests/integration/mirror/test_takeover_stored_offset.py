"""MirrorMaker 2's stored offset where topic or mirror are not those it was stored for, and records it cannot have written.

Offsets are written as MirrorMaker 2 4.3.1 writes them; the takeover of running flows is in `test_takeover_mm2`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from confluent_kafka.admin import AdminClient
from fix_engine import Engine, create_topic, delete_topic, read_all, wait_for
from testbed_lane import send
from testbed_mm2 import copied_up_to, write

from drlib.mirror.mm2.records import OffsetSync
from drlib.model import TopicPartition


def values(engine: Engine) -> list[bytes | None]:
    return [record[1] for record in read_all(engine.right, f"{engine.source}.{engine.topics}", 1)[0]]


def as_bytes(*parts: Sequence[str]) -> list[bytes]:
    return [value.encode() for part in parts for value in part]


FORMER = [f"former{n}" for n in range(100)]
LATER = [f"later{n}" for n in range(300)]


def test_takeover_recreated_source_topic_starts_at_its_log_start(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    now = int(time.time() * 1000)
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, f"{engine.source}.{topic}", 1)
    send(engine.left, topic, FORMER, timestamp=now)
    send(engine.right, f"{engine.source}.{topic}", FORMER, timestamp=now)
    copied_up_to(engine, 99)
    engine.mirror_now(topic)
    assert values(engine) == as_bytes(FORMER)
    delete_topic(engine.left, topic)
    admin = AdminClient({"bootstrap.servers": engine.left, "log_level": 0})
    wait_for(f"{topic} is gone", lambda: topic not in admin.list_topics(timeout=5).topics)
    create_topic(engine.left, topic, 1)
    send(engine.left, topic, LATER)
    engine.mirror_now(topic)
    assert values(engine) == as_bytes(FORMER, LATER), engine.log()
    assert [e.detail for e in engine.events() if e.name == "TakeoverStale"] == [
        f"MM2 copied up to 99, {topic} was re-created since"
    ]


def test_takeover_offset_without_mirror_topic_starts_at_the_log_start(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    create_topic(engine.left, topic, 1)
    send(engine.left, topic, LATER)
    copied_up_to(engine, 99)
    for _ in range(3):  # each claim leaves a marker where copies would be
        engine.mirror_now(topic)
        assert values(engine) == as_bytes(LATER), engine.log()
    assert any(e.name == "TakeoverStale" and e.concerns(f"{topic}-0") for e in engine.events(0))


def test_takeover_mirror_of_another_topic_is_parked(engine: Engine) -> None:
    """The source topic was re-created before our first claim, so the journal knows only one."""
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    engine.extra["drlib.lanes"] = "1"
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, mirror, 1)
    now = int(time.time() * 1000)
    send(engine.right, mirror, FORMER, timestamp=now - 3_600_000)
    send(engine.left, topic, LATER, timestamp=now)
    copied_up_to(engine, 99)
    worker = engine.start()
    event = engine.wait_reported("MirrorContradiction", f"{mirror}-0")
    assert "none is among" in event.detail
    assert "drlib remirror FILE" in event.remedy
    assert engine.stop(worker) == 0, engine.log()
    assert values(engine) == as_bytes(FORMER)


def test_takeover_unreadable_records_are_skipped_counted_and_named(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    now = int(time.time() * 1000)
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, f"{engine.source}.{topic}", 1)
    send(engine.left, topic, LATER, timestamp=now)
    send(engine.right, f"{engine.source}.{topic}", LATER[:120], timestamp=now)
    offsets = copied_up_to(engine, 99)
    write(engine.right, offsets, b"no json", b"{}")
    syncs = f"mm2-offset-syncs.{engine.target}.internal"
    create_topic(engine.left, syncs, 1, cleanup_policy="compact")
    sync = OffsetSync(TopicPartition(topic, 0), 50, 50)
    write(engine.left, syncs, sync.key(), sync.value())
    write(engine.left, syncs, sync.key(), b"short")
    write(engine.left, syncs, b"\xff", sync.value())
    negative = OffsetSync(TopicPartition(topic, 0), -5, 60)
    write(engine.left, syncs, negative.key(), negative.value())
    engine.mirror_now(topic)
    assert values(engine) == as_bytes(LATER), engine.log()
    events = {e.entity: e.detail for e in engine.events() if e.name == "TakeoverRecordSkipped"}
    assert set(events) == {offsets, syncs}
    assert events[offsets].startswith("1 records were skipped")
    assert events[syncs].startswith("3 records were skipped")
    assert not [e for e in engine.events() if e.name == "LaneFailed"]
