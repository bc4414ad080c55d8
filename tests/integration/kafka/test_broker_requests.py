"""The wire against a real broker: what it accepts, what it refuses, and in which order it answers."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import pytest
import uvloop
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, NewTopic
from deadline import Deadline
from testbed_lane import connected

from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.net import group_requests, requests
from drlib.kafka.net.cluster_client import Broker, ClusterClient, WrongCluster
from drlib.kafka.net.connection import Connection, ConnectionLost
from drlib.kafka.protocol.aborted_transactions import AbortedFilter
from drlib.kafka.protocol.batch import SEQUENCE_MODULUS, OutgoingBatch, iter_batches, rewrite
from drlib.kafka.protocol.error_codes import FENCED, REFUSED, UNKNOWN_TOPIC_OR_PARTITION, BrokerError, raise_for
from drlib.kafka.protocol.fetch import FetchedPartition, FetchPartition
from drlib.kafka.protocol.recode import Record, rebuild, records
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.link.link import Link
from drlib.lab.ports import free_ports
from drlib.model import TopicPartition

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NOW = int(time.time() * 1000)
MakeTopic = Callable[..., str]
Answer = TypeVar("Answer")


@pytest.fixture
def make_topic(left: str, fresh_topic: Callable[[str], str]) -> MakeTopic:
    """A function that creates a topic on LEFT and returns its name."""
    admin = AdminClient({"bootstrap.servers": left})

    def make(prefix: str = "wire", partitions: int = 1, **config: str) -> str:
        name = fresh_topic(prefix)
        settings = {k.replace("_", "."): v for k, v in config.items()}
        for future in admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values():
            future.result(30)
        return name

    return make


@pytest.fixture
async def client(left: str) -> AsyncIterator[ClusterClient]:
    one = ClusterClient([left], client_id="wire-test")
    await one.connect()
    yield one
    await one.close()


async def again(call: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
    """Repeat while the broker says that it is not ready yet: a topic or coordinator just made."""
    deadline = Deadline(20)
    while True:
        try:
            return await call()
        except BrokerError as error:
            if not error.retriable or deadline.passed:
                raise
        await asyncio.sleep(0.02)


async def leader(client: ClusterClient, topic: str) -> tuple[uuid.UUID, Connection]:
    """Topic ID and a connection to the leader, once it leads every partition."""

    async def found() -> tuple[uuid.UUID, Connection]:
        topic_metadata = (await client.metadata([topic])).topics[topic]
        raise_for(topic_metadata.error_code, f"looking up {topic}")
        conn = await client.connection(topic_metadata.partitions[0].leader)
        await requests.list_offsets(conn, [TopicPartition(topic, p) for p in topic_metadata.partitions], -1)
        return topic_metadata.topic_id, conn

    return await again(found)


async def producer_id(conn: Connection) -> tuple[int, int]:
    return await again(lambda: requests.init_producer_id(conn, None, 60_000))


async def fetch_all(client: ClusterClient, topic: str, *, read_committed: bool = False) -> list[FetchedPartition]:
    """Answers until the high watermark, or the last stable offset."""
    topic_id, conn = await leader(client, topic)
    out: list[FetchedPartition] = []
    position = 0
    while True:
        (answer,) = await requests.fetch(
            conn,
            [FetchPartition(topic, topic_id, 0, position, 1 << 20)],
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=1 << 20,
            read_committed=read_committed,
        )
        assert answer.error_code == 0
        out.append(answer)
        position = max([position, *(h.next_offset for h, _ in iter_batches(answer.records))])
        if position >= (answer.last_stable_offset if read_committed else answer.high_watermark):
            return out


def produce_real(bootstrap: str, topic: str, codec: str, count: int = 40) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 100})
    for i in range(count):
        producer.produce(
            topic,
            key=None if i % 5 == 4 else f"key {i}",
            value=None if i % 7 == 6 else f"value {i} ".encode() * 20,
            headers=[("trace", b"%d" % i), ("null", None)] if i % 3 == 0 else None,
            timestamp=NOW + i,
            partition=0,
        )
    assert producer.flush(20) == 0


def consume_real(bootstrap: str, topic: str) -> list[tuple[Any, ...]]:
    """Every record of partition 0, as librdkafka reads it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "enable.partition.eof": True})
    consumer.assign([ConfluentPartition(topic, 0, 0)])
    out: list[tuple[Any, ...]] = []
    while (message := consumer.poll(20)) is not None and not message.error():
        headers = tuple(message.headers() or ())
        out.append((message.offset(), message.timestamp()[1], message.key(), message.value(), headers))
    consumer.close()
    return out


