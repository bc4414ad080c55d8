"""The requests encoded by hand against kafka-python's own classes for them, and broker codes as errors."""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from drlib.kafka.protocol import fetch as fetching
from drlib.kafka.protocol import produce
from drlib.kafka.protocol.batch import OutgoingBatch
from drlib.kafka.protocol.error_codes import AUTHORIZATION, FENCED, REFUSED, RETRIABLE, BrokerError, name_of, raise_for
from drlib.kafka.protocol.fetch import DivergingEpoch, FetchedPartition, FetchPartition, Proof
from drlib.kafka.protocol.flexible import Reader, uvarint
from drlib.kafka.protocol.produce import ProduceResult

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text("abcdefghijklmnop.é-", min_size=1, max_size=200)


def int32_of(number: int) -> bytes:
    return number.to_bytes(4, "big")


bodies = st.builds(
    lambda head, body: OutgoingBatch(head, memoryview(body), 1, len(head) + len(body)),
    st.binary(min_size=61, max_size=61),
    st.binary(max_size=300),
)


@given(st.dictionaries(names, st.lists(st.tuples(int32, bodies), min_size=1, max_size=4), min_size=1, max_size=4))
def test_produce_encode_matches_kafka_python(topics: dict[str, list[tuple[int, OutgoingBatch]]]) -> None:
    ours = b"".join(produce.encode(topics, 12_345))
    read = ProduceRequest[produce.VERSION].decode(ours)
    assert (read.transactional_id, read.acks, read.timeout_ms) == (None, -1, 12_345)
    assert {t.name: [(p.index, p.records) for p in t.partition_data] for t in read.topic_data} == {
        topic: [(n, b.head + bytes(b.body)) for n, b in batches] for topic, batches in topics.items()
    }
    assert read.encode() == ours


results = st.builds(
    ProduceResult,
    topic=names,
    partition=int32,
    error_code=int16,
    base_offset=int64,
    error_message=st.none() | st.text(min_size=1, max_size=20),
)


@given(st.lists(results, max_size=5))
def test_produce_decode_matches_kafka_python(wanted: list[ProduceResult]) -> None:
    topic = ProduceResponse.TopicProduceResponse
    partition = topic.PartitionProduceResponse
    answer = ProduceResponse[produce.VERSION](
        responses=[
            topic(
                name=r.topic,
                partition_responses=[
                    partition(
                        index=r.partition,
                        error_code=r.error_code,
                        base_offset=r.base_offset,
                        log_append_time_ms=-1,
                        log_start_offset=0,
                        record_errors=[],
                        error_message=r.error_message,
                    )
                ],
            )
            for r in wanted
        ],
        throttle_time_ms=7,
    ).encode()
    assert produce.decode(memoryview(answer)) == wanted
    assert bytes(answer)[produce.THROTTLE_AT :] == int32_of(7) + b"\0", "the last field, behind it no tag"


def test_produce_decode_uses_the_message_of_a_refused_record() -> None:
    topic = ProduceResponse.TopicProduceResponse
    partition = topic.PartitionProduceResponse
    error = partition.BatchIndexAndErrorMessage(batch_index=3, batch_index_error_message="no key")
    answer = ProduceResponse[produce.VERSION](
        responses=[
            topic(
                name="t",
                partition_responses=[
                    partition(index=0, error_code=87, base_offset=-1, record_errors=[error], error_message=None)
                ],
            )
        ],
        throttle_time_ms=0,
    ).encode()
    assert produce.decode(memoryview(answer)) == [ProduceResult("t", 0, 87, -1, "no key")]


IDS = {"seven": uuid.UUID(int=7), "eight-é": uuid.UUID(int=8)}
VERSIONS = [11, 12, 13]
asked = st.builds(
    lambda topic, **rest: FetchPartition(topic, IDS[topic], **rest),
    topic=st.sampled_from(sorted(IDS)),
    partition=int32,
    offset=int64,
    max_bytes=int32,
    last_fetched_epoch=int32,
    leader_epoch=int32,
)


forgotten = st.builds(lambda topic, number: (topic, IDS[topic], number), st.sampled_from(sorted(IDS)), int32)


