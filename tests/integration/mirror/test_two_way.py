"""Two flows between two clusters keep topic names: both sides write to one topic, and each record is once on both logs."""

from __future__ import annotations

import itertools
import signal
import threading
from collections import Counter
from functools import partial
from itertools import chain

import pytest
from beside import beside
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from fix_engine import (
    Engine,
    Record,
    create_topic,
    delete_topic,
    idempotent_producer,
    produce,
    read_all,
    traffic,
    wait_for,
)
from fix_lab import LabFactory
from fix_two_way import RIGHTS_FIRST, worker

from drlib.errors import UsageError
from drlib.mirror.status import worker_status as status


def ours(records: list[Record], first: int) -> list[Record]:
    """In log order, the records of one side: numbers from `first` on, below a million more."""
    return [r for r in records if first <= int(dict(r[2])["n"]) < first + RIGHTS_FIRST]


def assert_once(engine: Engine, topic: str, partitions: int, lefts: int, rights: int) -> None:
    """Both logs hold every record once, and those of each side in the order in which they were written."""
    here, there = (read_all(bootstrap, topic, partitions) for bootstrap in (engine.left, engine.right))
    for partition in range(partitions):
        for records in (here[partition], there[partition]):
            twice = [record for record, count in Counter(records).items() if count > 1]
            assert not twice, f"{len(twice)} records are there more than once: {twice[:3]}\n{engine.log()}"
        for first in (0, RIGHTS_FIRST):
            assert ours(here[partition], first) == ours(there[partition], first), engine.log()
    for first, count in ((0, lefts), (RIGHTS_FIRST, rights)):
        assert sum(len(ours(records, first)) for records in here.values()) == count, engine.log()


def wait_once(engine: Engine, topic: str, partitions: int, lefts: int, rights: int) -> None:
    """Wait until both logs have as many records as both sides wrote, then compare them."""

    def all_there() -> bool:
        return all(
            sum(len(records) for records in read_all(bootstrap, topic, partitions).values()) >= lefts + rights
            for bootstrap in (engine.left, engine.right)
        )

    try:
        wait_for(f"{lefts} and {rights} records are on both sides", all_there, 90)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{engine.events()}\n{engine.log()}") from None
    assert_once(engine, topic, partitions, lefts, rights)


def create_both(engine: Engine, partitions: int, **config: str) -> str:
    for bootstrap in (engine.left, engine.right):
        create_topic(bootstrap, engine.topics, partitions, **config)
    return engine.topics


def lag(engine: Engine) -> int:
    """Offsets of both sources that are neither copied nor skipped."""
    state = status.read(engine.status_path(len(engine.processes) - 1))
    return sum(p.high_watermark - p.mirrored for flow in state.flows for p in flow.partitions)


def transactions(bootstrap: str, topic: str, first: int, count: int, *, partitions: int, commit: bool = True) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{first}", "log_level": 0})
    producer.init_transactions(30)
    for at in range(first, first + count, 10):
        producer.begin_transaction()
        for number in range(at, at + 10):
            producer.produce(topic, value=b"t", headers=[("n", str(number).encode())], partition=number % partitions)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)


def written(bootstrap: str, topic: str, partitions: int, first: int) -> int:
    return sum(len(ours(records, first)) for records in read_all(bootstrap, topic, partitions).values())


def both_written(engine: Engine, topic: str, partitions: int) -> tuple[int, int]:
    """How many records each side has written into its own log."""
    return written(engine.left, topic, partitions, 0), written(engine.right, topic, partitions, RIGHTS_FIRST)


def test_workers_killed_at_every_step_copy_each_record_once_both_ways(both: Engine) -> None:
    topic = create_both(both, 2)
    with worker(both, 2):
        pass
    for number, step in enumerate(["after-claim", "after-journal-write:4", "mid-produce:2", "after-ack:3"]):
        process = both.start(failpoint=step)
        at = 20_000 * number
        with (
            traffic(both.left, topic, partitions=2, first=at),
            traffic(both.right, topic, partitions=2, first=RIGHTS_FIRST + at),
        ):
            assert process.wait(60) == -signal.SIGKILL, both.log()
    lefts, rights = both_written(both, topic, 2)
    with worker(both, 2):
        wait_once(both, topic, 2, lefts, rights)
        both.wait_all_resolved()


def test_third_cluster_is_filled_from_a_pair_with_each_record_once(both: Engine, lab_factory: LabFactory) -> None:
    third = lab_factory(aliases=("THIRD",)).clusters["THIRD"].bootstrap
    there = [f"{both.source}->THIRD", f"{both.target}->THIRD"]
    back = [f"THIRD->{both.source}", f"THIRD->{both.target}"]
    both.extra |= {
        "clusters": f"{both.source}, {both.target}, THIRD",
        "THIRD.bootstrap.servers": third,
        f"{there[1]}.enabled": "true",
        **{f"{flow}.emit.heartbeats.enabled": "false" for flow in (there[0], *back)},
    }
    topic, everywhere = create_both(both, 2), (both.left, both.right, third)
    for number in range(2):
        with worker(both, 2, flows=3):  # what was copied is recognised again after a restart
            first = number * 10_000
            produce(both.left, topic, 1000, partitions=2, first=first)
            produce(both.right, topic, 1100, partitions=2, first=RIGHTS_FIRST + first)
            wait_once(both, topic, 2, (number + 1) * 1000, (number + 1) * 1100)
            wanted = Counter(chain.from_iterable(read_all(both.right, topic, 2).values()))
            wait_for("the third has them", partial(has, third, topic, wanted.total()), 60)
            both.wait_all_resolved()
    for each in everywhere:
        assert Counter(chain.from_iterable(read_all(each, topic, 2).values())) == wanted, both.log()


