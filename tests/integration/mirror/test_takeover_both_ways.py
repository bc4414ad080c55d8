"""A topic that the real MirrorMaker 2 copied one way, under its own name, is taken over and copied in both directions.

What MirrorMaker 2 copied has no producer ID, nor have records of most clients of the target: only contents say which is which.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

import pytest
from confluent_kafka import Consumer, TopicPartition
from fix_engine import Engine, commit, create_topic, delete_records, latest_offsets, produce, wait_for
from fix_two_way import IDENTITY, RIGHTS_FIRST, worker
from testbed_mm2 import connect_keys

from bench.mirror_maker import MirrorMaker2
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.kafka.admin.descriptions import Range
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions, translate_groups
from drlib.mirror.offsets.unreplicated.origins import read_stretches_of
from drlib.mirror.status import worker_status as status
from drlib.model import Flow, TranslationKind
from drlib.model import TopicPartition as Partition

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
    return (latest_offsets(bootstrap, topic, 1) or {0: 0})[0]


def copied_by_mm2(engine: Engine, mm2: MirrorMaker2, rights: str, end: str = "SIGTERM") -> int:
    """MirrorMaker 2 copies what the left writes; how many records clients write on the right, before, during or after that."""
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


def flows(engine: Engine) -> tuple[status.FlowStatus, ...]:
    return status.read(engine.status_path(len(engine.processes) - 1)).flows


def both_read(engine: Engine) -> bool:
    """Have both directions read all there is?"""
    shown = [p for flow in flows(engine) for p in flow.partitions if p.topic == engine.topics]
    return len(shown) == 2 and all(not p.parked and p.mirrored >= p.high_watermark >= 0 for p in shown)


def asked(engine: Engine) -> list[tuple[str, str]]:
    """The keys that open events ask for, with the value, in the order in which they are offered."""
    texts = (f"{event.detail} {event.remedy} " for event in engine.events() if event.resolved_ms is None)
    return [word for text in texts for word in _WORD.findall(text) if word[0] not in engine.extra]


def said(engine: Engine, other: str = "") -> list[str]:
    """Run workers, and say what their events ask for, until both directions copy; the keys that were set, in this order.

    `other`: which of two words is said where an event offers both.
    """
    words: list[str] = []
    for _ in range(4):
        with worker(engine):
            try:
                wait_for(
                    "both directions copy, or a word is asked for", lambda: both_read(engine) or bool(asked(engine))
                )
            except AssertionError as error:
                raise AssertionError(f"{error}\n{engine.events()}\n{engine.log()}") from None
            found = asked(engine)
        if not found:
            return words
        key, value = next((word for word in found if other and other in word[0]), found[0])
        engine.extra[key] = value
        words.append(key.partition(".drlib.")[0] + " " + key.partition(".drlib.")[2])
    raise AssertionError(f"no end of words: {words}\n{engine.log()}")


def logged(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """Offset and number of each record, in log order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "auto.offset.reset": "earliest"})
    partition, found = TopicPartition(topic, 0, 0), list[tuple[int, int]]()
    _, end = consumer.get_watermark_offsets(partition, timeout=20)
    consumer.assign([partition])
    try:
        while consumer.position([partition])[0].offset < end:
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                found.append((int(message.offset() or 0), int(dict(message.headers() or ())["n"])))
    finally:
        consumer.close()
    return found


def numbers(bootstrap: str, topic: str) -> list[int]:
    return [number for _, number in logged(bootstrap, topic)]


def assert_each_once(engine: Engine, lefts: int, rights: int) -> None:
    """Both logs have the same records, each once, and those of the left in the order in which they were written."""
    for bootstrap in (engine.left, engine.right):
        found = numbers(bootstrap, engine.topics)
        twice = [n for n, count in Counter(found).items() if count > 1]
        assert not twice, (
            f"{len(twice)} records are there more than once: {twice[:5]}\n{engine.events()}\n{engine.log()}"
        )
        counts = sum(n < RIGHTS_FIRST for n in found), sum(n >= RIGHTS_FIRST for n in found)
        assert counts == (lefts, rights), f"{counts}\n{engine.events()}\n{engine.log()}"
        assert (of_left := [n for n in found if n < RIGHTS_FIRST]) == sorted(of_left)


