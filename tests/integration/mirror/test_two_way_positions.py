"""Positions of groups in a topic that both clusters write to, on real brokers, against both logs read by a plain consumer."""

from __future__ import annotations

import json
import random

import pytest
from confluent_kafka import Consumer, TopicPartition
from fix_engine import Engine, commit, create_topic, produce, wait_for
from fix_two_way import IDENTITY, RIGHTS_FIRST, worker
from testbed_mm2 import java

from drlib import translate_offsets
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions, translate_groups
from drlib.model import Flow, GroupTranslation, TranslationKind
from drlib.model import TopicPartition as Partition


def numbers(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """Offset and number of each record, in log order."""
    found: list[tuple[int, int]] = []
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    partition = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=20)
    consumer.assign([partition])
    while consumer.position([partition])[0].offset < end:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            found.append((int(message.offset() or 0), int(dict(message.headers() or ())["n"])))
    consumer.close()
    return found


def check(engine: Engine, topic: str, items: tuple[GroupTranslation, ...], *, to_right: bool = True) -> list[int]:
    """Nothing is skipped, and as much is read again as predicted, or less within a bound; what each reads again."""
    here, there = (numbers(bootstrap, topic) for bootstrap in (engine.left, engine.right)[:: 1 if to_right else -1])
    again = []
    for item in items:
        at, translation = item.source_offset, item.translation
        assert translation.offset is not None, item
        read = {n for offset, n in here if offset < at}
        rest = [n for offset, n in there if offset >= translation.offset]
        missed = {n for _, n in here + there} - read - set(rest)
        assert not missed, f"{len(missed)} records are skipped: {item}"
        twice = sum(n in read for n in rest)
        assert twice <= translation.records, item
        if item.both_maps and translation.kind is not TranslationKind.LOST:
            assert twice == translation.records, item
        again.append(twice)
    return again


def settled(engine: Engine, topic: str, count: int) -> None:
    wait_for(
        "both logs hold every record",
        lambda: all(len(numbers(bootstrap, topic)) == count for bootstrap in (engine.left, engine.right)),
    )


def settings_of(engine: Engine) -> MirrorSettings:
    return load_mirror_settings(engine.properties)


def test_positions_are_translated_with_and_without_the_source_and_skip_nothing(both: Engine) -> None:
    topic, there = both.topics, Flow(both.source, both.target)
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, 1)
    chance = random.Random(7)
    with worker(both):
        for number in range(6):  # written at the same time, so that the logs differ in order
            produce(both.left, topic, 40, partitions=1, first=100 * number, batch=2000)
            produce(both.right, topic, 30, partitions=1, first=RIGHTS_FIRST + 100 * number, batch=2000)
        settled(both, topic, 420)
        ends = [numbers(bootstrap, topic)[-1][0] + 1 for bootstrap in (both.left, both.right)]
        end = f"end-{topic}"
        groups = {f"g{topic}-{n}": chance.randint(0, ends[0]) for n in range(5)} | {end: ends[0]}
        for group, at in groups.items():
            commit(both.left, group, topic, at)
        backs = {f"b{topic}-{n}": chance.randint(0, ends[1]) for n in range(5)}
        for group, at in backs.items():
            commit(both.right, group, topic, at)
        settings = settings_of(both)
        wait_for(
            "checkpoints of all groups",
            lambda: {g for g, _ in checkpointed_positions(settings, there)} >= groups.keys(),
        )
        check(both, topic, translate_groups(settings, there, list(groups), source_alive=True))
        check(both, topic, translate_groups(settings, there.reverse, list(backs), source_alive=True), to_right=False)
        wait_for(  # a checkpoint is lower until the worker has read the last entries of the journal on the left
            "checkpoints of what groups had read of the right's log",
            lambda: all(
                each.read is not None and each.read.there >= ends[1]
                for (group, _), each in checkpointed_positions(settings, there).items()
                if group == end
            ),
        )
        produce(both.right, topic, 50, partitions=1, first=RIGHTS_FIRST + 10_000)
        settled(both, topic, 470)
    items = translate_groups(settings, there, list(groups), source_alive=False)  # the journal on the left is not read
    assert {item.both_maps for item in items} == {False}
    assert {item.group: item.source_offset for item in items} == groups
    again = check(both, topic, items)
    exact = translate_groups(settings, there, list(groups), source_alive=True)
    print([(i.translation, e.translation, a) for i, e, a in zip(items, exact, again, strict=True)])
    assert [i.translation.offset for i in items if i.group.startswith("end")] == [
        e.translation.offset for e in exact if e.group.startswith("end")
    ]


def test_positions_without_the_source_are_exact_where_only_the_source_was_written_to(both: Engine) -> None:
    topic, there = both.topics, Flow(both.source, both.target)
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, 1)
    with worker(both):
        produce(both.left, topic, 200, partitions=1)
        settled(both, topic, 200)
    with worker(both):  # a second claim, with a marker in between
        produce(both.left, topic, 100, partitions=1, first=200)
        settled(both, topic, 300)
        groups = {f"a{topic}-{n}": n for n in (0, 120, 250)}
        for group, at in groups.items():
            commit(both.left, group, topic, at)
        settings = settings_of(both)
        wait_for("checkpoints", lambda: {g for g, _ in checkpointed_positions(settings, there)} >= groups.keys())
    items = translate_groups(settings, there, list(groups), source_alive=False)
    assert {item.translation.kind for item in items} == {TranslationKind.EXACT}, items
    assert check(both, topic, items) == [0, 0, 0]


