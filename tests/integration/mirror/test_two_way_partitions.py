"""Partitions added to a topic that both directions copy: written to on both sides before they are discovered."""

from __future__ import annotations

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from fix_engine import Engine, alter, create_topic, grow, produce, read_all, wait_for
from fix_two_way import RIGHTS_FIRST, worker

from drlib.mirror.engine.fencing.lanes import lane_of


def numbers(bootstrap: str, topic: str, partition: int) -> list[int]:
    return sorted(int(dict(record[2])["n"]) for record in read_all(bootstrap, topic, partition + 1)[partition])


def wait_both_have(engine: Engine, topic: str, partition: int, wanted: list[int]) -> None:
    def have() -> bool:
        return all(numbers(each, topic, partition) == sorted(wanted) for each in (engine.left, engine.right))

    try:
        wait_for(f"both have what was written to partition {partition}", have)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{engine.events()}\n{engine.log()}") from None


def empty(bootstrap: str, topic: str, partition: int) -> None:
    """As if the partition's disks were lost."""
    alter(bootstrap, topic, "cleanup.policy", "delete")
    at = TopicPartition(topic, partition, -1)  # its end
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_records([at])[at].result(30)
    alter(bootstrap, topic, "cleanup.policy", "compact")


def create_on_both(both: Engine, topic: str) -> None:
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, 1)


def write_on_both(both: Engine, topic: str) -> None:
    """50 records on LEFT and 60 on RIGHT, in the only partition, which both then have."""
    produce(both.left, topic, 50, partitions=1)
    produce(both.right, topic, 60, partitions=1, first=RIGHTS_FIRST)
    wait_both_have(both, topic, 0, [*range(50), *range(RIGHTS_FIRST, RIGHTS_FIRST + 60)])


def test_added_partitions_are_copied_where_the_flow_back_has_more_lanes(both: Engine) -> None:
    """Its further lanes begin behind the one that began the topic. They were said to have lost their journals, for good."""
    topic, both.extra["refresh.topics.interval.seconds"] = both.topics, "5"
    both.extra |= {f"{both.source}->{both.target}.drlib.lanes": "1", f"{both.target}->{both.source}.drlib.lanes": "3"}
    create_on_both(both, topic)
    with worker(both):
        write_on_both(both, topic)
        for bootstrap, first in ((both.left, 1000), (both.right, RIGHTS_FIRST + 1000)):
            grow(bootstrap, topic, 3)
            produce(bootstrap, topic, 40, partitions=3, first=first)
        for number in (1, 2):
            firsts = [first - first % 3 + number for first in (1000, RIGHTS_FIRST + 1000)]
            added = [n for first in firsts for n in range(first, first + 43, 3)]
            wanted = [n for n in added if 1000 <= n < 1040 or RIGHTS_FIRST + 1000 <= n < RIGHTS_FIRST + 1040]
            wait_both_have(both, topic, number, wanted)
        both.wait_all_resolved()
        assert not {"RecordsUnexplained", "CopiesUnknown"} & {event.name for event in both.events()}


def test_added_partition_is_copied_both_ways_and_waits_where_its_lane_lost_its_journal(both: Engine) -> None:
    """A lane whose journal was new to the topic was taken for one that had lost it."""
    topic, both.extra["refresh.topics.interval.seconds"] = both.topics, "5"
    create_on_both(both, topic)
    with worker(both):
        write_on_both(both, topic)
        for bootstrap, first in ((both.left, 1000), (both.right, RIGHTS_FIRST + 1000)):
            grow(bootstrap, topic, 2)
            produce(bootstrap, topic, 40, partitions=2, first=first)
        added = [*range(1001, 1040, 2), *range(RIGHTS_FIRST + 1001, RIGHTS_FIRST + 1040, 2)]
        wait_both_have(both, topic, 1, added)
        both.wait_all_resolved()
        assert not {"RecordsUnexplained", "CopiesUnknown"} & {event.name for event in both.events()}
    journal = f"__drlib-journal.{both.source}.internal"
    empty(both.right, journal, lane_of(topic, 1, 2))
    with worker(both, 2):
        produce(both.left, topic, 40, partitions=2, first=2000)
        produce(both.right, topic, 40, partitions=2, first=RIGHTS_FIRST + 2000)
        unexplained = both.wait_reported("RecordsUnexplained", topic)
        assert "own.records.journal" not in unexplained.remedy
        both.wait_reported("CopiesUnknown", f"{topic}-1")
        lefts = [*range(50), *range(1000, 1040, 2), *range(2000, 2040, 2)]
        wait_both_have(both, topic, 0, [*lefts, *(RIGHTS_FIRST + n for n in (*lefts, *range(50, 60)))])
    assert numbers(both.left, topic, 1) == sorted([*added, *range(2001, 2040, 2)])
    assert numbers(both.right, topic, 1) == sorted([*added, *range(RIGHTS_FIRST + 2001, RIGHTS_FIRST + 2040, 2)])


def test_partition_that_is_added_while_one_direction_is_disabled_is_copied_and_shared_when_it_is_enabled(
    both: Engine,
) -> None:
    """It waited for the flow back, which was switched off."""
    topic, back = both.topics, f"{both.target}->{both.source}.enabled"
    create_on_both(both, topic)
    with worker(both):
        write_on_both(both, topic)
    both.extra[back] = "false"
    for bootstrap in (both.left, both.right):
        grow(bootstrap, topic, 2)
    with worker(both, 2, flows=1):
        produce(both.left, topic, 40, partitions=2, first=1000)
        wait_both_have(both, topic, 1, [*range(1001, 1040, 2)])
        both.wait_all_resolved()
    both.extra[back] = "true"
    with worker(both, 2):
        produce(both.left, topic, 40, partitions=2, first=2000)
        produce(both.right, topic, 40, partitions=2, first=RIGHTS_FIRST + 2000)
        added = [*range(1001, 1040, 2), *range(2001, 2040, 2), *range(RIGHTS_FIRST + 2001, RIGHTS_FIRST + 2040, 2)]
        wait_both_have(both, topic, 1, added)
        both.wait_all_resolved()