def simple(first: int, count: int, value: bytes = b"v") -> list[Record]:
    return [Record(0, NOW + i, b"%d" % i, value, ()) for i in range(first, first + count)]


def batch(producer: tuple[int, int], sequence: int, count: int = 1, **more: Any) -> OutgoingBatch:
    made = more.pop("records", None) or simple(sequence, count)
    return rebuild(
        made, codec=more.pop("codec", 0), producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence
    )


@pytest.mark.parametrize("way", ["rewritten", "rebuilt"])
@pytest.mark.parametrize("codec", CODECS)
async def test_produce_and_fetch_keep_the_records(
    client: ClusterClient, left: str, make_topic: MakeTopic, codec: str, way: str
) -> None:
    source, target = make_topic("source"), make_topic("target")
    await asyncio.to_thread(produce_real, left, source, codec)
    _, conn = await leader(client, target)
    producer = await producer_id(conn)
    sequence = 0
    for answer in await fetch_all(client, source):
        for header, view in iter_batches(answer.records):
            identity = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": sequence}
            assert header.codec == CODECS[codec]
            if way == "rewritten":
                out = rewrite(view, header, **identity)
            else:
                out = rebuild(records(view), codec=header.codec, **identity)
            (result,) = await conn.produce(target, [(0, out)])
            assert (result.topic, result.partition, result.error_code) == (target, 0, 0)
            assert result.base_offset == sequence
            sequence += header.count
    assert sequence == 40
    assert await asyncio.to_thread(consume_real, left, target) == await asyncio.to_thread(consume_real, left, source)


