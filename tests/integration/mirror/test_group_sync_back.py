"""Groups that read on the target: their positions on the mirror arrive on the source, at the exact record, without a drill."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from confluent_kafka import Consumer
from fix_engine import Engine, create_topic, produce, wait_for
from testbed_sync import move, position, same_record, value_at

Fresh = Callable[..., str]


def test_group_sync_back_position_on_the_mirror_arrives_on_the_source_and_never_goes_back(
    engine: Engine, fresh_topic: Fresh
) -> None:
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    moved, new, still, reset = (fresh_topic(name) for name in ("moved", "new", "still", "reset"))
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 300, partitions=1)
    back = f"{engine.target}->{engine.source}"
    engine.extra |= {
        f"{back}.enabled": "true",
        f"{back}.topics": "none",
        "groups": f"{moved}, {new}, {still}, {reset}",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    for group in (moved, still, reset):
        move(engine.left, group, topic, 100)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    for group in (moved, still, reset):
        wait_for(f"{group} is synchronized", partial(same_record, engine, group))
    consume_on(engine.right, mirror, moved, 50)  # 100 to 150
    consume_on(engine.right, mirror, new, 30)  # from the start, and never on the source
    consume_on(engine.right, mirror, reset, 20)
    wait_for("the position of the moved group arrives", lambda: position(engine.left, moved, topic) == 150, 30)
    wait_for("so does that of the new one", lambda: position(engine.left, new, topic) == 30, 30)
    wait_for("and of the third", lambda: position(engine.left, reset, topic) == 120, 30)
    move(engine.left, reset, topic, 10)  # on purpose: it stays there
    consume_on(engine.right, mirror, moved, 100)
    wait_for("it follows", lambda: position(engine.left, moved, topic) == 250, 30)
    assert position(engine.left, still, topic) == 100
    assert position(engine.left, reset, topic) == 10
    consume_on(engine.left, topic, moved, 20)  # the consumers return, and read on from there
    assert position(engine.left, moved, topic) == 270
    assert engine.stop(worker) == 0, engine.log()


def test_both_flows_synchronize_a_group_that_reads_both_topics_on_one_cluster(
    engine: Engine, fresh_topic: Fresh
) -> None:
    """On the source one flow writes where the group is in the mirror of the target's topic, the other one where it is in the
    source's own: neither is a client of the group."""
    topic, own, group = engine.topics, fresh_topic("own"), fresh_topic("group")
    here, there = f"{engine.source}.{topic}", f"{engine.target}.{own}"
    back = f"{engine.target}->{engine.source}"
    engine.extra |= {
        f"{back}.enabled": "true",
        f"{back}.topics": own,
        "groups": group,
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "5",
    }
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, own, 1)
    produce(engine.left, topic, 300, partitions=1)
    produce(engine.right, own, 300, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    wait_for("the mirror is there", lambda: value_at(engine.right, here, 299) is not None, 30)
    for number in (1, 2):  # a group that a client has moved is left for ten runs
        consume_on(engine.right, here, group, 20)
        wait_for("its position in the mirror arrives", partial(is_at, engine, group, topic, 20 * number), 40)
        consume_on(engine.right, own, group, 30)
        wait_for(
            "so does that in the other topic", partial(is_at, engine, group, there, 30 * number + 1), 40
        )  # a marker
    assert engine.stop(worker) == 0, engine.log()


def is_at(engine: Engine, group: str, topic: str, offset: int) -> bool:
    return position(engine.left, group, topic) == offset


def consume_on(bootstrap: str, topic: str, group: str, count: int) -> None:
    """Read `count` records of partition 0 as a member of `group`, commit and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    left = count

    def read() -> bool:
        nonlocal left
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            left -= 1
            if left == 0:
                consumer.commit(message=message, asynchronous=False)
        return left <= 0

    try:
        wait_for(f"{group} has read {count} records", read, 40)
    finally:
        consumer.close()