@given(
    st.sampled_from(VERSIONS),
    st.lists(asked, max_size=6),
    int32,
    int32,
    int32,
    st.booleans(),
    st.tuples(int32, int32),
    st.lists(forgotten, max_size=4),
    st.sampled_from([None, "", "r", "eu-1ä" * 40]),
)
def test_fetch_encode_matches_kafka_python(
    version: int,
    wanted: list[FetchPartition],
    max_wait: int,
    least: int,
    most: int,
    committed: bool,
    session: tuple[int, int],
    left: list[tuple[str, uuid.UUID, int]],
    rack: str | None,
) -> None:
    ours = fetching.encode(
        version,
        wanted,
        max_wait_ms=max_wait,
        min_bytes=least,
        max_bytes=most,
        read_committed=committed,
        session=session,
        forgotten=left,
        **({} if rack is None else {"rack": rack}),
    )
    read = FetchRequest[version].decode(ours)
    ids = {key: (name, topic_id) for name, topic_id in IDS.items() for key in (name, topic_id)}
    assert (read.max_wait_ms, read.min_bytes, read.max_bytes) == (max_wait, least, most)
    assert (read.replica_id, read.isolation_level, read.session_id, read.session_epoch) == (
        -1,
        int(committed),
        *session,
    )
    assert sorted(
        (*ids[t.topic_id if version >= fetching.BY_ID else t.topic], p)
        for t in read.forgotten_topics_data
        for p in t.partitions
    ) == sorted(left)
    assert read.rack_id == (rack or "")
    assert all(p.log_start_offset == -1 for t in read.topics for p in t.partitions)  # a consumer has no log
    found = [
        FetchPartition(
            *ids[t.topic_id if version >= fetching.BY_ID else t.topic],
            p.partition,
            p.fetch_offset,
            p.partition_max_bytes,
            p.last_fetched_epoch,  # v11 has none
            p.current_leader_epoch,
        )
        for t in read.topics
        for p in t.partitions
    ]
    if version < fetching.FLEXIBLE:
        wanted = [replace(p, last_fetched_epoch=-1) for p in wanted]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert read.encode() == ours


def test_fetch_asks_for_no_check_of_epochs_unless_they_are_given() -> None:
    asked = FetchPartition("seven", IDS["seven"], 3, 100, 1000)
    ours = fetching.encode(13, [asked], max_wait_ms=0, min_bytes=0, max_bytes=1000, read_committed=True)
    read = FetchRequest[13].decode(ours).topics[0].partitions[0]
    assert (read.last_fetched_epoch, read.current_leader_epoch) == (-1, -1)


fetched = st.builds(
    FetchedPartition,
    topic_id=st.sampled_from(sorted(IDS.values())),
    partition=int32,
    error_code=int16,
    high_watermark=int64,
    last_stable_offset=int64,
    log_start_offset=int64,
    aborted=st.lists(st.tuples(int64, int64), max_size=3).map(tuple),
    diverging_epoch=st.none() | st.builds(DivergingEpoch, int32, int64),
    current_leader=st.integers(-1, 9),
    preferred_read_replica=int32,
    records=st.binary(max_size=50).map(memoryview),
)


def fetch_response(wanted: list[FetchedPartition], code: int, version: int = fetching.BY_ID) -> bytes:
    names = {topic_id: name for name, topic_id in IDS.items()}
    topic = FetchResponse.FetchableTopicResponse
    data = topic.PartitionData
    topics = []
    for w in wanted:
        tagged = {}
        if w.current_leader >= 0:
            tagged["current_leader"] = data.LeaderIdAndEpoch(leader_id=w.current_leader, leader_epoch=1)
        if w.diverging_epoch is not None:
            tagged["diverging_epoch"] = data.EpochEndOffset(
                epoch=w.diverging_epoch.epoch, end_offset=w.diverging_epoch.end_offset
            )
        partition = data(
            partition_index=w.partition,
            error_code=w.error_code,
            high_watermark=w.high_watermark,
            last_stable_offset=w.last_stable_offset,
            log_start_offset=w.log_start_offset,
            aborted_transactions=[data.AbortedTransaction(producer_id=p, first_offset=o) for p, o in w.aborted],
            preferred_read_replica=w.preferred_read_replica,
            records=bytes(w.records),
            **tagged,
        )
        topics.append(topic(topic=names[w.topic_id], topic_id=w.topic_id, partitions=[partition]))
    return bytes(FetchResponse[version](error_code=code, responses=topics, throttle_time_ms=3).encode())


