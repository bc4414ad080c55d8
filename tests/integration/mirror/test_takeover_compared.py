"""Positions in what MirrorMaker 2 copied, once the worker has compared both logs: exact, also behind a restart.

Copies and offsets are written as MirrorMaker 2 4.3.1 writes them; the real one is in `test_takeover_mm2`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from confluent_kafka import Consumer, TopicPartition
from fix_engine import Engine, commit, create_topic, wait_for
from testbed_lane import send
from testbed_mm2 import copied_up_to, journal_entries, taken_map

from drlib.config.settings import load_mirror_settings
from drlib.mirror.journal.entries import Compared
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.model import Flow, Translation, TranslationKind

GROUP = "billing"
RECORDS = [f"record{n}" for n in range(100)]


def copied_by_mm2(engine: Engine, *runs: tuple[int, int], copies: Sequence[str] = RECORDS) -> None:
    """A source topic of `RECORDS`, and its mirror after runs of MirrorMaker 2, each of which copied from .. to."""
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    now = int(time.time() * 1000) - 10_000
    engine.extra |= {
        "drlib.lanes": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, mirror, 1)
    send(engine.left, topic, RECORDS, timestamp=now)
    for first, end in runs:
        send(engine.right, mirror, copies[first:end], timestamp=now + first)
    copied_up_to(engine, 99)


def committed_on_target(engine: Engine) -> int:
    consumer = Consumer({"bootstrap.servers": engine.right, "group.id": GROUP, "log_level": 0})
    try:
        (found,) = consumer.committed([TopicPartition(f"{engine.source}.{engine.topics}", 0)], timeout=10)
        return int(found.offset)
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (((0, 100),), 60),
        (((0, 80), (50, 55), (50, 100)), 95),  # killed twice: it began again behind its last committed offset
    ],
)
def test_takeover_position_in_the_copied_part_becomes_exact(
    engine: Engine, runs: Sequence[tuple[int, int]], expected: int
) -> None:
    copied_by_mm2(engine, *runs)
    commit(engine.left, GROUP, engine.topics, 60)
    worker = engine.start()
    engine.wait_caught_up(engine.topics, 1)
    wait_for("the group's position is exact on the target", lambda: committed_on_target(engine) == expected)
    assert engine.stop(worker) == 0, engine.log()
    journal = journal_entries(engine)
    before = taken_map(engine, [e for e in journal if not isinstance(e, Compared)]).forward(60)
    assert (before.offset, before.kind) == (0, TranslationKind.BOUNDED)
    assert before.records >= sum(end - first for first, end in runs)
    assert taken_map(engine, journal).forward(60) == Translation(expected, TranslationKind.EXACT)
    settings = load_mirror_settings(engine.properties)
    (found,) = translate_groups(settings, Flow(engine.source, engine.target), [GROUP])
    assert found.translation == Translation(expected, TranslationKind.EXACT)

    engine.mirror_now(engine.topics)  # a later claim finds all of it in the journal
    assert [e for e in journal_entries(engine) if isinstance(e, Compared)] == [
        e for e in journal if isinstance(e, Compared)
    ]


def test_takeover_of_other_records_stays_bounded_and_is_reported(engine: Engine) -> None:
    """A connector altered one record: what was copied after it is exact, what was copied before it is not."""
    altered = [*RECORDS[:40], "altered", *RECORDS[41:]]
    copied_by_mm2(engine, (0, 100), copies=altered)
    worker = engine.start()
    event = engine.wait_reported("TakeoverDiffers", f"{engine.topics}-0")
    assert event.detail.startswith(f"below offset 41, and offset 41 of {engine.source}.{engine.topics}-0: ")
    assert engine.stop(worker) == 0, engine.log()
    journal = journal_entries(engine)
    assert taken_map(engine, journal).forward(41) == Translation(41, TranslationKind.EXACT)
    assert taken_map(engine, journal).forward(40) == Translation(0, TranslationKind.BOUNDED, 41)
