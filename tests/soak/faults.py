"""The faults of a soak run. Each fault draws from its rng, repairs what it broke, and returns a description of what it did.

Rules: `INSIDE` affect the workers, `OUTSIDE` links, brokers and topics; one of each may run at the same time, so neither
changes what belongs to the other; a fault that needs both is outside and ends workers through the testbed.
Waiting in here is part of the fault: how long it lasts.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AclPermissionType, NewPartitions, PartitionMetadata, ResourceType
from fix_authorizer import acl, add_acls, drop_acls
from fix_engine import wait_for
from kafka import TopicPartition as KafkaPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.lab.brokers.broker import Broker
from drlib.mirror.engine.fencing.claim import claim
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.errors import LaneFault, LaneLost
from drlib.mirror.failpoints import Failpoint
from soak.logs import admin, bounds
from soak.testbed import (
    AGAIN,
    GROWING,
    GUARDED,
    LANES,
    LOSSY,
    PLAIN,
    SESSION_S,
    UNCLEAN,
    UNCLEAN_REPLICAS,
    WORKERS,
    Testbed,
    make,
    mirror,
    topic,
)

Fault = Callable[[Testbed, random.Random], str]
FOREIGN = b"foreign-"
MOST_PARTITIONS = 6


def worker_killed(testbed: Testbed, rng: random.Random) -> str:
    at, rest = rng.randrange(WORKERS), rng.choice([0.0, rng.uniform(0, 6)])
    testbed.end(at)
    time.sleep(rest)
    testbed.begin(at)
    return f"worker {at}, back after {rest:.1f} s"


def worker_killed_at_a_stage(testbed: Testbed, rng: random.Random) -> str:
    at = rng.randrange(WORKERS)
    failpoint, passage = rng.choice(get_args(Failpoint)), rng.randrange(1, 40)
    testbed.end(at)
    testbed.begin(at, f"{failpoint}:{passage}")
    try:
        code = testbed.workers[at].wait(20)
    except subprocess.TimeoutExpired:
        testbed.end(at)
        code = 0
    testbed.begin(at)
    return f"worker {at} at {failpoint}:{passage}" + ("" if code == -signal.SIGKILL else ", which it never reached")


def all_workers_killed(testbed: Testbed, rng: random.Random) -> str:
    for at in range(WORKERS):
        testbed.end(at)
    rest = rng.uniform(0, 2)
    time.sleep(rest)
    for at in range(WORKERS):
        testbed.begin(at)
    return f"back after {rest:.1f} s"


def worker_stopped_in_order(testbed: Testbed, rng: random.Random) -> str:
    at = rng.randrange(WORKERS)
    worker = testbed.workers[at]
    testbed.expected.add(worker.pid)
    worker.send_signal(signal.SIGTERM)
    try:
        code = worker.wait(90)
    except subprocess.TimeoutExpired:
        testbed.anomalies.append(f"worker {at} did not stop within 90 s of SIGTERM")
        testbed.end(at)
        code = 0
    if code and not (code == -signal.SIGTERM and testbed.just_begun(worker)):
        testbed.anomalies.append(f"worker {at} was asked to stop and ended with {code}")
    testbed.begin(at)
    return f"worker {at}"


def worker_asleep(testbed: Testbed, rng: random.Random) -> str:
    """Not long enough to lose its lanes."""
    at, seconds = rng.randrange(WORKERS), rng.uniform(0.3, SESSION_S * 0.8)
    _asleep([testbed.workers[at]], seconds)
    return f"worker {at} for {seconds:.1f} s"


def zombie(testbed: Testbed, rng: random.Random) -> str:
    """Long enough that its lanes are given away; then it wakes in the middle of what it was doing."""
    at, seconds = rng.randrange(WORKERS), rng.uniform(SESSION_S + 0.5, SESSION_S + 6)
    _asleep([testbed.workers[at]], seconds)
    return f"worker {at} for {seconds:.1f} s"


def race(testbed: Testbed, rng: random.Random) -> str:
    """Everybody asleep until the group has given up on them; a newcomer claims as they wake."""
    others = list(testbed.workers)
    for worker in others:
        worker.send_signal(signal.SIGSTOP)
    newcomer = testbed.start_worker()
    head_start = rng.uniform(SESSION_S, SESSION_S + 4)
    time.sleep(head_start)
    for worker in others:
        worker.send_signal(signal.SIGCONT)
    time.sleep(rng.uniform(0, 3))
    newcomer.kill()
    newcomer.wait(10)
    return f"woken {head_start:.1f} s after the newcomer's start"


def usurper(testbed: Testbed, rng: random.Random) -> str:
    """A claimant outside the group claims a lane of its owner once, and does nothing more."""
    lane = rng.randrange(LANES)

    async def take() -> str:
        client = ClusterClient(testbed.right.split(","))
        await client.connect()
        try:
            partitions = {testbed.journal: [lane]}
            for sort, count in testbed.partitions.items():
                mine = [n for n in range(count) if lane_of(topic(sort), n, LANES) == lane]
                partitions |= {mirror(sort): mine} if mine else {}
            taken = await claim(client, f"drlib.LEFT.RIGHT.{lane}.0", partitions, deadline_s=10)
            return f"lane {lane} in epoch {taken.epoch}"
        finally:
            await client.close()

    try:
        return asyncio.run(take())
    except (LaneFault, LaneLost) as lost:
        return f"lane {lane}, in vain: {lost.what}"


def clocks_set(testbed: Testbed, rng: random.Random) -> str:
    """The wall clock of the workers' machine jumps, and stays there until the next time."""
    hours = rng.choice([0.0, rng.uniform(-5, 5)])
    testbed.set_clocks(hours * 3600)
    time.sleep(rng.uniform(0, 2))
    return f"{hours:+.1f} h"


