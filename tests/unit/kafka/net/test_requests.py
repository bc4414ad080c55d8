"""Fetches by name, as brokers before Kafka 3.1 need them: only records of the topic that was meant are returned."""

from __future__ import annotations

import asyncio
import itertools
import struct
import uuid
from collections.abc import Mapping, Sequence

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from testbed_peer import Peer, answer, connected, listening

from drlib.errors import Unreachable
from drlib.kafka.net import requests
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import fetch as fetching
from drlib.kafka.protocol.error_codes import (
    INCONSISTENT_TOPIC_ID,
    LEADER_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from drlib.kafka.protocol.fetch import Fetched, FetchPartition, Proof
from drlib.kafka.topic_ids import NO_TOPIC_ID, made_id

OLD = {"Fetch": 12, "Metadata": 11}
IDS = {"a": uuid.UUID(int=1), "b": uuid.UUID(int=2)}
Described = Mapping[str, tuple[int, uuid.UUID]]


def old_broker(
    fetched: Mapping[str, tuple[int, bytes]],
    described: Described,
    seen: list[tuple[str, ...]],
    throttled: Sequence[int] = (),
) -> Peer:
    """Answers fetches with `fetched` (error code and records by topic) and metadata with `described`; notes both.

    The fetches of the numbers `throttled`, counted from 0, are over a quota.
    """
    count = itertools.count()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big")
            data = await reader.readexactly(size)
            key, version, correlation_id, client = struct.unpack_from(">hhih", data)
            body = data[10 + client + 1 :]
            assert version == {FetchRequest.API_KEY: 12, MetadataRequest.API_KEY: 11}[key]
            if key == FetchRequest.API_KEY:
                seen.append(("fetch", *(t.topic for t in FetchRequest[12].decode(body).topics)))
                topic = FetchResponse.FetchableTopicResponse
                topics = [
                    topic(
                        topic=name, partitions=[topic.PartitionData(error_code=code, high_watermark=9, records=records)]
                    )
                    for name, (code, records) in fetched.items()
                ]
                topics = [] if next(count) in throttled else topics
                response = FetchResponse[12](responses=topics, session_id=5)
            else:
                wanted = [t.name for t in MetadataRequest[11].decode(body).topics]
                seen.append(("metadata", *wanted))
                name = MetadataResponse.MetadataResponseTopic
                found = [name(name=n, error_code=described[n][0], topic_id=described[n][1]) for n in wanted]
                response = MetadataResponse[11](topics=found, brokers=[], cluster_id="c")
            writer.write(answer(correlation_id, bytes(response.encode())))

    return serve


async def fetch(
    connection: Connection,
    *names: str,
    session: tuple[int, int] = fetching.NO_SESSION,
    ids: Mapping[str, uuid.UUID] = IDS,
    proof: Proof | None = None,
) -> Fetched:
    """`proof`: of the first partition of topic a."""
    made = ids is not IDS
    connection.versions = {**OLD, "Fetch": 13} if made else OLD  # by name all the same where IDs were made
    return await requests.fetch_future(
        connection,
        [FetchPartition(name, ids[name], 0, 7, 1000) for name in names],
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        read_committed=True,
        session=session,
        in_session=ids,
        proof_of=lambda topic_id, number: proof if (topic_id, number) == (ids["a"], 0) else None,
    )


@pytest.mark.parametrize("session", [fetching.NO_SESSION, (5, 1)], ids=["full", "session"])
@pytest.mark.parametrize("code", [0, OFFSET_OUT_OF_RANGE])
@pytest.mark.parametrize(
    ("described", "expected"),
    [
        ((0, IDS["a"]), None),
        ((0, uuid.UUID(int=9)), INCONSISTENT_TOPIC_ID),
        ((UNKNOWN_TOPIC_OR_PARTITION, uuid.UUID(int=0)), UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=["same", "re-created", "deleted"],
)
async def test_fetch_by_name_returns_records_of_the_topic_that_was_meant_only(
    described: tuple[int, uuid.UUID], expected: int | None, code: int, session: tuple[int, int]
) -> None:
    peer = old_broker({"a": (code, b"records")}, {"a": described}, [])
    async with listening(peer) as port, connected(port) as connection:
        (found,) = (await fetch(connection, "a", session=session)).partitions
    assert found.topic_id == IDS["a"]
    assert found.error_code == (code if expected is None else expected)
    assert bytes(found.records) == (b"records" if expected is None else b"")
    assert found.high_watermark == (9 if expected is None else -1)


async def test_fetch_in_a_session_describes_topics_that_answered_with_something_only() -> None:
    seen: list[tuple[str, ...]] = []
    described = {name: (0, topic_id) for name, topic_id in IDS.items()}
    async with listening(old_broker({"a": (0, b""), "b": (0, b"x")}, described, seen)) as port, connected(port) as one:
        assert len((await fetch(one, "a", session=(5, 1))).partitions) == 2
    assert seen == [("fetch", "a"), ("metadata", "b")]
    seen.clear()
    async with listening(old_broker({"a": (0, b"")}, described, seen)) as port, connected(port) as one:
        await fetch(one, "a", session=(5, 1))
        await fetch(one, "a")
    assert seen == [("fetch", "a"), ("fetch", "a"), ("metadata", "a")]


@pytest.mark.parametrize("session", [fetching.NO_SESSION, (5, 1)], ids=["full", "session"])
@pytest.mark.parametrize(
    ("proof", "code", "expected"),
    [
        (Proof.of(3, memoryview(b"rec")), 0, 0),
        (Proof.of(3, memoryview(b"other")), 0, LEADER_NOT_AVAILABLE),
        (Proof.of(3, memoryview(b"rec")), OFFSET_OUT_OF_RANGE, LEADER_NOT_AVAILABLE),
        (Proof.of(3, memoryview(b"rec")), TOPIC_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED),
        (None, 0, 0),
        (None, OFFSET_OUT_OF_RANGE, OFFSET_OUT_OF_RANGE),
    ],
    ids=["held", "another log", "out of range in another log", "unauthorized", "nothing read", "nothing read, no log"],
)
async def test_fetch_of_a_topic_without_an_id_returns_records_of_a_log_that_has_what_was_read(
    proof: Proof | None, code: int, expected: int, session: tuple[int, int]
) -> None:
    seen: list[tuple[str, ...]] = []
    meant = {"a": made_id("c", "a", 1)}
    peer = old_broker({"a": (code, b"records")}, {"a": (0, NO_TOPIC_ID)}, seen)
    async with listening(peer) as port, connected(port) as connection:
        (found,) = (await fetch(connection, "a", session=session, ids=meant, proof=proof)).partitions
    assert (found.topic_id, found.error_code) == (meant["a"], expected)
    assert bytes(found.records) == (b"" if expected == LEADER_NOT_AVAILABLE else b"records")
    assert seen == [("fetch", "a"), ("metadata", "a"), *([("fetch", "a")] if proof is not None else [])]


async def test_fetch_of_a_topic_whose_id_the_broker_does_not_know_is_repeated() -> None:
    peer = old_broker({"a": (0, b"records")}, {"a": (0, NO_TOPIC_ID)}, [])
    real = uuid.uuid4()
    async with listening(peer) as port, connected(port) as connection:
        connection.versions = OLD
        wanted = [FetchPartition("a", real, 0, 7, 1000)]
        (found,) = await requests.fetch(
            connection, wanted, max_wait_ms=0, min_bytes=0, max_bytes=9, read_committed=True
        )
    assert (found.error_code, bytes(found.records)) == (LEADER_NOT_AVAILABLE, b"")


async def test_fetch_that_a_quota_left_unanswered_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    described = {name: (0, topic_id) for name, topic_id in IDS.items()}
    wanted = [FetchPartition("a", IDS["a"], 0, 7, 1000)]

    async def fetched(throttled: Sequence[int], found: Mapping[str, tuple[int, bytes]]) -> list[bytes]:
        async with listening(old_broker(found, described, [], throttled)) as port, connected(port) as connection:
            connection.versions = OLD
            found_of = await requests.fetch(
                connection, wanted, max_wait_ms=0, min_bytes=0, max_bytes=9, read_committed=True
            )
        return [bytes(each.records) for each in found_of]

    assert await fetched((0, 1), {"a": (0, b"records")}) == [b"records"]
    monkeypatch.setattr(requests, "THROTTLED_S", 0.05)
    with pytest.raises(Unreachable, match="answered 0 of 1 partitions"):
        await fetched((), {})


async def test_proof_that_a_quota_left_unanswered_refutes_nothing() -> None:
    meant = {"a": made_id("c", "a", 1)}
    peer = old_broker({"a": (0, b"records")}, {"a": (0, NO_TOPIC_ID)}, [], throttled=(1, 2))
    async with listening(peer) as port, connected(port) as connection:
        (found,) = (await fetch(connection, "a", ids=meant, proof=Proof.of(3, memoryview(b"rec")))).partitions
    assert (found.error_code, bytes(found.records)) == (0, b"records")