@given(st.lists(fetched, max_size=4), int16, st.sampled_from(VERSIONS))
def test_fetch_decode_matches_kafka_python(wanted: list[FetchedPartition], code: int, version: int) -> None:
    response = fetch_response(wanted, code, version)
    assert response[fetching.THROTTLE_AT :].startswith(int32_of(3)), "the first field"
    found = fetching.decode(version, memoryview(response), IDS)
    if version < fetching.FLEXIBLE:  # it has no tagged fields
        wanted = [replace(p, diverging_epoch=None, current_leader=-1) for p in wanted]
    assert (found.error_code, found.partitions) == (code, wanted)


def test_fetch_decode_returns_views_of_the_frame() -> None:
    one = FetchedPartition(uuid.UUID(int=7), 0, 0, 1, 1, 0, (), None, 1, -1, memoryview(b"records of some length"))
    frame = bytearray(fetch_response([one], 0))
    (found,) = fetching.decode(fetching.BY_ID, memoryview(frame)).partitions
    frame[frame.index(b"records of")] = ord("R")
    assert bytes(found.records[:10]) == b"Records of"


def test_fetch_decode_topic_that_was_not_requested_is_refused() -> None:
    one = FetchedPartition(uuid.UUID(int=7), 0, 0, 1, 1, 0, (), None, 1, -1, memoryview(b""))
    with pytest.raises(ValueError, match="'seven' was not requested"):
        fetching.decode(12, memoryview(fetch_response([one], 0, 12)), {"eight-é": uuid.UUID(int=8)})


def test_answer_of_another_topic_says_nothing_but_why() -> None:
    topic_id = uuid.UUID(int=7)
    given = FetchedPartition(topic_id, 3, 0, 9, 8, 2, ((5, 4),), DivergingEpoch(1, 6), 1, 2, memoryview(b"records"))
    nothing = FetchedPartition(topic_id, 3, 100, -1, -1, -1, (), None, -1, -1, memoryview(b""))
    assert fetching.other_topic(given, 100) == nothing


def test_proof_holds_where_records_begin_with_the_batch_that_was_read() -> None:
    proof = Proof.of(7, memoryview(b"a batch"))
    assert proof == Proof(7, 7, proof.checksum)
    assert proof.holds(memoryview(b"a batch, and others"))
    assert proof.holds(memoryview(b"a batch"))
    assert not proof.holds(memoryview(b"a match, and others"))
    assert not proof.holds(memoryview(b"a bat"))
    assert not proof.holds(memoryview(b""))


@given(st.binary(max_size=120), st.sampled_from([None, *VERSIONS]))
def test_decode_garbage_raises_value_error(data: bytes, version: int | None) -> None:
    with contextlib.suppress(ValueError):
        if version is None:
            produce.decode(memoryview(data))
        else:
            fetching.decode(version, memoryview(data), IDS)


@given(st.integers(0, 2**32 - 1))
def test_uvarint_round_trip(value: int) -> None:
    assert Reader(memoryview(uvarint(value))).uvarint() == value


def test_reader_array_longer_than_the_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="array of 999999"):
        Reader(memoryview(uvarint(1_000_000) + b"abc")).array()


def test_broker_error_has_kafkas_name_and_a_remedy() -> None:
    error = BrokerError(47, "producing to orders-0")
    assert (error.code, error.name, error.retriable) == (47, "INVALID_PRODUCER_EPOCH", False)
    assert str(error) == (
        "producing to orders-0 failed: the broker answered INVALID_PRODUCER_EPOCH (47), Producer attempted to produce"
        " with an old epoch. Nothing to do: another worker holds the newer claim."
    )
    assert BrokerError(6, "fetching").retriable
    assert BrokerError(4711, "fetching").name == "UNKNOWN_CODE_4711"
    assert "no key" in str(BrokerError(87, "producing", "no key"))
    raise_for(0, "nothing")
    with pytest.raises(BrokerError, match="doctor FILE --rights"):
        raise_for(29, "fetching")


def test_error_code_sets_do_not_overlap_and_have_names() -> None:
    sets = [FENCED, REFUSED, AUTHORIZATION, RETRIABLE]
    together = [code for codes in sets for code in codes]
    assert len(together) == len(set(together))
    assert not [code for code in together if name_of(code).startswith("UNKNOWN_CODE")]
    assert {name_of(c) for c in FENCED} == {
        "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "PRODUCER_FENCED"
    }  # fmt: skip