# -- links ---------------------------------------------------------------------------------------------------------


def link_reset(testbed: Testbed, rng: random.Random) -> str:
    calls = []
    for _ in range(rng.randrange(1, 6)):
        link = rng.choice(testbed.links())
        testbed.lab(link.split("-")[0]).proxy.reset(link)
        calls.append(link)
        time.sleep(rng.uniform(0, 0.5))
    return ", ".join(calls)


def link_silent(testbed: Testbed, rng: random.Random) -> str:
    alias, direction = rng.choice(["LEFT", "RIGHT"]), rng.choice(["requests", "responses", "both"])
    seconds = rng.uniform(0.5, 7)
    proxy = testbed.lab(alias).proxy
    proxy.set(alias, direction=direction, blackhole=True)  # type: ignore[arg-type]
    time.sleep(seconds)
    proxy.clear(alias)
    return f"{direction} of {alias} for {seconds:.1f} s"


def acknowledgements_lost(testbed: Testbed, rng: random.Random) -> str:
    """Requests arrive, answers never do, and then the connection is gone."""
    alias, seconds = rng.choice(["LEFT", "RIGHT", "RIGHT"]), rng.uniform(0.05, 0.6)
    proxy = testbed.lab(alias).proxy
    proxy.set(alias, direction="responses", blackhole=True)
    time.sleep(seconds)
    proxy.reset(alias)
    proxy.clear(alias)
    return f"of {alias} for {seconds:.2f} s"


def connections_forgotten(testbed: Testbed, rng: random.Random) -> str:
    """A firewall loses its table: what is open falls silent, one way or both, to some brokers or all; new ones work."""
    links = rng.choice([["LEFT"], ["RIGHT"], [rng.choice(testbed.links())]])
    direction = rng.choice(["requests", "responses", "both"])
    for link in links:
        testbed.lab(link.split("-")[0]).proxy.forget(link, direction=direction)  # type: ignore[arg-type]
    time.sleep(rng.uniform(0, 8))
    return f"{direction} of {links[0]}"


def link_cut(testbed: Testbed, rng: random.Random) -> str:
    alias, seconds = rng.choice(["LEFT", "RIGHT"]), rng.uniform(0.5, 8)
    testbed.lab(alias).proxy.set(alias, cut=True)
    time.sleep(seconds)
    testbed.lab(alias).proxy.clear(alias)
    return f"{alias} for {seconds:.1f} s"


def link_slow(testbed: Testbed, rng: random.Random) -> str:
    alias, delay, seconds = rng.choice(["LEFT", "RIGHT"]), rng.uniform(5, 150), rng.uniform(2, 6)
    testbed.lab(alias).proxy.set(alias, delay_ms=delay, bandwidth=rng.choice([0, 200_000]))
    time.sleep(seconds / 2)
    testbed.lab(alias).proxy.reset(alias)  # with much on its way
    time.sleep(seconds / 2)
    testbed.lab(alias).proxy.clear(alias)
    return f"{alias}, {delay:.0f} ms one way, for {seconds:.1f} s"


# -- brokers -------------------------------------------------------------------------------------------------------


def source_killed(testbed: Testbed, rng: random.Random) -> str:
    return _killed(testbed.source.clusters["LEFT"].brokers, rng)


def leader_killed(testbed: Testbed, rng: random.Random) -> str:
    return _killed(testbed.target.clusters["RIGHT"].brokers, rng)


