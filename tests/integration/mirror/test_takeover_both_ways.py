"""A topic that the real MirrorMaker 2 copied one way under its own name is taken over, and copied in both directions from then on.

What MirrorMaker 2 copied has no producer ID, nor have records of most clients of the target: only contents say which is which.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from fix_engine import Engine, commit, create_topic, latest_offsets, produce, read_all, wait_for
from fix_two_way import IDENTITY, RIGHTS_FIRST, worker
from testbed_mm2 import connect_keys

from bench.mirror_maker import MirrorMaker2
from drlib.config.settings import load_mirror_settings
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.model import Flow, TranslationKind

pytestmark = [pytest.mark.mm2, pytest.mark.timeout(400)]

LEFTS, RIGHTS = 600, 40
_WORD = re.compile(r"set (\S+) = (\S+?)[,;.]? ")


@pytest.fixture
def mm2(engine: Engine) -> Iterator[MirrorMaker2]:
    """One way; as by default it also has workers for the flow back, for heartbeats, and so topics of its own on the left."""
    engine.extra |= {
        **connect_keys(engine.source, engine.target),
        "replication.policy.class": IDENTITY,
        f"{engine.target}->{engine.source}.emit.heartbeats.enabled": "true",
        f"{engine.target}.offset.flush.interval.ms": "2000",
        f"{engine.source}.offset.flush.interval.ms": "2000",
        "drlib.lanes": "1",
    }
    maker = MirrorMaker2(engine.root / "mm2", engine.root / "only.properties")
    maker.properties.write_text(engine.properties.read_text())
    yield maker
    maker.kill()


def held(bootstrap: str, topic: str) -> int:
    """How many offsets partition 0 has; 0 before there is a topic."""
    try:
        return (latest_offsets(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}), topic, 1) or {0: 0})[0]
    except KafkaException:
        return 0


def copied_by_mm2(engine: Engine, mm2: MirrorMaker2, rights: str, end: str = "SIGTERM") -> int:
    """MirrorMaker 2 copies what the left writes, and clients write on the right before, during or after that; how many records."""
    topic = engine.topics
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, topic, 1)

    def write(when: str) -> int:
        if when not in rights:
            return 0
        first = RIGHTS_FIRST + 1000 * ("before", "during", "after").index(when)
        produce(engine.right, topic, RIGHTS, partitions=1, first=first)
        return RIGHTS

    there = write("before")
    produce(engine.left, topic, LEFTS // 2, partitions=1)
    mm2.start()
    wait_for("the first half is copied", lambda: held(engine.right, topic) >= LEFTS // 2 + there, 120)
    there += write("during")
    produce(engine.left, topic, LEFTS // 2, partitions=1, first=LEFTS // 2)
    wait_for("the second half is copied", lambda: held(engine.right, topic) >= LEFTS + there, 60)
    if end == "SIGTERM":
        assert mm2.stop(), mm2.log_tail()
    else:
        mm2.kill()
    return there + write("after")


def both_ways(engine: Engine) -> None:
    engine.extra[f"{engine.target}->{engine.source}.enabled"] = "true"


def said(engine: Engine, other: str = "") -> list[str]:
    """Run workers, saying what their events ask for, until both directions copy; the keys that were set, in this order.

    `other`: which of two words is said where an event offers both.
    """
    words: list[str] = []
    for _ in range(4):
        asked: list[tuple[str, str]] = []
        copied = False

        def step() -> bool:
            nonlocal copied
            asked[:] = [
                word
                for e in engine.events()
                if e.resolved_ms is None
                for word in _WORD.findall(f"{e.remedy} ")
                if word[0] not in engine.extra
            ]
            copied = all(
                any(p.topic == engine.topics and not p.parked for p in flow.partitions) for flow in engine_flows(engine)
            ) and bool(engine_flows(engine))
            return bool(asked) or (copied and both_read(engine))

        with worker(engine):
            try:
                wait_for("both directions copy, or a word is asked for", step, 60)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{engine.events()}\n{engine.log()}") from None
        if not asked:
            return words
        key, value = next((w for w in asked if other and other in w[0]), asked[0])
        engine.extra[key] = value
        words.append(key)
    raise AssertionError(f"no end of words: {words}\n{engine.log()}")


def engine_flows(engine: Engine) -> tuple[object, ...]:
    from drlib.mirror.status import worker_status as status

    return status.read(engine.status_path(len(engine.processes) - 1)).flows


def both_read(engine: Engine) -> bool:
    """Have both directions read all there is?"""
    return all(
        p.mirrored >= p.high_watermark >= 0
        for flow in engine_flows(engine)
        for p in flow.partitions
        if p.topic == engine.topics
    )


def numbers(bootstrap: str, topic: str) -> list[int]:
    return [int(dict(record[2])["n"]) for record in read_all(bootstrap, topic, 1)[0]]


def assert_each_once(engine: Engine, lefts: int, rights: int) -> None:
    """Both logs have the same records, each once, and those of each side in the order in which they were written."""
    for bootstrap in (engine.left, engine.right):
        found = Counter(numbers(bootstrap, engine.topics))
        twice = [n for n, count in found.items() if count > 1]
        assert not twice, f"{len(twice)} records are there more than once: {twice[:5]}\n{engine.log()}"
        counts = sum(n < RIGHTS_FIRST for n in found), sum(n >= RIGHTS_FIRST for n in found)
        assert counts == (lefts, rights), f"{counts}\n{engine.events()}\n{engine.log()}"


@pytest.mark.parametrize("rights", ["", "before", "during", "before during after"])
@pytest.mark.parametrize("first", ["one way first", "both at once"])
def test_topic_of_mirror_maker_is_copied_both_ways_with_each_record_once(
    engine: Engine, mm2: MirrorMaker2, first: str, rights: str
) -> None:
    topic = engine.topics
    written = copied_by_mm2(engine, mm2, rights)
    if first == "one way first":
        with worker(engine, flows=1):
            produce(engine.left, topic, 50, partitions=1, first=LEFTS)
            engine.wait_caught_up(topic, 1)
    else:
        produce(engine.left, topic, 50, partitions=1, first=LEFTS)
    both_ways(engine)
    words = said(engine)
    print(words, [(e.name, e.detail, e.remedy, e.resolved_ms) for e in engine.events()])
    assert_each_once(engine, LEFTS + 50, written)
    with worker(engine):
        produce(engine.left, topic, 60, partitions=1, first=LEFTS + 50)
        produce(engine.right, topic, 70, partitions=1, first=RIGHTS_FIRST + 10_000)
        wait_for(
            "all is copied", lambda: both_read(engine) and len(numbers(engine.left, topic)) >= LEFTS + 180 + written
        )
    assert_each_once(engine, LEFTS + 110, written + 70)
