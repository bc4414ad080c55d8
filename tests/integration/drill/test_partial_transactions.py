"""A transaction over two partitions of which one crossed: the target knows it when the source is gone, and groups go before it.
On the way back it is in part until its rest was recovered, and a group that reads the rest at home is placed before it.

With transaction version 2 (Java 4) and without (Java 3.9 and librdkafka, whose epoch stays). Long: brokers of its own, one of
which is killed, and a Java program.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import Consumer
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka import TopicPartition as Position
from fix_engine import Engine, alter, create_topic, wait_for, wait_for_markers
from fix_lab import LabFactory
from repository_root import ROOT
from testbed_moves import Place, drill, in_process, step

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failback.tail_transactions import IN_PART as TAIL_IN_PART
from drlib.drill.actions.failback.tail_transactions import NONE
from drlib.drill.actions.failover.transactions import CHECK as ALL_THERE
from drlib.drill.actions.failover.transactions import IN_PART, read_kept
from drlib.drill.plan.plan import Mode
from drlib.drill.step.step_output import read_part, read_rows
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.lab import jars
from drlib.mirror.journal.entries import CommittedTransactions
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.mirror.transactions.find import find_transactions
from drlib.model import Flow, TopicPartition
from drlib.runs.check import Verdict

pytestmark = pytest.mark.long
A, B = "orders", "payments"
GROUP = "billing"


class Committing(Protocol):
    def commit(self, *parts: str) -> None: ...


class Producer:
    """A transactional producer of Kafka's own client, one line for each transaction."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self._answer() == "ready"

    def commit(self, *parts: str) -> None:
        assert self._process.stdin is not None
        print(*parts, file=self._process.stdin, flush=True)
        assert self._answer() == "done"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


class LibrdkafkaProducer:
    """The same with librdkafka, whose transactions all have one epoch."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = KafkaProducer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
        self._producer.init_transactions(30)

    def commit(self, *parts: str) -> None:
        self._producer.begin_transaction()
        for topic, partition, count, size in (part.split(":") for part in parts if part != "abort"):
            for n in range(int(count)):
                self._producer.produce(topic, b"x" * int(size), b"k%d" % n, int(partition))
        self._producer.flush()
        end = self._producer.abort_transaction if "abort" in parts else self._producer.commit_transaction
        end(30)


@contextmanager
def librdkafka(bootstrap: str, name: str) -> Iterator[LibrdkafkaProducer]:
    yield LibrdkafkaProducer(bootstrap, name)


@contextmanager
def java_3_9(bootstrap: str, name: str) -> Iterator[Producer]:
    """With the kafka-clients that Spark's connector brings."""
    clients = [jar for jar in jars.classpath("spark") if jar.name.startswith("kafka-clients-3.9")]
    assert clients
    others = [jar for jar in jars.classpath("kafka") if not jar.name.startswith("kafka-clients-")]
    with producer(bootstrap, name, [*clients, *others]) as made:
        yield made


