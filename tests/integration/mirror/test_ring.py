"""Three clusters in a ring of flows that keep topic names: clients write to all, and each record is once on every log."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from fix_engine import Engine, Record, create_topic, delete_topic, produce, read_all, traffic, wait_for
from fix_lab import LabFactory
from fix_two_way import IDENTITY

from drlib.errors import UsageError
from drlib.mirror.status import worker_status as status

SHARE = 1_000_000  # records of the n-th cluster's clients are numbered from n times that on


@dataclass
class Ring:
    engine: Engine
    clusters: tuple[str, str, str]
    partitions: int = 2

    @property
    def topic(self) -> str:
        return self.engine.topics

    def create(self) -> None:
        for bootstrap in self.clusters:
            create_topic(bootstrap, self.topic, self.partitions)

    def running(self) -> bool:
        """Have all lanes and relays claimed? What is written before may be unexplained."""
        try:
            state = status.read(self.engine.status_path(len(self.engine.processes) - 1))
        except UsageError:
            return False
        lanes = [lane.state for flow in state.flows for lane in flow.lanes]
        whole = all(len(flow.partitions) == self.partitions for flow in state.flows)
        return lanes == ["running"] * 12 and whole

    @contextmanager
    def worker(self) -> Iterator[None]:
        process = self.engine.start()
        try:
            wait_for("all lanes and relays run", self.running)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.engine.events()}\n{self.engine.log()}") from None
        yield
        assert self.engine.stop(process) == 0, self.engine.log()

    def logs(self) -> list[dict[int, list[Record]]]:
        return [read_all(bootstrap, self.topic, self.partitions) for bootstrap in self.clusters]

    def produce(self, at: int, count: int, first: int) -> None:
        produce(self.clusters[at], self.topic, count, partitions=self.partitions, first=at * SHARE + first)

    def wait_once(self) -> int:
        """Wait until each log has what clients wrote to any of them, and compare them; how many records each one holds."""
        written = sum(len(of_cluster(records, at)) for at, log in enumerate(self.logs()) for records in log.values())

        def all_there() -> bool:
            return all(sum(map(len, log.values())) >= written for log in self.logs())

        try:
            wait_for(f"{written} records are on every cluster", all_there, 90)
        except AssertionError as error:
            counts = [[sum(len(of_cluster(r, c)) for r in log.values()) for c in range(3)] for log in self.logs()]
            raise AssertionError(f"{error}: {counts}\n{self.engine.events()}\n{self.engine.log()}") from None
        logs = self.logs()
        for partition in range(self.partitions):
            for at, log in enumerate(logs):
                twice = [record for record, count in Counter(log[partition]).items() if count > 1]
                assert not twice, f"{len(twice)} records are more than once on {at}: {twice[:3]}\n{self.engine.log()}"
                for cluster in range(3):  # verbatim, and in the order in which the cluster's clients wrote them
                    here, there = of_cluster(logs[cluster][partition], cluster), of_cluster(log[partition], cluster)
                    assert here == there, f"records of {cluster} differ on {at}\n{self.engine.log()}"
        return written


def of_cluster(records: list[Record], at: int) -> list[Record]:
    return [r for r in records if int(dict(r[2])["n"]) // SHARE == at]


@pytest.fixture
def ring(engine: Engine, lab_factory: LabFactory) -> Ring:
    third = lab_factory(aliases=("THIRD",)).clusters["THIRD"].bootstrap
    last = engine.target.replace("DST", "THD")  # the two others are shared with other tests, aliases are not
    names = [engine.source, engine.target, last]
    engine.extra |= {
        "clusters": ", ".join(names),
        f"{last}.bootstrap.servers": third,
        "replication.policy.class": IDENTITY,
        "emit.checkpoints.enabled": "false",
        "emit.offset-syncs.enabled": "false",
        f"{engine.target}->{last}.enabled": "true",
        f"{last}->{engine.source}.enabled": "true",
        **{f"{one}->{other}.emit.heartbeats.enabled": "false" for one in names for other in names if one != other},
    }
    return Ring(engine, (engine.left, engine.right, third))


def transactions(ring: Ring, at: int, first: int, *, commit: bool) -> None:
    producer = Producer(
        {"bootstrap.servers": ring.clusters[at], "transactional.id": f"{ring.topic}-{first}", "log_level": 0}
    )
    producer.init_transactions(30)
    for begin in range(first, first + 50, 10):
        producer.begin_transaction()
        for number in range(begin, begin + 10):
            n = str(at * SHARE + number).encode()
            producer.produce(ring.topic, value=b"t", headers=[("n", n)], partition=number % ring.partitions)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)


def test_clients_of_all_three_write_and_each_record_is_once_on_every_log(ring: Ring) -> None:
    ring.create()
    ring.produce(0, 100, 0)  # one cluster may have records before anything is copied
    with ring.worker():
        assert ring.wait_once() == 100
        for at in range(3):
            ring.produce(at, 300 + at, 1000)
            transactions(ring, at, 5000, commit=True)
            transactions(ring, at, 6000, commit=False)
        assert ring.wait_once() == 100 + 903 + 150
        ring.engine.wait_all_resolved(60)
    with ring.worker():  # what was copied is recognised again by other claims
        for at in range(3):
            ring.produce(at, 200, 10_000)
        assert ring.wait_once() == 1153 + 600
        ring.engine.wait_all_resolved(60)


def test_workers_killed_at_every_step_copy_each_record_once_round_the_ring(ring: Ring) -> None:
    ring.create()
    with ring.worker():
        pass
    for number, step in enumerate(["after-claim", "after-journal-write:8", "mid-produce:3", "after-ack:5"]):
        process = ring.engine.start(failpoint=step)
        with (
            traffic(ring.clusters[0], ring.topic, partitions=2, first=20_000 * number),
            traffic(ring.clusters[1], ring.topic, partitions=2, first=SHARE + 20_000 * number),
            traffic(ring.clusters[2], ring.topic, partitions=2, first=2 * SHARE + 20_000 * number),
        ):
            assert process.wait(60) == -signal.SIGKILL, ring.engine.log()
    with ring.worker():
        ring.wait_once()
        ring.engine.wait_all_resolved(60)


@pytest.mark.parametrize("kind", ["journal", "relay"])
def test_journal_that_is_deleted_parks_what_it_explained_and_copies_nothing_twice(ring: Ring, kind: str) -> None:
    ring.create()
    with ring.worker():
        for at in range(3):
            ring.produce(at, 40, 0)
        assert ring.wait_once() == 120
    # Of the flow from the first cluster to the second, on which it lies.
    names = {"journal": f"__drlib-journal.{ring.engine.source}.internal"}
    names["relay"] = f"__drlib-relay.{ring.engine.source}.1.internal"
    delete_topic(ring.clusters[1], names[kind])
    admin = AdminClient({"bootstrap.servers": ring.clusters[1], "log_level": 0})
    wait_for("it is gone", lambda: names[kind] not in admin.list_topics(timeout=5).topics)
    ring.engine.start()
    ring.engine.wait_reported("CopiesUnknown", f"{ring.topic}-0")  # second -> third cannot tell copies any more
    ring.engine.wait_reported("RecordsUnexplained", ring.topic)  # first -> second does not know what it copied
    for at in range(3):
        ring.produce(at, 20, 1000)

    def third_is_on_first() -> bool:
        return sum(len(of_cluster(r, 2)) for r in read_all(ring.clusters[0], ring.topic, 2).values()) == 60

    wait_for("third -> first continues", third_is_on_first)
    counts = [[sum(len(of_cluster(r, c)) for r in log.values()) for c in range(3)] for log in ring.logs()]
    # Behind the deleted journal nothing is copied: neither the flow's own records, nor, at the next one, any.
    assert counts[1] == [40, 60, 40], counts
    assert counts[2] == [40, 40, 60], counts
    assert counts[0] == [60, 40, 60], counts


def test_topic_that_one_cluster_lost_with_its_journals_is_not_copied_on_from_there(ring: Ring) -> None:
    """What it gets again the next cluster has already; it was copied there once more."""
    ring.create()
    with ring.worker():
        for at in range(3):
            ring.produce(at, 40, 0)
        assert ring.wait_once() == 120
    source = ring.engine.source
    lost = {ring.topic, f"__drlib-journal.{source}.internal", f"__drlib-relay.{source}.1.internal"}
    admin = AdminClient({"bootstrap.servers": ring.clusters[1], "log_level": 0})
    for each in lost:
        delete_topic(ring.clusters[1], each)
    wait_for("they are gone", lambda: lost.isdisjoint(admin.list_topics(timeout=5).topics))
    create_topic(ring.clusters[1], ring.topic, ring.partitions)
    ring.engine.start()
    ring.engine.wait_reported("CopiesUnknown", f"{ring.topic}-0")
    for at in (0, 2):
        ring.produce(at, 20, 1000)

    def others_are_on_second() -> bool:
        log = read_all(ring.clusters[1], ring.topic, 2)
        return all(sum(len(of_cluster(r, at)) for r in log.values()) == 60 for at in (0, 2))

    wait_for("first -> second continues", others_are_on_second)
    counts = [[sum(len(of_cluster(r, c)) for r in log.values()) for c in range(3)] for log in ring.logs()]
    assert counts == [[60, 40, 60], [60, 0, 60], [40, 40, 60]], counts