async def test_produce_records_without_time_and_before_1970(
    client: ClusterClient, left: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(retention_ms="-1")
    _, conn = await leader(client, topic)
    times = [-1, 5, -7, NOW, 0]
    made = [Record(i, t, None, b"", (("", None),)) for i, t in enumerate(times)]
    (result,) = await conn.produce(topic, [(0, batch((-1, -1), -1, records=made))])
    assert result.error_code == 0
    (answer,) = await fetch_all(client, topic)
    found = [r for _, view in iter_batches(answer.records) for r in records(view)]
    assert found == made


async def pipeline(bootstrap: str, topic: str, in_flight: int) -> list[int]:
    """Base offsets of `in_flight` produce requests, all sent before the first answer is awaited."""
    client = ClusterClient([bootstrap])
    _, conn = await leader(client, topic)
    producer = await producer_id(conn)
    futures = [conn.produce(topic, [(0, batch(producer, 3 * i, 3))]) for i in range(in_flight)]
    assert conn.in_flight == in_flight
    await conn.drain()
    answers = await asyncio.gather(*futures)
    assert {r.error_code for results in answers for r in results} == {0}
    (fetched, *_) = await fetch_all(client, topic)
    keys = [r.key for _, view in iter_batches(fetched.records) for r in records(view)]
    assert keys == [b"%d" % i for i in range(3 * in_flight)]
    await client.close()
    return [results[0].base_offset for results in answers]


async def test_200_requests_in_flight_keep_their_order(left: str, make_topic: MakeTopic) -> None:
    assert await pipeline(left, make_topic(), 200) == list(range(0, 600, 3))


def test_200_requests_in_flight_keep_their_order_under_uvloop(left: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    scenario: Coroutine[Any, Any, list[int]] = pipeline(left, topic, 200)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(scenario) == list(range(0, 600, 3))


async def test_produce_many_partitions_in_one_request(client: ClusterClient, make_topic: MakeTopic) -> None:
    topics = [make_topic(partitions=3) for _ in range(3)]
    for topic in topics:
        _, conn = await leader(client, topic)
    results = await conn.produce_many(
        {t: [(p, batch((-1, -1), -1, records=simple(0, 2))) for p in range(3)] for t in topics}
    )
    assert sorted((r.topic, r.partition, r.error_code, r.base_offset) for r in results) == sorted(
        (t, p, 0, 0) for t in topics for p in range(3)
    )
    everywhere = [TopicPartition(t, p) for t in topics for p in range(3)]
    assert await requests.list_offsets(conn, everywhere, -1) == dict.fromkeys(everywhere, 2)
    assert await requests.list_offsets(conn, everywhere, -2) == dict.fromkeys(everywhere, 0)
    assert await requests.list_offsets(conn, everywhere, NOW + 1) == dict.fromkeys(everywhere, 1)
    missing = TopicPartition(topics[0], 7)
    known, refused = await requests.list_offsets_or_codes(conn, [*everywhere, missing], -1)
    assert {at: offset for at, (offset, _) in known.items()} == dict.fromkeys(everywhere, 2)
    assert refused == {missing: UNKNOWN_TOPIC_OR_PARTITION}
    with pytest.raises(BrokerError, match=str(missing)):
        await requests.list_offsets(conn, [*everywhere, missing], -1)


async def test_fetch_large_answer_arrives_whole(client: ClusterClient, make_topic: MakeTopic) -> None:
    topic = make_topic(max_message_bytes=str(4 << 20))
    _, conn = await leader(client, topic)
    values = [bytes([n]) * (1 << 20) for n in range(3)]
    made = [Record(0, NOW, None, v, ()) for v in values]
    (result,) = await conn.produce(topic, [(0, batch((-1, -1), -1, records=made))])
    assert result.error_code == 0
    (answer,) = await fetch_all(client, topic)
    assert [r.value for _, view in iter_batches(answer.records) for r in records(view)] == values


async def test_produce_sequences_compare_and_append(client: ClusterClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    _, conn = await leader(client, topic)
    producer = await producer_id(conn)

    async def put(sequence: int, count: int) -> tuple[int, int]:
        (result,) = await conn.produce(topic, [(0, batch(producer, sequence, count))])
        return result.error_code, result.base_offset

    assert await put(0, 10) == (0, 0)
    assert await put(0, 10) == (0, 0), "the same batch again"
    assert await put(5, 10) == (45, -1), "an overlap"
    assert await put(11, 1) == (45, -1), "a gap"
    assert await put(10, 5) == (0, 10)
    fresh = await producer_id(conn)
    for sequence, offset in ((SEQUENCE_MODULUS - 2, 15), (0, 17)):
        (result,) = await conn.produce(topic, [(0, batch(fresh, sequence, records=simple(0, 2)))])
        assert (result.error_code, result.base_offset) == (0, offset), "sequences start again after 2**31 - 1"


async def test_produce_refused_batch_has_code_and_reason(client: ClusterClient, make_topic: MakeTopic) -> None:
    compacted = make_topic(cleanup_policy="compact")
    small = make_topic(max_message_bytes="1000")
    timely = make_topic(message_timestamp_after_max_ms="1000")
    for topic, record, code in (
        (compacted, Record(0, NOW, None, b"no key", ()), 87),
        (small, Record(0, NOW, b"k", b"x" * 2000, ()), 10),
        (timely, Record(0, NOW + 86_400_000, b"k", b"v", ()), 32),
    ):
        _, conn = await leader(client, topic)
        (result,) = await conn.produce(topic, [(0, batch((-1, -1), -1, records=[record]))])
        assert result.error_code == code
        assert code in REFUSED
        assert result.base_offset == -1
        assert code == 10 or result.error_message, "the broker says which record and why, except for the size"


async def test_init_producer_id_fences_the_previous_owner(client: ClusterClient, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    _, conn = await leader(client, topic)
    lane = f"lane-{uuid.uuid4().hex}"
    coordinator = await client.connection(await client.coordinator(lane, "transaction"), "transaction")

    async def claim() -> tuple[int, int]:
        mine = await again(lambda: requests.init_producer_id(coordinator, lane, 60_000))
        await again(lambda: requests.add_partitions_to_txn(coordinator, lane, *mine, {topic: [0, 1]}))
        await again(lambda: requests.end_txn_abort(coordinator, lane, *mine))
        deadline = Deadline(20)
        while (state := await requests.describe_transaction(coordinator, lane)).state != "CompleteAbort":
            assert not deadline.passed, state
            await asyncio.sleep(0.002)
        assert (state.producer_id, state.epoch) == mine
        return mine

    first = await claim()
    (result,) = await conn.produce(topic, [(0, batch(first, 0, 4))])
    assert (result.error_code, result.base_offset) == (0, 1), "after the marker"
    second = await claim()
    assert second == (first[0], first[1] + 1)
    (result,) = await conn.produce(topic, [(0, batch(first, 4, 1))])
    assert result.error_code in FENCED
    (result,) = await conn.produce(topic, [(0, batch(second, 0, 1))])
    assert (result.error_code, result.base_offset) == (0, 6)
    producers = await requests.describe_producers(conn, {topic: [0, 1]})
    for number in (0, 1):
        assert [(p.producer_id, p.epoch) for p in producers[TopicPartition(topic, number)]] == [second]
    assert producers[TopicPartition(topic, 0)][0].last_sequence == 0
    with pytest.raises(BrokerError) as caught:
        await requests.end_txn_abort(coordinator, lane, *first)
    assert caught.value.code in FENCED
    with pytest.raises(BrokerError) as caught:
        await requests.add_partitions_to_txn(coordinator, lane, *second, {topic: [0, 99]})
    assert caught.value.name == "UNKNOWN_TOPIC_OR_PARTITION"


async def test_fetch_read_committed_filters_aborted_records(
    client: ClusterClient, left: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()

    def transactions() -> Producer:
        producer = Producer({"bootstrap.servers": left, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(30)
        for number, commit in enumerate([True, False, True, False, False]):
            producer.begin_transaction()
            producer.produce(topic, key=b"%d" % number, value=b"v", partition=0)
            producer.flush(10)
            if commit:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
        producer.begin_transaction()
        producer.produce(topic, key=b"open", value=b"v", partition=0)
        producer.flush(10)
        return producer

    open_one = await asyncio.to_thread(transactions)
    answers = await fetch_all(client, topic, read_committed=True)
    found = []
    for answer in answers:
        keep = AbortedFilter(answer.aborted)
        for header, view in iter_batches(answer.records):
            if keep.keep(header, view):
                found += [r.key for r in records(view)]
    assert found == [b"0", b"2"]
    assert answers[-1].last_stable_offset == 10
    assert answers[-1].high_watermark == 11
    _, conn = await leader(client, topic)
    partition = TopicPartition(topic, 0)
    assert await requests.list_offsets(conn, [partition], -1, "read_committed") == {partition: 10}
    assert await requests.list_offsets(conn, [partition], -1) == {partition: 11}
    await asyncio.to_thread(open_one.abort_transaction, 30)


async def test_metadata_of_existing_and_missing_topics(client: ClusterClient, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    topic_id, _ = await leader(client, topic)
    found = await client.metadata([topic, "not-there"])
    assert found.cluster_id
    assert list(found.brokers) == [found.topics[topic].partitions[2].leader]
    assert found.topics[topic].topic_id == topic_id != uuid.UUID(int=0)
    assert sorted(found.topics[topic].partitions) == [0, 1, 2]
    assert found.topics[topic].partitions[0].isr == found.topics[topic].partitions[0].replicas
    assert found.topics["not-there"].error_code == 3
    assert topic in (await client.metadata(None)).topics
    assert (await client.metadata([])).topics == {}


async def test_metadata_unchanged_answer_is_the_same_object(
    client: ClusterClient, left: str, make_topic: MakeTopic
) -> None:
    names = [make_topic(partitions=3), make_topic(partitions=2)]
    for name in names:
        await leader(client, name)
    first = await client.metadata(names)
    assert await client.metadata(names) is first
    assert (await client.metadata(names[:1])).topics[names[0]] == first.topics[names[0]]
    with Cluster(ClusterSettings("LEFT", tuple(left.split(",")))) as cluster:
        cluster.create_partitions(names[0], 4)
    then, deadline = first, Deadline(10)
    while then is first and not deadline.passed:
        await asyncio.sleep(0.02)
        then = await client.metadata(names)
    assert len(then.topics[names[0]].partitions) == 4
    assert then.topics[names[1]] == first.topics[names[1]]
    for _ in range(20):  # more questions than are kept
        await client.metadata([make_topic()])
    again = await client.metadata(names)
    assert again == then


async def test_fetch_has_an_error_code_per_partition(client: ClusterClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    topic_id, conn = await leader(client, topic)

    async def code(topic_id: uuid.UUID, offset: int, leader_epoch: int = -1) -> int:
        wanted = FetchPartition(topic, topic_id, 0, offset, 1 << 20, leader_epoch=leader_epoch)
        (answer,) = await requests.fetch(
            conn, [wanted], max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, read_committed=False
        )
        assert len(answer.records) == 0
        return answer.error_code

    assert await code(topic_id, 0) == 0
    assert await code(topic_id, 5) == 1
    assert await code(topic_id, 0, leader_epoch=99) == 75
    assert await code(uuid.uuid4(), 0) == 100


async def test_group_requests_classic_protocol_joins_and_commits(
    client: ClusterClient, left: str, make_topic: MakeTopic
) -> None:
    topic, group = make_topic(), f"group-{uuid.uuid4().hex}"
    node = await client.coordinator(group, "group")
    conn, other = await client.connection(node, "group"), await client.connection(node, "group-2")

    async def join(conn: Connection, member_id: str, metadata: bytes) -> group_requests.JoinedGroup:
        return await group_requests.join_group(
            conn,
            group=group,
            member_id=member_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="drlib-test",
            protocols={"one": metadata},
        )

    async def new_member(conn: Connection) -> str:
        with pytest.raises(group_requests.MemberIdRequired) as caught:
            await join(conn, "", b"")
        return caught.value.member_id

    async def sync(conn: Connection, joined: group_requests.JoinedGroup, plan: dict[str, bytes]) -> bytes:
        return await group_requests.sync_group(
            conn,
            group=group,
            generation=joined.generation,
            member_id=joined.member_id,
            protocol_type="drlib-test",
            protocol_name=joined.protocol_name,
            assignments=plan,
            rebalance_timeout_ms=10_000,
        )

    first = await new_member(conn)
    joined = await join(conn, first, b"of the first")
    assert (joined.member_id, joined.leader, joined.members) == (first, first, {first: b"of the first"})
    assert await sync(conn, joined, {first: b"everything"}) == b"everything"
    await group_requests.heartbeat(conn, group=group, generation=joined.generation, member_id=first)
    assert [g for g in await group_requests.list_groups(conn) if g.group == group] == [
        group_requests.GroupListing(group, "drlib-test", "Stable")
    ]

    second = await new_member(other)
    joining = asyncio.create_task(join(other, second, b"of the second"))

    async def beat_until_refused() -> None:
        async with asyncio.timeout(10):
            while True:
                await group_requests.heartbeat(conn, group=group, generation=joined.generation, member_id=first)
                await asyncio.sleep(0.02)

    with pytest.raises(BrokerError) as caught:
        await beat_until_refused()
    assert caught.value.name == "REBALANCE_IN_PROGRESS"
    again, theirs = await asyncio.gather(join(conn, first, b"of the first"), joining)
    assert again.generation == theirs.generation == joined.generation + 1
    assert again.members == {first: b"of the first", second: b"of the second"}
    assert theirs.members == {}
    halves = {first: b"half", second: b"other half"}
    assert await asyncio.gather(sync(conn, again, halves), sync(other, theirs, {})) == [b"half", b"other half"]
    await group_requests.leave_group(conn, group=group, member_id=first)
    await group_requests.leave_group(other, group=group, member_id=second)

    def commit() -> None:
        admin = AdminClient({"bootstrap.servers": left})
        position = ConfluentPartition(topic, 0, 42, "note")
        (future,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [position])]).values()
        future.result(20)

    await asyncio.to_thread(commit)
    offset, _ = (await group_requests.offset_fetch(conn, group))[TopicPartition(topic, 0)]
    assert offset == 42
    assert await group_requests.offset_fetch(conn, f"absent-{group}") == {}


async def test_connections_are_kept_per_purpose_and_reopened(client: ClusterClient, make_topic: MakeTopic) -> None:
    _, conn = await leader(client, make_topic())
    node = next(iter(client.brokers))
    assert await client.connection(node) is conn
    fetching, sending = await asyncio.gather(client.connection(node, "fetch"), client.connection(node, "produce"))
    assert len({id(conn), id(fetching), id(sending)}) == 3
    await client.drop("fetch")
    assert fetching.is_lost
    assert not sending.is_lost
    assert not (await client.connection(node, "fetch")).is_lost


async def test_client_recovers_when_its_address_leads_to_the_right_cluster_again(left: str, right: str) -> None:
    """As behind a load balancer: a connection that is open stays where it leads."""
    link = Link("moves", free_ports(1)[0])
    await link.listen()
    async with connected(left) as own:
        meant = own.cluster_id
    client = ClusterClient([f"127.0.0.1:{link.port}"], timeout_s=5)
    client.expect(meant)
    link.target = int(right.rpartition(":")[2])
    for _ in range(2):
        with pytest.raises(WrongCluster, match=meant):
            await client.metadata([])
    assert client.stranger not in ("", meant)
    assert not client.brokers
    link.target = int(left.rpartition(":")[2])
    assert (await client.metadata([])).cluster_id == meant
    assert client.stranger == ""
    await client.close()
    await link.set_cut(True)


async def test_new_connection_to_another_cluster_is_refused_before_anything_is_asked_of_it(
    left: str, right: str
) -> None:
    """A broker's own address leads elsewhere, and so does the one that any broker is asked at."""
    link = Link("moves", free_ports(1)[0])
    await link.listen()
    link.target = int(left.rpartition(":")[2])
    client = ClusterClient([f"127.0.0.1:{link.port}"], timeout_s=5)
    metadata = await client.metadata([])
    (node,) = metadata.brokers
    moved = {node: Broker(node, "127.0.0.1", link.port)}
    client.brokers = dict(moved)
    link.target = int(right.rpartition(":")[2])
    with pytest.raises(WrongCluster, match=metadata.cluster_id):
        await client.connection(node, "fetch")
    assert client.stranger not in ("", metadata.cluster_id)
    link.reset()  # its seed, too
    with pytest.raises(WrongCluster, match=metadata.cluster_id):
        await client.coordinator("any", "transaction")
    assert client.brokers == moved
    link.target = int(left.rpartition(":")[2])
    assert not (await client.connection(node, "fetch")).is_lost
    assert client.stranger == ""
    assert await again(lambda: client.coordinator("any", "transaction")) == node
    await client.close()
    await link.set_cut(True)


@pytest.mark.long
async def test_killed_broker_fails_pending_requests_and_is_found_again(
    lab_factory: Callable[..., Any],
) -> None:
    lab = await asyncio.to_thread(lab_factory, ("ONE",))
    cluster = lab.clusters["ONE"]
    client = ClusterClient([cluster.bootstrap], timeout_s=5)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([NewTopic("t", 1, 1)]).values():
        future.result(30)
    topic_id, conn = await leader(client, "t")
    (result,) = await conn.produce("t", [(0, batch((-1, -1), -1, records=simple(0, 3)))])
    assert result.error_code == 0
    waiting = [
        requests.fetch_future(
            conn,
            [FetchPartition("t", topic_id, 0, 3, 1 << 20)],
            max_wait_ms=20_000,
            min_bytes=1,
            max_bytes=1 << 20,
            read_committed=False,
        )
        for _ in range(3)
    ]
    killed = time.monotonic()
    await asyncio.to_thread(cluster.kill)
    for future in waiting:
        with pytest.raises(ConnectionLost):
            await asyncio.wait_for(asyncio.shield(future), 10)
    assert time.monotonic() - killed < 5
    assert conn.is_lost
    await asyncio.to_thread(cluster.restart)
    again = ClusterClient([cluster.bootstrap], timeout_s=5)
    (answer, *_) = await fetch_all(again, "t")
    assert [r.key for _, view in iter_batches(answer.records) for r in records(view)] == [b"0", b"1", b"2"]
    await again.close()
    await client.close()