@pytest.mark.long
def test_offsets_of_applications_are_translated_as_those_of_groups(both: Engine) -> None:
    topic, there = both.topics, Flow(both.source, both.target)
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, 1)
    with worker(both):
        for number in range(4):
            produce(both.left, topic, 40, partitions=1, first=100 * number, batch=2000)
            produce(both.right, topic, 30, partitions=1, first=RIGHTS_FIRST + 100 * number, batch=2000)
        settled(both, topic, 280)
        settings, group = settings_of(both), f"g{topic}"
        for at in (0, 77, 150, 270):
            commit(both.left, group, topic, at)
            (expected,) = translate_groups(settings, there, [group], source_alive=True)
            (found,) = translate_offsets(both.properties, both.source, both.target, [(topic, 0, at)])
            assert (found.target, found.translation) == (expected.target, expected.translation)
    (beyond,) = translate_offsets(both.properties, both.source, both.target, [(topic, 0, 100_000)])
    assert beyond.translation.offset is None
    assert "ends at" in beyond.why


@pytest.mark.long
def test_java_clients_find_positions_in_both_directions_under_the_same_topic_name(
    both: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, there = both.topics, Flow(both.source, both.target)
    monkeypatch.setenv("REPLICATION_POLICY", IDENTITY)
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, 1)
    groups = {there: f"l{topic}", there.reverse: f"r{topic}"}

    def found(flow: Flow) -> dict[str, list[object]]:
        """By partition, the position and its metadata, of the flow's group, as the client asks on the flow's target."""
        bootstrap = both.right if flow == there else both.left
        answer = json.loads(java("TranslateOffsets.java", bootstrap, flow.source, groups[flow]))
        assert answer["checkpointTopics"].count(f"{flow.source}.checkpoints.internal") == 1
        positions = answer["groups"][groups[flow]]
        assert isinstance(positions, dict)
        return positions

    with worker(both):
        for number in range(4):
            produce(both.left, topic, 40, partitions=1, first=100 * number, batch=2000)
            produce(both.right, topic, 30, partitions=1, first=RIGHTS_FIRST + 100 * number, batch=2000)
        settled(both, topic, 280)
        commit(both.left, groups[there], topic, 150)
        commit(both.right, groups[there.reverse], topic, 90)
        for flow, group in groups.items():
            (exact,) = translate_groups(settings_of(both), flow, [group], source_alive=True)
            check(both, topic, (exact,), to_right=flow == there)
            wait_for(
                f"the client has where {group} continues",
                lambda flow=flow, at=exact.translation.offset: found(flow) == {f"{topic}-0": [at, ""]},
                60,
            )


def committed(bootstrap: str, group: str, topic: str) -> int | None:
    with Cluster(ClusterSettings("CLUSTER", (bootstrap,))) as cluster:
        at = cluster.group_offsets(group).get(Partition(topic, 0))
    return None if at is None else at.offset


def test_group_offsets_are_synchronized_in_both_directions_and_never_moved_back(both: Engine) -> None:
    topic, there = both.topics, Flow(both.source, both.target)
    both.extra |= {"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1"}
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, 1)
    here, back, ahead = f"here-{topic}", f"back-{topic}", f"ahead-{topic}"
    with worker(both):
        for number in range(4):
            produce(both.left, topic, 40, partitions=1, first=100 * number, batch=2000)
            produce(both.right, topic, 30, partitions=1, first=RIGHTS_FIRST + 100 * number, batch=2000)
        settled(both, topic, 280)
        commit(both.left, here, topic, 60)
        commit(both.right, back, topic, 90)
        wait_for("both groups are known on the other side", lambda: committed(both.right, here, topic) is not None)
        wait_for("both groups are known on the other side", lambda: committed(both.left, back, topic) is not None)
        settings = settings_of(both)
        for flow, group, other in ((there, here, both.right), (there.reverse, back, both.left)):
            (item,) = translate_groups(settings, flow, [group], source_alive=True)
            assert item.translation.offset is not None
            wait_for(
                f"{group} is where it continues",
                lambda other=other, group=group, item=item: committed(other, group, topic) == item.translation.offset,
            )
            check(both, topic, (item,), to_right=flow == there)
        commit(both.left, here, topic, 200)  # it reads on
        (item,) = translate_groups(settings, there, [here], source_alive=True)
        wait_for("it is moved on", lambda: committed(both.right, here, topic) == item.translation.offset)
        assert committed(both.left, here, topic) == 200
        assert committed(both.right, back, topic) == 90
        assert not [e for e in both.events() if e.name.startswith("Group") and e.resolved_ms is None], both.events()
    produce(
        both.left, topic, 40, partitions=1, first=1000, batch=2000
    )  # each side has records that the other has not read:
    produce(both.right, topic, 30, partitions=1, first=RIGHTS_FIRST + 1000, batch=2000)  # they cross, and change places
    after = [numbers(bootstrap, topic)[-1][0] + 1 for bootstrap in (both.left, both.right)]
    with worker(both):
        settled(both, topic, 350)
        commit(both.left, ahead, topic, after[0])
        commit(both.right, ahead, topic, after[1])
        for direction in (there, there.reverse):
            wait_for(
                f"{direction} reports that the group reads on both sides",
                lambda direction=direction: any(
                    e.name == "GroupAhead" and e.concerns(ahead) and e.flow == str(direction) for e in both.events()
                ),
            )
        assert (committed(both.left, ahead, topic), committed(both.right, ahead, topic)) == tuple(after)