def assert_positions(engine: Engine, *, exact: bool) -> None:
    """Groups on both sides, at positions all over the log, continue on the other side without skipping a record.

    `exact`: and read none again. Of the groups on the left so do the checkpoints, without asking the left.
    """
    logs = {bootstrap: logged(bootstrap, engine.topics) for bootstrap in (engine.left, engine.right)}
    settings = load_mirror_settings(engine.properties)
    for here, there, flow in (
        (engine.left, engine.right, Flow(engine.source, engine.target)),
        (engine.right, engine.left, Flow(engine.target, engine.source)),
    ):
        ends = [offset for offset, _ in logs[here]]
        groups = {f"{engine.topics}-{flow.source}-{n}": ends[len(ends) * n // 6] for n in range(6)}
        groups[f"{engine.topics}-{flow.source}-end"] = ends[-1] + 1
        for group, at in groups.items():
            commit(here, group, engine.topics, at)
        found = [(item, exact) for item in translate_groups(settings, flow, list(groups), source_alive=True)]
        if here == engine.left:
            wait_for("checkpoints of all", partial(checkpointed, settings, flow, groups))
            found += [(item, False) for item in translate_groups(settings, flow, list(groups), source_alive=False)]
        assert {item.group for item, _ in found} == groups.keys()
        for item, exactly in found:
            at, translation = groups[item.group], item.translation
            assert (item.source_offset, translation.offset is None) == (at, False), item
            read = {n for offset, n in logs[here] if offset < at}
            rest = {n for offset, n in logs[there] if offset >= (translation.offset or 0)}
            assert {n for _, n in logs[there]} - read <= rest, f"skipped: {item}"
            again = len(read & rest)
            assert again <= translation.records, item
            print(flow, item.group[-3:], at, translation, again, item.both_maps)
            if exactly:
                assert translation.kind is TranslationKind.EXACT, item


def assert_origins(engine: Engine) -> None:
    """Analyses take for each cluster's own what its clients wrote, before the takeover and after it."""
    settings, there = load_mirror_settings(engine.properties), Flow(engine.source, engine.target)
    for flow, bootstrap in ((there.reverse, engine.left), (there, engine.right)):
        log, partition = logged(bootstrap, engine.topics), Partition(engine.topics, 0)
        whole = {partition: Range(0, log[-1][0] + 1)}
        own = read_stretches_of(settings, flow, whole, copies=False)[partition]
        found = {n for offset, n in log if any(each.start <= offset < each.end for each in own)}
        assert found == {n for _, n in log if (n < RIGHTS_FIRST) == (bootstrap == engine.left)}


def checkpointed(settings: MirrorSettings, flow: Flow, groups: Mapping[str, int]) -> bool:
    known = {group: each.offset for (group, _), each in checkpointed_positions(settings, flow).items()}
    return {group: known.get(group) for group in groups} == groups


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
    there, back = f"{engine.source}->{engine.target}", f"{engine.target}->{engine.source}"
    assert words == [f"{back} own.records.journal", *([f"{there} own.records.journal"] if rights else [])]
    assert_each_once(engine, LEFTS + 50, written)
    with worker(engine):
        wait_for("both logs are compared", lambda: not any(p.to_compare for f in flows(engine) for p in f.partitions))
        assert_positions(engine, exact=not rights)
        produce(engine.left, topic, 60, partitions=1, first=LEFTS + 50)
        produce(engine.right, topic, 70, partitions=1, first=RIGHTS_FIRST + 10_000)
        all_of_them = LEFTS + 50 + 60 + 70 + written
        wait_for("all is copied", lambda: both_read(engine) and len(numbers(engine.left, topic)) >= all_of_them)
        engine.wait_all_resolved()
    assert_each_once(engine, LEFTS + 110, written + 70)
    with worker(engine):  # a later claim decides nothing again
        wait_for("both directions have read all", lambda: both_read(engine))
        assert_positions(engine, exact=False)
        assert_origins(engine)
    assert_each_once(engine, LEFTS + 110, written + 70)


def test_copies_that_the_source_has_lost_since_are_not_copied_back_where_the_operator_says_that_they_are_copies(
    engine: Engine, mm2: MirrorMaker2
) -> None:
    copied_by_mm2(engine, mm2, "")
    delete_records(engine.left, engine.topics, 200)
    both_ways(engine)
    words = said(engine, "copied")
    there, back = f"{engine.source}->{engine.target}", f"{engine.target}->{engine.source}"
    assert words == [f"{back} own.records.journal", f"{there} copied.records.journal"]
    assert numbers(engine.left, engine.topics) == list(range(200, LEFTS))
    assert numbers(engine.right, engine.topics) == list(range(LEFTS))


def test_mirror_maker_that_copied_twice_after_it_was_killed_leaves_copies_that_are_not_copied_back(
    engine: Engine, mm2: MirrorMaker2
) -> None:
    text = mm2.properties.read_text()
    mm2.properties.write_text(text.replace("offset.flush.interval.ms = 2000", "offset.flush.interval.ms = 600000"))
    written = copied_by_mm2(engine, mm2, "during", "SIGKILL")
    before = held(engine.right, engine.topics)
    mm2.start()
    wait_for(
        "it copies again what it had not committed", lambda: held(engine.right, engine.topics) >= before + 200, 120
    )
    mm2.kill()
    both_ways(engine)
    said(engine)
    found = numbers(engine.left, engine.topics)
    assert sorted(found) == [*range(LEFTS), *range(RIGHTS_FIRST + 1000, RIGHTS_FIRST + 1000 + written)]
    assert set(numbers(engine.right, engine.topics)) == set(found)


def test_mirror_maker_that_still_runs_refuses_both_directions_and_nothing_is_copied(
    engine: Engine, mm2: MirrorMaker2
) -> None:
    create_topic(engine.left, engine.topics, 1)
    produce(engine.left, engine.topics, 300, partitions=1)
    mm2.start()
    wait_for("it has copied them", lambda: held(engine.right, engine.topics) >= 300, 120)
    both_ways(engine)
    process = engine.start()
    assert process.wait(90) == 10, engine.log()
    assert f"Connect group {engine.source}-mm2" in engine.log()
    assert [held(bootstrap, engine.topics) for bootstrap in (engine.left, engine.right)] == [300, 300]


def test_mirror_maker_that_is_started_beside_both_directions_stops_the_direction_that_would_copy_its_copies(
    engine: Engine, mm2: MirrorMaker2
) -> None:
    for bootstrap in (engine.left, engine.right):
        create_topic(bootstrap, engine.topics, 1)
    both_ways(engine)
    with worker(engine):
        produce(engine.left, engine.topics, 30, partitions=1)
        wait_for("they are on the right", lambda: len(numbers(engine.right, engine.topics)) == 30)
        mm2.start()
        engine.wait_reported("RecordsReturned", engine.topics, deadline_s=120)

        def named() -> bool:
            """Records may be seen to return before the group is."""
            (event,) = (each for each in engine.events() if each.name == "RecordsReturned")
            assert event.flow == f"{engine.target}->{engine.source}"
            return f"Connect group {engine.source}-mm2 has members" in event.detail

        wait_for("the event names the group", named)