def test_clients_of_the_target_that_write_all_the_time_end_no_claim(both: Engine) -> None:
    """They write between a claim's marker and its look at the log end, and again before its first record."""
    topic = create_both(both, 1)
    with worker(both):
        pass
    at = itertools.count(RIGHTS_FIRST)

    def write(over: threading.Event) -> None:
        producer = idempotent_producer(both.right, **{"linger.ms": 0})
        while not over.wait(0.002):
            producer.produce(topic, value=b"r", headers=[("n", str(next(at)).encode())], partition=0)
            producer.poll(0)
        assert producer.flush(30) == 0

    with beside(write):
        for number in range(3):
            with worker(both):
                for burst in range(5):
                    produce(both.left, topic, 20, partitions=1, first=1000 * number + 20 * burst)
                    count = 100 * number + 20 * (burst + 1)
                    wait_for("they are on the right", lambda count=count: written(both.right, topic, 1, 0) == count, 20)
                assert not [e for e in both.events() if e.name in ("LaneFault", "LaneLost")], both.log()
    with worker(both):
        wait_once(both, topic, 1, 300, next(at) - RIGHTS_FIRST)


def has(bootstrap: str, topic: str, records: int) -> bool:
    return sum(map(len, read_all(bootstrap, topic, 2).values())) >= records


@pytest.mark.parametrize("looks_for_new", ["true", "false"])
def test_topic_that_only_one_side_has_is_copied_without_waiting_for_the_refresh_interval(
    both: Engine, looks_for_new: str
) -> None:
    """With the default interval nothing of it was copied for ten minutes, and without a refresh never."""
    both.extra |= {"refresh.topics.interval.seconds": "600", "refresh.topics.enabled": looks_for_new}
    create_topic(both.left, both.topics, 2)
    with worker(both, 2):
        produce(both.left, both.topics, 50, partitions=2)
        wait_for("what the left has is on the right", lambda: bool(read_all(both.right, both.topics, 2)[0]), 30)
        produce(both.right, both.topics, 60, partitions=2, first=RIGHTS_FIRST)
        wait_once(both, both.topics, 2, 50, 60)
        both.wait_all_resolved()


def test_records_of_both_sides_before_the_first_claim_wait_for_the_operators_word(both: Engine) -> None:
    topic = create_both(both, 1)
    produce(both.left, topic, 50, partitions=1)
    produce(both.right, topic, 60, partitions=1, first=RIGHTS_FIRST)
    with worker(both):
        both.wait_reported("RecordsUnexplained", topic)
        wait_for("both flows wait", lambda: len(unexplained(both)) == 2)
        asked = unexplained(both)
    assert_once_each(both, topic)
    for remedy in asked:
        key, _, value = remedy.partition("drlib.own.records.journal = ")
        both.extra[f"{key.split()[-1]}drlib.own.records.journal"] = value.split()[0]
    with worker(both):
        wait_once(both, topic, 1, 50, 60)
        both.wait_all_resolved()


@pytest.mark.parametrize("partitions", [1, 3])
def test_records_of_one_side_before_the_first_claim_are_its_own_where_nothing_was_written_on_the_other(
    both: Engine, partitions: int
) -> None:
    """They waited for a setting, although nothing can have been copied from a log that never had a record."""
    create_topic(both.left, both.topics, partitions)
    produce(both.left, both.topics, 60, partitions=partitions)
    with worker(both, partitions):
        wait_for("what the left has is on the right", lambda: written(both.right, both.topics, partitions, 0) == 60, 60)
        produce(both.right, both.topics, 30, partitions=partitions, first=RIGHTS_FIRST)
        wait_once(both, both.topics, partitions, 60, 30)
        both.wait_all_resolved()
        assert unexplained(both) == []


def unexplained(engine: Engine) -> list[str]:
    return [f"{e.detail} {e.remedy}" for e in engine.events() if e.name == "RecordsUnexplained"]


def assert_once_each(engine: Engine, topic: str) -> None:
    """Nothing was copied."""
    assert [len(read_all(bootstrap, topic, 1)[0]) for bootstrap in (engine.left, engine.right)] == [50, 60]