@contextmanager
def producer(bootstrap: str, name: str, paths: Sequence[Path] = ()) -> Iterator[Producer]:
    classpath = ":".join(map(str, paths or jars.classpath("kafka")))
    program = str(ROOT / "tests" / "java" / "Transactions.java")
    with subprocess.Popen(
        [str(jars.java().path), "-cp", classpath, program, bootstrap, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield Producer(process)
        finally:
            process.kill()


def commit_ends(bootstrap: str, group: str, *topics: str) -> None:
    """The group has read everything of these topics' first partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        ends = [Position(t, 0, consumer.get_watermark_offsets(Position(t, 0), timeout=20)[1]) for t in topics]
        consumer.commit(offsets=ends, asynchronous=False)
    finally:
        consumer.close()


def positions(engine: Engine) -> set[TopicPartition]:
    """Of which source partitions the target knows the group's position."""
    known = checkpointed_positions(load_mirror_settings(engine.properties), Flow("LEFT", "RIGHT"))
    return {partition for group, partition in known if group == GROUP}


def recorded(engine: Engine) -> int:
    """How many transactions' partitions are in the journal."""
    maps = find_transactions(load_mirror_settings(engine.properties), Flow("LEFT", "RIGHT")).maps
    return sum(len(e.transactions) for e in maps.transactions if isinstance(e, CommittedTransactions))


@pytest.mark.parametrize("client", [producer, java_3_9, librdkafka])
def test_transaction_that_crossed_in_part_is_listed_and_groups_are_placed_before_it(
    lab_factory: LabFactory, tmp_path: Path, client: Callable[[str, str], AbstractContextManager[Committing]]
) -> None:
    lab = lab_factory()
    left, right = (lab.clusters[alias].bootstrap for alias in ("LEFT", "RIGHT"))
    for topic in (A, B):
        create_topic(left, topic, 1)
    engine = Engine(tmp_path, left, right, "LEFT", "RIGHT", f"{A}, {B}", {"sync.topic.configs.enabled": "false"})
    with client(left, "shop") as shop:
        # The producer began before the mirror.
        shop.commit(f"{A}:0:1:10")
        worker = engine.start()
        try:
            wait_for("the worker runs", lambda: "Worker running" in engine.log())
            shop.commit(f"{A}:0:3:10", f"{B}:0:2:10")
            for topic in (A, B):
                engine.wait_caught_up(topic, 1)
            wait_for("the worker knows the transaction's partitions", lambda: recorded(engine) == 2)
            engine.stop(worker)  # what it counted is in the journal
            worker = engine.start()
            alter(right, f"LEFT.{B}", "max.message.bytes", "2000")
            shop.commit("abort", f"{A}:0:5:10", f"{B}:0:5:10")
            shop.commit(f"{A}:0:3:10", f"{B}:0:1:9000")  # the target refuses the second partition's
            shop.commit(f"{A}:0:2:10")
            wait_for_markers(left, A, 1)
            commit_ends(left, GROUP, A, B)
            engine.wait_caught_up(A, 1)
            engine.wait_reported("TargetRefused", f"{B}-0")
            wait_for("the group's positions are on the target", lambda: len(positions(engine)) == 2)
            wait_for("the worker knows the transactions' partitions", lambda: recorded(engine) == 4)
            lab.clusters["LEFT"].kill()
        finally:
            worker.kill()
            worker.wait(10)

    place = Place(properties=str(engine.properties), pointer=str(tmp_path / "pointer.json"))
    steps = step("transactions", "transactions.list"), step("translate", "groups.translate", positions_from="target")
    run = tmp_path / "run"
    run.mkdir()
    assert in_process(run, drill(*steps, mode=Mode.EMERGENCY), place) == 0

    (check,) = read_part(run, "transactions").checks
    assert (check.name, check.verdict) == (IN_PART, Verdict.CONDITIONS), check
    assert "4 transactions of LEFT have records on RIGHT. 1 in part: shop (producer " in check.evidence
    assert f"{A}-0 all of it (3 of 3 records, source offsets " in check.evidence
    assert f"{B}-0 nothing" in check.evidence
    rows = read_rows(run, "transactions")
    assert [(row["topic"], row["on the target"], row["records there"]) for row in rows] == [
        (A, "all of it", 3),
        (B, "nothing", 0),
    ]
    # 4 records of two transactions come before the part, on the target without the source's markers.
    first = rows[0]["first offset there"]
    assert read_kept(run, Flow("LEFT", "RIGHT")).first(GROUP, TopicPartition(f"LEFT.{A}", 0)) == first
    with Cluster(lab.clusters["RIGHT"].settings()) as cluster:
        before = cluster.read({TopicPartition(f"LEFT.{A}", 0): Range(0, int(first or 0))})
        assert [record.key for record in before] == [b"k0", b"k0", b"k1", b"k2"]
        committed = {p: c.offset for p, c in cluster.group_offsets(GROUP).items()}
    assert committed[TopicPartition(f"LEFT.{A}", 0)] == first
    journal = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    assert [line for line in journal if "'before_partial_transactions': 1" in str(line)]


@pytest.mark.parametrize("how", [Settle.RECOVER, Settle.QUARANTINE, Settle.LEAVE])
def test_transaction_that_crossed_in_part_is_in_part_after_the_way_back_unless_its_rest_was_recovered(
    lab_factory: LabFactory, tmp_path: Path, how: Settle
) -> None:
    lab = lab_factory()
    left, right = (lab.clusters[alias].bootstrap for alias in ("LEFT", "RIGHT"))
    for bootstrap, topic in itertools.product((left, right), (A, B)):
        create_topic(bootstrap, topic, 1)
    out, back = Flow("LEFT", "RIGHT"), Flow("RIGHT", "LEFT")
    engine = Engine(tmp_path, left, right, "LEFT", "RIGHT", f"{A}, {B}", {"sync.topic.configs.enabled": "false"})
    with librdkafka(left, "shop") as shop:
        worker = engine.start()
        try:
            wait_for("the worker runs", lambda: "Worker running" in engine.log())
            shop.commit(f"{A}:0:3:10", f"{B}:0:2:10")
            wait_for_markers(left, A, 1)
            commit_ends(left, GROUP, A, B)
            for topic in (A, B):
                engine.wait_caught_up(topic, 1)
            alter(right, f"LEFT.{B}", "max.message.bytes", "2000")
            shop.commit(f"{A}:0:3:10", f"{B}:0:1:9000")  # the target refuses the second partition's
            shop.commit(f"{A}:0:2:10")
            wait_for_markers(left, A, 1)
            engine.wait_caught_up(A, 1)
            engine.wait_reported("TargetRefused", f"{B}-0")
            wait_for("the worker knows the transactions' partitions", lambda: recorded(engine) == 3)
        finally:
            worker.kill()
            worker.wait(10)
    lab.clusters["LEFT"].kill()
    pointer = tmp_path / "pointer.json"
    pointer_file.write_atomic(pointer, Pointer(1, "RIGHT", right, "LEFT."))
    commit_ends(right, GROUP, f"LEFT.{A}", f"LEFT.{B}")
    lab.clusters["LEFT"].start()
    with Cluster(lab.clusters["RIGHT"].settings()) as cluster:
        wait_for("the worker is not in its group any more", lambda: not cluster.group_members(worker_group(out)))

    engine.extra[f"{back}.enabled"] = "true"
    place = Place(properties=str(engine.properties), pointer=str(pointer))
    reprotect, home = tmp_path / "reprotect", tmp_path / "home"
    reprotect.mkdir()
    listing = step("transactions", "tail.transactions")
    assert in_process(reprotect, drill(step("settle", "tail.settle", how=how.value), listing), place) == 0
    (check,) = read_part(reprotect, "transactions").checks
    rows = read_rows(reprotect, "transactions")
    if how is Settle.RECOVER:
        assert (check.name, check.verdict, rows) == (NONE, Verdict.PASS, ())
    else:
        rest = "in quarantine" if how is Settle.QUARANTINE else "on the source"
        assert (check.name, check.verdict) == (TAIL_IN_PART, Verdict.CONDITIONS), check
        assert f"1 in part: shop (producer {rows[0]['producer ID']}, epoch " in check.evidence
        assert f"{B}-0 nothing (0 of 1 records, source offsets 3 to 3), the rest {rest}" in check.evidence
        assert [(row["topic"], row["on the target"], row["records there"]) for row in rows] == [
            (A, "all of it", 3),
            (B, f"nothing, the rest {rest}", 0),
        ]

    (tmp_path / "back").mkdir()
    returning = Engine(tmp_path / "back", right, left, "RIGHT", "LEFT", f"{A}, {B}")
    worker = returning.start()
    try:
        wait_for("the worker runs", lambda: "Worker running" in returning.log())
        home.mkdir()
        arguments = {"source": "RIGHT", "target": "LEFT"}
        move = step("go-home", "switchover.move", **arguments, groups=(GROUP,))
        after = step("after", "transactions.list", **arguments, drained=True)
        assert in_process(home, drill(listing, move, after), place) == 0
    finally:
        worker.kill()
        worker.wait(10)
    assert [(c.name, c.verdict) for c in read_part(home, "after").checks] == (
        [(ALL_THERE, Verdict.PASS)] if how is Settle.RECOVER else []  # what was recovered was written in a transaction
    )
    with Cluster(lab.clusters["LEFT"].settings()) as cluster:
        committed = {p: c.offset for p, c in cluster.group_offsets(GROUP).items()}
        at = {topic: TopicPartition(topic, 0) for topic in (A, B)}
        ends = cluster.log_ends(at.values())
        unread = {t: [*cluster.read({p: Range(committed[p], ends[p])})] for t, p in at.items()}
    if how is Settle.LEAVE:  # both parts come together, and what follows
        assert [record.key for record in unread[A]] == [b"k0", b"k1", b"k2", b"k0", b"k1"]
        assert [len(record.value or b"") for record in unread[B]] == [9000]
        journal = [json.loads(line) for line in (home / "journal.jsonl").read_text().splitlines()]
        assert [line for line in journal if "'before_partial_transactions': 1" in str(line)]
    else:
        assert unread == {A: [], B: []}