def source_asleep(testbed: Testbed, rng: random.Random) -> str:
    return _broker_asleep(testbed.source.clusters["LEFT"].brokers, rng)


def leader_asleep(testbed: Testbed, rng: random.Random) -> str:
    return _broker_asleep(testbed.target.clusters["RIGHT"].brokers, rng)


def _killed(brokers: Sequence[Broker], rng: random.Random) -> str:
    broker, rest = rng.choice(brokers), rng.uniform(0, 4)
    broker.kill()
    time.sleep(rest)
    broker.restart()
    return f"{broker.name}, down for {rest:.1f} s"


def _broker_asleep(brokers: Sequence[Broker], rng: random.Random) -> str:
    """Long enough, sometimes, to be replaced; then it wakes and still thinks that it leads."""
    broker, seconds = rng.choice(brokers), rng.uniform(0.5, 6)
    broker.pause()
    time.sleep(seconds)
    broker.resume()
    return f"{broker.name} for {seconds:.1f} s"


def source_leaders_moved(testbed: Testbed, rng: random.Random) -> str:
    counts = {topic(sort): count for sort, count in testbed.partitions.items() if sort != UNCLEAN}
    return _moved(testbed.left, testbed.source.clusters["LEFT"].brokers, counts, rng)


def leaders_moved(testbed: Testbed, rng: random.Random) -> str:
    counts = {mirror(sort): count for sort, count in testbed.partitions.items()}
    counts |= {testbed.journal: LANES, "__transaction_state": 4, "__consumer_offsets": 4}
    return _moved(testbed.right, testbed.target.clusters["RIGHT"].brokers, counts, rng)


def _moved(servers: str, of: Sequence[Broker], counts: Mapping[str, int], rng: random.Random) -> str:
    """All alive: replicas in another order, then the election of those that stand first. Coordinators move with them."""
    brokers = [broker.spec.node_id for broker in of]
    order = {KafkaPartition(name, n): rng.sample(brokers, 3) for name, count in counts.items() for n in range(count)}
    client = KafkaAdminClient(bootstrap_servers=servers.split(","))
    try:
        client.alter_partition_reassignments(order)
        client.elect_leaders(0, {name: list(range(count)) for name, count in counts.items()}, raise_errors=False)
    except KafkaError as refused:
        return f"in vain: {refused}"
    finally:
        client.close()
    return f"of {len(order)} partitions"


# -- topics --------------------------------------------------------------------------------------------------------


def foreign_writer(testbed: Testbed, rng: random.Random) -> str:
    producer = Producer({"bootstrap.servers": testbed.right, "log_level": 0, "linger.ms": 1})
    count = rng.randrange(1, 25)
    for number in range(count):
        producer.produce(
            mirror(PLAIN), value=FOREIGN + b"%d" % number, partition=rng.randrange(testbed.partitions[PLAIN])
        )
        if rng.random() < 0.3:
            producer.flush(30)
    left = producer.flush(60)
    return f"{count - left} records"


def source_deleted_below(testbed: Testbed, rng: random.Random) -> str:
    """Retention is faster than the mirror: the link is cut, records come and go."""
    testbed.source.proxy.set("LEFT", cut=True)
    try:
        time.sleep(rng.uniform(1, 4))
        wanted = {n: max(0, end - rng.randrange(40)) for n, (_, end) in bounds(*_of(testbed, LOSSY)).items()}
        for n, offset in wanted.items():
            testbed.deleted[n] = max(offset, testbed.deleted.get(n, 0))
        _delete_below(testbed.left, topic(LOSSY), wanted)
    finally:
        testbed.source.proxy.clear("LEFT")
    return f"below {wanted}"


def mirror_tail_deleted(testbed: Testbed, rng: random.Random) -> str:
    """All workers killed, and what they wrote last is deleted before anybody counts it."""
    for at in range(WORKERS):
        testbed.end(at)
    testbed.remember_mirror()
    ends = {n: end for n, (_, end) in bounds(testbed.right, mirror(LOSSY), testbed.partitions[LOSSY]).items()}
    _delete_below(testbed.right, mirror(LOSSY), ends)
    time.sleep(rng.uniform(0, 1))
    for at in range(WORKERS):
        testbed.begin(at)
    return f"below {ends}"


def topic_made_again(testbed: Testbed, rng: random.Random) -> str:
    traffic = testbed.traffic[AGAIN]
    held = traffic.held()
    try:
        client = admin(testbed.left)
        client.delete_topics([topic(AGAIN)])[topic(AGAIN)].result(30)
        wait_for("the topic is gone", lambda: topic(AGAIN) not in client.list_topics(timeout=10).topics)
        time.sleep(rng.choice([0.0, 3.0, 12.0]))
        make(testbed.left, AGAIN)
        wait_for("the topic is there again", lambda: topic(AGAIN) in client.list_topics(timeout=10).topics)
        traffic.next_life()
    finally:
        held.release()
    return f"for the {len(traffic.lives)}. time"


