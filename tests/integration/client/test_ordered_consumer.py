"""Order per key across a move, for an application: processes that are killed in mid-switch, and a pointer that moves."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from deadline import Deadline, standstill
from repository_root import ROOT
from testbed_applications import log_ends, set_positions, wait_until

import drlib
from drlib.kafka.admin.descriptions import Record
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import TopicSpec, create_topics

Fresh = Callable[[str], str]
KEYS = 40


@dataclass(frozen=True)
class Handed:
    at: int
    topic: str
    partition: int
    offset: int
    key: str
    value: int


def write(bootstrap: str, topic: str, partitions: int, first: int, count: int) -> None:
    """`count` numbered records of KEYS keys; a key's partition depends on how many there are, as with any producer."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": 50})
    for number in range(first, first + count):
        key = f"k{number % KEYS}".encode()
        producer.produce(topic, value=str(number), key=key, partition=zlib.crc32(key) % partitions)
        producer.poll(0)
    assert producer.flush(20) == 0


def out_of_order(handed: list[Handed]) -> list[str]:
    """Keys of which an older record was handled after a newer one."""
    newest: dict[str, int] = {}
    wrong = []
    for one in sorted(handed, key=lambda row: row.at):
        if one.value < newest.get(one.key, -1):
            wrong.append(f"{one.key}: {one.value} after {newest[one.key]}")
        newest[one.key] = max(one.value, newest.get(one.key, -1))
    return wrong


class Member:
    """A process of `ordered_member.py`."""

    def __init__(self, folder: Path, name: str, spec: dict[str, object]) -> None:
        self.log = folder / f"{name}.log"
        path = folder / f"{name}.json"
        path.write_text(json.dumps({**spec, "log": str(self.log)}))
        self.errors = folder / f"{name}.err"
        with self.errors.open("wb") as errors:
            script = Path(__file__).with_name("ordered_member.py")
            self.process = subprocess.Popen(
                [sys.executable, str(script), str(path)],
                stderr=errors,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def lines(self) -> list[dict[str, object]]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]

    def acked(self) -> list[Handed]:
        """What was handed out and acknowledged."""
        done: list[Handed] = []
        open_: list[Handed] = []
        for line in self.lines():
            if "handed" in line:
                open_.append(Handed(*line["handed"]))  # type: ignore[misc]
            elif "acked" in line:
                done, open_ = done + open_, []
            elif "refused" in line:
                open_ = []
        return done

    def frozen(self) -> bool:
        assert self.process.poll() is None, self.errors.read_text()
        return {"frozen": True} in self.lines()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Callable[[str, dict[str, object]], Member]]:
    started: list[Member] = []

    def start(name: str, spec: dict[str, object]) -> Member:
        started.append(Member(tmp_path, name, spec))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def prepare(right: str, fresh_topic: Fresh, local_partitions: int) -> dict[str, object]:
    local = fresh_topic("orders")
    remote = f"LEFT.{local}"
    create_topics(right, [TopicSpec(remote, 3), TopicSpec(local, local_partitions)])
    write(right, remote, 3, 0, 3000)
    write(right, local, local_partitions, 3000, 1000)
    cutover = list(log_ends(right, remote, 3))
    return {
        "bootstrap": right,
        "group": fresh_topic("group"),
        "topic": local,
        "remote": remote,
        "cutover": cutover,
        "partitions": 3 + local_partitions,
    }


@pytest.mark.parametrize(
    ("scope", "local_partitions"), [("topic", 4), pytest.param("partition", 3, marks=pytest.mark.long)]
)
def test_ordered_consumer_killed_in_mid_switch_keeps_order_and_records(
    right: str,
    fresh_topic: Fresh,
    members: Callable[[str, dict[str, object]], Member],
    scope: str,
    local_partitions: int,
) -> None:
    spec = {**prepare(right, fresh_topic, local_partitions), "scope": scope}
    doomed = members("doomed", {**spec, "freeze_after": 100})
    wait_until("it has begun", lambda: bool(doomed.lines()), 40)
    stays = members("stays", {**spec, "freeze_after": 0})
    wait_until("a member stands still in the remote topic", doomed.frozen, 40)
    doomed.kill()

    def done() -> int:
        assert stays.process.poll() is None, stays.errors.read_text()
        return len(doomed.acked()) + len(stays.acked())

    assert not standstill(done, 4000), f"{done()} records handled"
    handled = doomed.acked() + stays.acked()
    assert sorted(one.value for one in handled) == list(range(4000))  # none twice, none missing
    assert out_of_order(handled) == []
    assert {one.topic for one in doomed.acked()} == {spec["remote"]}
    frozen = [line for line in doomed.lines() if "handed" in line][-5:]
    again = {one.value for one in stays.acked()}
    assert all(line["handed"][5] in again for line in frozen)  # type: ignore[index]


def test_plain_consumer_of_both_topics_breaks_the_order(right: str, fresh_topic: Fresh) -> None:
    spec = prepare(right, fresh_topic, 3)
    plain = Consumer(
        {
            "bootstrap.servers": right,
            "group.id": str(spec["group"]),
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": 500,  # no partition is read whole in one answer, as none of a real topic is
            "log_level": 0,
        }
    )
    plain.subscribe([str(spec["remote"]), str(spec["topic"])])
    handed: list[Handed] = []
    deadline = Deadline(30)
    with contextlib.closing(plain):
        while len(handed) < 4000:
            assert not deadline.passed, f"{len(handed)} records"
            for message in plain.consume(200, 0.1):
                assert message.error() is None
                topic, partition, offset = str(message.topic()), message.partition() or 0, message.offset() or 0
                key, value = (message.key() or b"").decode(), int(message.value() or b"-1")
                handed.append(Handed(time.monotonic_ns(), topic, partition, offset, key, value))
    assert out_of_order(handed)