def test_journal_that_is_deleted_parks_both_directions_and_copies_nothing_twice(both: Engine) -> None:
    topic = create_both(both, 1)
    with worker(both):
        produce(both.left, topic, 50, partitions=1)
        produce(both.right, topic, 60, partitions=1, first=RIGHTS_FIRST)
        wait_once(both, topic, 1, 50, 60)
    delete_topic(both.left, f"__drlib-journal.{both.target}.internal")  # of the flow right->left
    admin = AdminClient({"bootstrap.servers": both.left, "log_level": 0})
    wait_for(
        "it is gone",
        lambda: not [t for t in admin.list_topics(timeout=5).topics if both.target in t and "journal" in t],
    )
    with worker(both):
        produce(both.left, topic, 20, partitions=1, first=100_000)
        produce(both.right, topic, 20, partitions=1, first=RIGHTS_FIRST + 100_000)
        both.wait_reported("CopiesUnknown", f"{topic}-0")  # left->right cannot tell copies any more
        unexplained = both.wait_reported("RecordsUnexplained", topic)  # right->left does not know what it copied
        assert "own.records.journal" not in unexplained.remedy, "some of them were read as copies before"
    assert [len(read_all(bootstrap, topic, 1)[0]) for bootstrap in (both.left, both.right)] == [130, 130]


def test_both_sides_write_to_one_topic_and_each_record_is_once_on_both_logs(both: Engine) -> None:
    topic = create_both(both, 3)
    with worker(both, 3):
        with (
            traffic(both.left, topic, partitions=3) as _,
            traffic(both.right, topic, partitions=3, first=RIGHTS_FIRST) as _,
        ):
            transactions(both.left, topic, 500_000, 100, partitions=3)
            transactions(both.left, topic, 600_000, 50, partitions=3, commit=False)
            transactions(both.right, topic, RIGHTS_FIRST + 500_000, 100, partitions=3)
            wait_for("both sides write beside their transactions", lambda: min(both_written(both, topic, 3)) > 200)
        lefts, rights = both_written(both, topic, 3)
        wait_once(both, topic, 3, lefts, rights)
        assert not both.reported("ForeignWriter", f"{topic}-0"), "clients of the target are no strangers there"
    with worker(both, 3):  # a new claim on both sides finds what the former ones wrote
        produce(both.left, topic, 100, partitions=3, first=700_000)
        produce(both.right, topic, 100, partitions=3, first=RIGHTS_FIRST + 700_000)
        wait_once(both, topic, 3, lefts + 100, rights + 100)
        wait_for("nothing waits in either direction", lambda: not lag(both))
        both.wait_all_resolved()


@pytest.mark.long  # the cleaner takes its time
def test_topic_that_is_cleaned_on_both_sides_ends_with_the_same_newest_values(both: Engine) -> None:
    config = {"segment_ms": "500", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "500"}
    topic = create_both(both, 1, cleanup_policy="compact", segment_bytes="1048576", **config)
    with worker(both):
        for round_ in range(6):
            produce(both.left, topic, 300, partitions=1, first=1000 * round_, keys=7, batch=1000)
            produce(both.right, topic, 300, partitions=1, first=RIGHTS_FIRST + 1000 * round_, keys=11, batch=1000)

        def newest(bootstrap: str, first: int) -> dict[bytes | None, bytes | None]:
            return {r[0]: r[1] for r in ours(read_all(bootstrap, topic, 1)[0], first)}

        for first, here, there in ((0, both.left, both.right), (RIGHTS_FIRST, both.right, both.left)):
            last = max(int(dict(r[2])["n"]) for r in ours(read_all(here, topic, 1)[0], first))
            wait_for(
                "the last record is there",
                lambda first=first, there=there, last=last: (
                    last in {int(dict(r[2])["n"]) for r in ours(read_all(there, topic, 1)[0], first)}
                ),
                90,
            )
        wait_for("nothing waits in either direction", lambda: not lag(both))
        both.wait_all_resolved()
    for bootstrap in (both.left, both.right):
        assert max(Counter(read_all(bootstrap, topic, 1)[0]).values()) == 1


def lanes_of(engine: Engine, number: int) -> tuple[tuple[int, ...], ...]:
    """The lanes that worker `number` runs, of each of its flows; none before it has written its status."""
    try:
        flows = status.read(engine.status_path(number)).flows
    except UsageError:
        return ()
    return tuple(tuple(lane.lane for lane in flow.lanes if lane.state == "running") for flow in flows)


def test_each_of_several_workers_has_the_same_lanes_of_both_flows(both: Engine) -> None:
    """So what it appends by one flow is not read by the flow back. Lanes were given by names that differ in both groups."""
    both.extra["drlib.lanes"] = "8"
    topic = create_both(both, 8)

    def shared(*workers: int) -> bool:
        found = [lanes_of(both, number) for number in workers]
        alike = all(len(lanes) == 2 and lanes[0] == lanes[1] for lanes in found)
        return alike and sorted(lane for lanes in found for lane in lanes[0]) == list(range(8))

    workers = [both.start() for _ in range(3)]
    wait_for("three workers have the same lanes of both flows", lambda: shared(0, 1, 2))
    workers[1].kill()
    wait_for("the two that are left do", lambda: shared(0, 2))
    produce(both.left, topic, 400, partitions=8)
    produce(both.right, topic, 400, partitions=8, first=RIGHTS_FIRST)
    wait_once(both, topic, 8, 400, 400)
    for process in (workers[0], workers[2]):
        assert both.stop(process) == 0, both.log()