def partition_added(testbed: Testbed, rng: random.Random) -> str:
    count = testbed.partitions[GROWING]
    if count >= MOST_PARTITIONS:
        return "as many as there may be"
    new = NewPartitions(topic(GROWING), count + 1)
    client = admin(testbed.left)
    client.create_partitions([new])[topic(GROWING)].result(30)
    testbed.partitions[GROWING] = count + 1
    time.sleep(rng.uniform(0, 3))  # the traffic's client learns of it
    testbed.traffic[GROWING].partitions = count + 1
    return f"the {count + 1}."


def rights_changed(testbed: Testbed, rng: random.Random) -> str:
    """A right on one topic is gone for some seconds, on either side."""
    servers, name, operations = rng.choice(
        [
            (testbed.left, topic(GUARDED), [AclOperation.READ]),
            (testbed.right, mirror(GUARDED), [AclOperation.READ]),
            (testbed.right, mirror(GUARDED), [AclOperation.WRITE]),
            (testbed.right, mirror(GUARDED), [AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE]),
        ]
    )
    rest = rng.uniform(0.5, 8)
    denied = [acl(ResourceType.TOPIC, name, operation, AclPermissionType.DENY) for operation in operations]
    try:
        add_acls(servers, acl(ResourceType.TOPIC, name, AclOperation.ALL), *denied)
        time.sleep(rest)
    finally:
        drop_acls(servers, ResourceType.TOPIC, name)
    return f"{', '.join(o.name for o in operations)} on {name} for {rest:.1f} s"


def unclean_election(testbed: Testbed, rng: random.Random) -> str:
    """A replica that missed records becomes leader; the one that had them follows it, without them."""
    client = admin(testbed.left)
    replicas = {testbed.source.clusters["LEFT"].brokers[place].spec.node_id: place for place in UNCLEAN_REPLICAS}

    def partition() -> PartitionMetadata | None:
        return client.list_topics(topic(UNCLEAN), timeout=10).topics[topic(UNCLEAN)].partitions.get(0)

    def whole() -> bool:
        found = partition()
        return found is not None and len(found.isrs) == 2 and found.leader in replicas

    wait_for("both replicas are in sync", whole)
    found = partition()
    assert found is not None
    leader = testbed.source.clusters["LEFT"].brokers[replicas[found.leader]]
    other = next(testbed.source.clusters["LEFT"].brokers[p] for node, p in replicas.items() if node != found.leader)
    other.kill()
    time.sleep(rng.uniform(1, 5))
    leader.kill()
    other.launch()  # without the killed one the cluster is not complete
    try:
        wait_for("the other leads", lambda: (now := partition()) is not None and now.leader == other.spec.node_id)
        time.sleep(rng.uniform(0, 3))
    finally:
        leader.restart()
    return f"of {other.name}"


def _delete_below(servers: str, name: str, offsets: dict[int, int]) -> None:
    client = admin(servers)
    asked = client.delete_records([TopicPartition(name, n, at) for n, at in offsets.items()])
    for future in asked.values():
        future.result(60)


def _of(testbed: Testbed, sort: str) -> tuple[str, str, int]:
    return testbed.left, topic(sort), testbed.partitions[sort]


def _asleep(workers: list[subprocess.Popen[bytes]], seconds: float) -> None:
    for worker in workers:
        worker.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    for worker in workers:
        worker.send_signal(signal.SIGCONT)


INSIDE: dict[str, Fault] = {
    f.__name__: f
    for f in (
        worker_killed,
        worker_killed_at_a_stage,
        all_workers_killed,
        worker_stopped_in_order,
        worker_asleep,
        zombie,
        race,
        usurper,
        clocks_set,
    )
}
LINKS_AND_BROKERS: dict[str, Fault] = {
    f.__name__: f
    for f in (
        link_reset,
        link_silent,
        acknowledgements_lost,
        link_cut,
        link_slow,
        connections_forgotten,
        source_killed,
        source_asleep,
        source_leaders_moved,
        leader_killed,
        leader_asleep,
        leaders_moved,
        foreign_writer,
        partition_added,
        rights_changed,
    )
}
ALONE: dict[str, Fault] = {
    f.__name__: f for f in (source_deleted_below, mirror_tail_deleted, topic_made_again, unclean_election)
}
EVERY = {**INSIDE, **LINKS_AND_BROKERS, **ALONE}