def test_ordered_consumer_follows_the_pointer(lab: Lab, fresh_topic: Fresh, tmp_path: Path) -> None:
    left, right = lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap
    topic, group = fresh_topic("orders"), fresh_topic("group")
    remote = f"LEFT.{topic}"
    create_topics(left, [TopicSpec(topic, 2)])
    create_topics(right, [TopicSpec(topic, 2), TopicSpec(remote, 2)])
    config = lab.write_properties(tmp_path / "clusters.properties")
    pointer = tmp_path / "pointer.json"
    drlib.publish_pointer(config, "LEFT", pointer=pointer)
    write(left, topic, 2, 0, 200)
    write(right, remote, 2, 0, 300)  # what the mirror brought: 100 more than were handled at LEFT
    with (
        drlib.ActiveCluster("orders", config, pointer=pointer) as active,
        drlib.OrderedConsumer(active, group, topic, settings={"heartbeat.interval.ms": 200}) as consumer,
    ):
        handed: list[Handed] = []

        def take(record: Record) -> None:
            value = int(record.value or b"-1")
            at = record.partition
            key = (record.key or b"").decode()
            handed.append(Handed(time.monotonic_ns(), at.topic, at.partition, record.offset, key, value))

        deadline = Deadline(60)
        while len(handed) < 200:
            assert not deadline.passed
            if (record := consumer.poll(0.2)) is not None:
                take(record)
        assert consumer.commit() is drlib.CommitOutcome.ACKED
        positions = {p.partition: offset for p, offset in consumer.committed().items()}
        assert consumer.active is not None
        assert consumer.active.alias == "LEFT"
        set_positions(right, group, remote, positions)  # a copy of the same records: positions are the same
        write(right, topic, 2, 300, 100)
        cutover = {remote: log_ends(right, remote, 2)}
        drlib.publish_pointer(config, "RIGHT", pointer=pointer, remote_prefix="LEFT.", cutover=cutover)
        for record in consumer:  # commits by itself at the cutover, and nowhere else
            take(record)
            assert not deadline.passed
            if len(handed) == 400:
                break
        assert consumer.active.alias == "RIGHT"
        assert consumer.commit() is drlib.CommitOutcome.ACKED
        assert sorted(one.value for one in handed) == list(range(400))
        assert out_of_order(handed) == []
        assert [one.topic for one in handed[200:]] == [remote] * 100 + [topic] * 100
        drlib.publish_pointer(config, "RIGHT", pointer=pointer, remote_prefix="LEFT.")
        with pytest.raises(drlib.DrlibError, match=f"has no cutover for {remote}"):
            consumer.poll(10.0)


def test_error_during_a_hold_is_one_of_drlib(lab: Lab, fresh_topic: Fresh, tmp_path: Path) -> None:
    """A member that waits for a commit in a hold still takes part in its group, and may be fenced there."""
    left, topic, group = lab.clusters["LEFT"].bootstrap, fresh_topic("orders"), fresh_topic("group")
    create_topics(left, [TopicSpec(topic, 1)])
    write(left, topic, 1, 0, 10)
    config, pointer = lab.write_properties(tmp_path / "clusters.properties"), tmp_path / "pointer.json"
    drlib.publish_pointer(config, "LEFT", pointer=pointer)
    instance = {"group.instance.id": "one", "heartbeat.interval.ms": 200}
    with (
        drlib.ActiveCluster("orders", config, pointer=pointer) as active,
        drlib.OrderedConsumer(active, group, topic, settings=instance) as consumer,
    ):
        deadline = Deadline(60)
        while consumer.poll(0.2) is None:
            assert not deadline.passed
        drlib.publish_pointer(config, "LEFT", pointer=pointer, hold=True)
        with drlib.OrderedConsumer({"bootstrap.servers": left}, group, topic, settings=instance) as other:

            def poll_both() -> None:
                while not deadline.passed:
                    consumer.poll(0.2)
                    other.poll(0.2)

            with pytest.raises(drlib.DrlibError, match=group):
                poll_both()
            assert consumer.commit() is drlib.CommitOutcome.REFUSED


def test_commit_repeated_until_it_is_answered_ends_when_the_pointer_has_moved(
    lab: Lab, fresh_topic: Fresh, tmp_path: Path
) -> None:
    topic, group = fresh_topic("orders"), fresh_topic("group")
    for cluster in lab.clusters.values():
        create_topics(cluster.bootstrap, [TopicSpec(topic, 1)])
        write(cluster.bootstrap, topic, 1, 0, 10)
    config, pointer = lab.write_properties(tmp_path / "clusters.properties"), tmp_path / "pointer.json"
    drlib.publish_pointer(config, "LEFT", pointer=pointer)
    with (
        drlib.ActiveCluster("orders", config, pointer=pointer) as active,
        drlib.OrderedConsumer(active, group, topic) as consumer,
    ):
        deadline = Deadline(30)
        while consumer.poll(0.2) is None:
            assert not deadline.passed
        drlib.publish_pointer(config, "RIGHT", pointer=pointer)
        wait_until("the pointer names RIGHT", lambda: active.current().alias == "RIGHT")
        while (outcome := consumer.commit()) is drlib.CommitOutcome.UNKNOWN:
            assert not deadline.passed
        assert outcome is drlib.CommitOutcome.REFUSED
        while consumer.poll(0.2) is None:
            assert not deadline.passed
        assert consumer.active is not None
        assert consumer.active.alias == "RIGHT"
