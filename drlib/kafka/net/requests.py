"""Requests of the engine, each a coroutine over one connection with typed arguments and a typed answer.

Rules: an error code becomes a `BrokerError`, except where a caller must decide per partition (`fetch`,
`list_offsets_or_codes`). Nothing is retried, but for fetches that a broker left unanswered because of a quota. Every coroutine
raises `ConnectionLost` when the connection ends or its deadline passes.
Source: the message definitions of Kafka, in the versions of `drlib.kafka.net.api_versions`.
Longer than most modules: what proves a fetch by name is asked behind it, on its connection.
Not for: groups (`group_requests`), ACLs (`acl_requests`).
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from drlib.errors import Unreachable
from drlib.kafka import answers
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import fetch as fetching
from drlib.kafka.protocol.error_codes import (
    INCONSISTENT_TOPIC_ID,
    LEADER_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    OPERATION_NOT_ATTEMPTED,
    raise_for,
)
from drlib.kafka.protocol.fetch import Fetched, FetchedPartition, FetchPartition, Proof, TopicId
from drlib.kafka.topic_ids import is_made, may_be, reported
from drlib.model import TopicPartition

Isolation = Literal["read_uncommitted", "read_committed"]
_TOPIC_RESOURCE = 2  # Kafka's ConfigResource.Type
GROUP_RESOURCE = 32
EARLIEST, LATEST = -2, -1  # timestamps of ListOffsets that mean the log start and the log end
ProofOf = Callable[[TopicId, int], Proof | None]
"""By topic ID and partition: a batch that was read of its log."""

TIERED_WAIT_MS = 500
"""`fetch.max.wait.ms` of Kafka's consumer. Before Kafka 3.8 (KIP-1018) a broker gives up what it reads from tiered storage, and
answers nothing, when a request's own wait is over; with `min_bytes` 0 what is on its disk never waits."""
FETCH_GRACE_S = 30.0  # beyond the long poll: a disk or a link may be slow
THROTTLED_S = 60.0  # beyond the pause that the first such answer announces: a client that is alone is answered by then


@dataclass(frozen=True, slots=True)
class TransactionState:
    """`state` is Kafka's: Empty, Ongoing, PrepareAbort, CompleteAbort, ...; times in ms, -1 for none."""

    state: str
    producer_id: int
    epoch: int
    started_ms: int = -1
    timeout_ms: int = -1


@dataclass(frozen=True, slots=True)
class ProducerState:
    """The state of one producer at a partition's leader; -1 for none.

    `last_timestamp` in ms; `txn_start_offset` is where its open transaction begins in this partition; `coordinator_epoch` is
    that of the last marker that ended a transaction of it here.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    txn_start_offset: int = -1
    coordinator_epoch: int = -1

    @property
    def transactional(self) -> bool:
        """Does it write to the partition in transactions?"""
        return self.txn_start_offset >= 0 or self.coordinator_epoch >= 0


async def init_producer_id(conn: Connection, transactional_id: str | None, timeout_ms: int) -> tuple[int, int]:
    """Producer ID and epoch; with a transactional ID the previous holder's epoch + 1.

    An open transaction of the previous holder is aborted first: until then the answer is CONCURRENT_TRANSACTIONS.
    """
    answer = await conn.ask(
        InitProducerIdRequest,
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
    )
    raise_for(answer.error_code, f"getting a producer ID for {transactional_id or 'an idempotent producer'}")
    return answer.producer_id, answer.producer_epoch


async def add_partitions_to_txn(
    conn: Connection, transactional_id: str, producer_id: int, epoch: int, partitions: Mapping[str, Sequence[int]]
) -> None:
    """Add partitions (topic -> numbers) to the transaction. Raises `BrokerError` when any of them failed."""
    topic_class = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    answer = await conn.ask(
        AddPartitionsToTxnRequest,
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[topic_class(name=t, partitions=list(p)) for t, p in partitions.items()],
    )
    failed = [
        (p.partition_error_code, f"{t.name}-{p.partition_index}")
        for t in answer.results_by_topic_v3_and_below
        for p in t.results_by_partition
        if p.partition_error_code
    ]
    # OPERATION_NOT_ATTEMPTED only says that another partition of the same request failed; the cause is the one to raise.
    for code, partition in sorted(failed, key=lambda f: f[0] == OPERATION_NOT_ATTEMPTED)[:1]:
        alike = [name.rpartition("-")[0] for other, name in failed if other == code]
        raise_for(code, f"adding {partition} to transaction {transactional_id}", topics=alike)


async def end_txn_abort(conn: Connection, transactional_id: str, producer_id: int, epoch: int) -> None:
    """Abort the transaction; the answer comes before the markers are written. The epoch is kept (EndTxn below v5)."""
    answer = await conn.ask(
        EndTxnRequest, transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=False
    )
    raise_for(answer.error_code, f"aborting transaction {transactional_id}")


async def describe_transaction(conn: Connection, transactional_id: str) -> TransactionState:
    """The coordinator's view of a transactional ID."""
    answer = await conn.ask(DescribeTransactionsRequest, transactional_ids=[transactional_id])
    (state,) = answer.transaction_states
    raise_for(state.error_code, f"describing transaction {transactional_id}")
    return TransactionState(
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_start_time_ms,
        state.transaction_timeout_ms,
    )


async def list_transactional_ids(conn: Connection, producer_id: int) -> list[str]:
    """The transactional IDs of a producer ID that this broker coordinates; ask every broker (KIP-664)."""
    answer = await conn.ask(ListTransactionsRequest, state_filters=[], producer_id_filters=[producer_id])
    raise_for(answer.error_code, f"listing the transactions of {conn.peer}")
    return [t.transactional_id for t in answer.transaction_states]


async def transactional_ids(conn: Connection) -> dict[int, str]:
    """Every transactional ID that this broker coordinates, by producer ID; ask every broker (KIP-664)."""
    answer = await conn.ask(ListTransactionsRequest, state_filters=[], producer_id_filters=[])
    raise_for(answer.error_code, f"listing the transactions of {conn.peer}")
    return {t.producer_id: t.transactional_id for t in answer.transaction_states}


async def describe_producers(
    conn: Connection, partitions: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, list[ProducerState]]:
    """The producers known to each partition's leader. The connection must be to that leader."""
    topic_class = DescribeProducersRequest.TopicRequest
    answer = await conn.ask(
        DescribeProducersRequest, topics=[topic_class(name=t, partition_indexes=list(p)) for t, p in partitions.items()]
    )
    producers: dict[TopicPartition, list[ProducerState]] = {}
    for topic in answer.topics:
        for p in topic.partitions:
            partition = TopicPartition(topic.name, p.partition_index)
            raise_for(p.error_code, f"describing the producers of {partition}", p.error_message, topics=[topic.name])
            producers[partition] = [
                ProducerState(
                    a.producer_id,
                    a.producer_epoch,
                    a.last_sequence,
                    a.last_timestamp,
                    a.current_txn_start_offset,
                    a.coordinator_epoch,
                )
                for a in p.active_producers
            ]
    return producers


async def list_offsets(
    conn: Connection,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    isolation: Isolation = "read_uncommitted",
) -> dict[TopicPartition, int]:
    """The offsets of `list_offset_epochs`."""
    return {p: offset for p, (offset, _) in (await list_offset_epochs(conn, partitions, timestamp, isolation)).items()}


async def list_offset_epochs(
    conn: Connection,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    isolation: Isolation = "read_uncommitted",
) -> dict[TopicPartition, tuple[int, int]]:
    """Offset and leader epoch per partition: the log end for `LATEST`, with the leader's own epoch, the log start for
    `EARLIEST`, else the first record from `timestamp` on.

    `timestamp` in ms. read_committed makes the log end the last stable offset. The connection must be to the leaders. An
    offset of -1 means that there is no such record.
    """
    offsets, refused = await list_offsets_or_codes(conn, partitions, timestamp, isolation)
    for partition, code in refused.items():
        raise_for(code, f"listing the offsets of {partition}", topics=[partition.topic])
    return offsets


async def list_offsets_or_codes(
    conn: Connection,
    partitions: Iterable[TopicPartition],
    timestamp: int,
    isolation: Isolation = "read_uncommitted",
) -> tuple[dict[TopicPartition, tuple[int, int]], dict[TopicPartition, int]]:
    """As `list_offset_epochs`, and the error codes of the partitions that the broker refuses."""
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    partition_class = topic_class.ListOffsetsPartition
    topics: dict[str, list[Any]] = {}
    for p in partitions:
        asked = partition_class(partition_index=p.partition, current_leader_epoch=-1, timestamp=timestamp)
        topics.setdefault(p.topic, []).append(asked)
    answer = await conn.ask(
        ListOffsetsRequest,
        replica_id=-1,
        isolation_level=1 if isolation == "read_committed" else 0,
        topics=[topic_class(name=t, partitions=p) for t, p in topics.items()],
    )
    offsets: dict[TopicPartition, tuple[int, int]] = {}
    refused: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for p in topic.partitions:
            partition = TopicPartition(topic.name, p.partition_index)
            if p.error_code:
                refused[partition] = p.error_code
            else:
                offsets[partition] = p.offset, p.leader_epoch
    return offsets, refused


async def topic_config(conn: Connection, topics: Sequence[str], name: str) -> dict[str, str]:
    """The value of one topic setting for each of `topics` that drlib may describe; the others are left out."""
    return await config_values(conn, _TOPIC_RESOURCE, topics, name)


async def config_values(conn: Connection, kind: int, names: Iterable[str], key: str) -> dict[str, str]:
    """The value of one setting for each of the resources `names` that drlib may describe; the others are left out."""
    found = await all_config_values(conn, kind, names, [key])
    return {name: values[key] for name, values in found.items() if key in values}


async def all_config_values(
    conn: Connection, kind: int, names: Iterable[str], keys: Sequence[str] | None = None
) -> dict[str, dict[str, str]]:
    """The settings that have a value, those of `keys` or all, of each of the resources that drlib may describe."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [resource(resource_type=kind, resource_name=name, configuration_keys=keys) for name in names]
    answer = await conn.ask(
        DescribeConfigsRequest, resources=wanted, include_synonyms=False, include_documentation=False
    )
    return {
        r.resource_name: {
            c.name: c.value for c in r.configs if c.value is not None and (keys is None or c.name in keys)
        }
        for r in answer.results
        if not r.error_code
    }


def topics_question(version: int, topics: Iterable[str] | None) -> bytes:
    """The body of a metadata request for `topics`; None for all."""
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=t) for t in topics]
    return bytes(MetadataRequest[version](topics=wanted, allow_auto_topic_creation=False).encode())


def fetch_future(
    conn: Connection,
    partitions: Iterable[FetchPartition],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    read_committed: bool,
    session: tuple[int, int] = fetching.NO_SESSION,
    forgotten: Iterable[tuple[str, TopicId, int]] = (),
    in_session: Mapping[str, TopicId] = fetching.NO_IDS,
    rack: str = "",
    by_name: bool = False,
    proof_of: ProofOf = lambda _, __: None,
) -> asyncio.Future[Fetched]:
    """Send a fetch request without waiting. In a session (KIP-227) request and answer name only what changed; `in_session`:
    every topic of it, with its ID. With a `rack` a leader may name a replica there instead of returning records (KIP-392).

    Before Kafka 3.1, with `by_name`, and for an ID that was made here, a request names topics, not their IDs: then a partition
    of another topic of that name has the error INCONSISTENT_TOPIC_ID and no records, as a request by ID would have. Where the
    broker reports no ID, the log must still have the batch of `proof_of`: else the error is LEADER_NOT_AVAILABLE.
    """
    version, partitions = conn.version("Fetch"), tuple(partitions)
    if by_name or any(is_made(p.topic_id) for p in partitions):
        version = min(version, fetching.BY_ID - 1)
    body = fetching.encode(
        version,
        partitions,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        read_committed=read_committed,
        session=session,
        forgotten=forgotten,
        rack=rack,
    )
    by_name = version < fetching.BY_ID
    ids = {**in_session, **{p.topic: p.topic_id for p in partitions}} if by_name else fetching.NO_IDS
    wait_s = max_wait_ms / 1000
    answer = _submit(conn, version, body, ids, wait_s)
    if not by_name:
        return answer
    # Behind a full request at once; of a session, whose topics may be thousands, those that answer with something.
    full = session == fetching.NO_SESSION
    asked = [(p.topic, p.topic_id, p.partition) for p in partitions]
    behind = _Behind.of(conn, asked, proof_of, behind_s=wait_s) if full else None
    checked = asyncio.ensure_future(_of_the_topics_meant(conn, answer, ids, behind, proof_of))
    checked.add_done_callback(_retrieve)
    return checked


def _submit(
    conn: Connection, version: int, body: bytes, ids: Mapping[str, TopicId], wait_s: float
) -> asyncio.Future[Fetched]:
    """Send a fetch request that the broker may let wait for `wait_s`."""
    return conn.submit(
        fetching.API_KEY,
        version,
        [body],
        lambda view: fetching.decode(version, view, ids),
        timeout_s=wait_s + FETCH_GRACE_S,
        broker_wait_s=wait_s,
        throttle_at=fetching.THROTTLE_AT,
        flexible=version >= fetching.FLEXIBLE,
    )


def _describe(
    conn: Connection, topics: Iterable[str], *, behind_s: float = 0.0
) -> asyncio.Future[dict[str, tuple[int, TopicId]]]:
    """Error code and ID of each of `topics` at this broker; `behind_s`: how long the request before it may wait there."""
    version = conn.version("Metadata")

    def read(view: memoryview) -> dict[str, tuple[int, TopicId]]:
        answer = answers.decode(MetadataResponse, version, bytes(view))
        return {t.name: (t.error_code, reported(t.name, t.topic_id)) for t in answer.topics}

    question = topics_question(version, sorted(topics))
    return conn.submit(
        MetadataRequest.API_KEY, version, [question], read, timeout_s=behind_s + FETCH_GRACE_S, broker_wait_s=behind_s
    )


@dataclass(frozen=True, slots=True)
class _Behind:
    """What is asked behind a fetch by name: the IDs of its topics, and the batches that prove its logs."""

    described: asyncio.Future[dict[str, tuple[int, TopicId]]]
    proofs: Mapping[tuple[TopicId, int], Proof]
    found: asyncio.Future[Fetched] | None

    @classmethod
    def of(
        cls,
        conn: Connection,
        partitions: Iterable[tuple[str, TopicId, int]],
        proof_of: ProofOf,
        *,
        behind_s: float = 0.0,
    ) -> "_Behind":
        named = {(topic_id, number): topic for topic, topic_id, number in partitions}
        proofs = {key: proof for key in named if (proof := proof_of(*key)) is not None}
        described = _describe(conn, set(named.values()), behind_s=behind_s)
        described.add_done_callback(_retrieve)
        found = None
        if proofs:
            found = _answered(conn, partial(_fetch_proofs, conn, named, proofs, behind_s), len(proofs))
            found.add_done_callback(_retrieve)
        return cls(described, proofs, found)

    async def refuted(self) -> set[tuple[TopicId, int]]:
        """The partitions whose logs do not have the batch that was read of them."""
        if self.found is None:
            return set()
        answer = await self.found
        held = {
            key
            for p in answer.partitions
            if not p.error_code
            and (proof := self.proofs.get(key := (p.topic_id, p.partition))) is not None
            and proof.holds(p.records)
        }
        return self.proofs.keys() - held


def _fetch_proofs(
    conn: Connection,
    named: Mapping[tuple[TopicId, int], str],
    proofs: Mapping[tuple[TopicId, int], Proof],
    behind_s: float,
) -> asyncio.Future[Fetched]:
    """The batches of `proofs` as the logs have them now."""
    version = min(conn.version("Fetch"), fetching.BY_ID - 1)
    wanted = [FetchPartition(named[key], *key, proof.offset, proof.size) for key, proof in proofs.items()]
    body = fetching.encode(
        version,
        wanted,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=sum(proof.size for proof in proofs.values()),
        read_committed=False,
    )
    return _submit(conn, version, body, {p.topic: p.topic_id for p in wanted}, behind_s)


async def _of_the_topics_meant(
    conn: Connection,
    fetched: asyncio.Future[Fetched],
    ids: Mapping[str, TopicId],
    behind: _Behind | None,
    proof_of: ProofOf,
) -> Fetched:
    """What was fetched by name, checked against what the same broker says of the topics afterwards.

    A connection's requests are processed in order, and a broker forgets a topic's ID before the log of its successor exists:
    an ID that is still the one that was meant proves that the records are of that topic. So does, of a topic without an ID, a
    batch that was read before and that its log still has.
    Source: Kafka's `TopicDeletionManager.onTopicDeletion`, `MetadataCache.updateMetadata` (2.8).
    """
    answer = await fetched
    names = {topic_id: name for name, topic_id in ids.items()}
    if behind is None:
        telling = [
            (names[p.topic_id], p.topic_id, p.partition)
            for p in answer.partitions
            if p.error_code or p.diverging_epoch or len(p.records)
        ]
        if not telling:
            return answer
        behind = _Behind.of(conn, telling, proof_of)
    current, refuted = await behind.described, await behind.refuted()
    checked = []
    for partition in answer.partitions:
        code, topic_id = current.get(names[partition.topic_id], (0, partition.topic_id))
        if not code and not may_be(topic_id, partition.topic_id):
            code = INCONSISTENT_TOPIC_ID
        elif not code and is_made(topic_id):
            key = (partition.topic_id, partition.partition)
            unproven = key in refuted or (not is_made(partition.topic_id) and key not in behind.proofs)
            code = LEADER_NOT_AVAILABLE if unproven and partition.error_code in (0, OFFSET_OUT_OF_RANGE) else 0
        checked.append(fetching.other_topic(partition, code) if code else partition)
    return replace(answer, partitions=checked)


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Marks the error of a request that is not awaited any more as seen."""
    if not future.cancelled():
        future.exception()


async def fetch(
    conn: Connection,
    partitions: Iterable[FetchPartition],
    *,
    max_wait_ms: int = TIERED_WAIT_MS,
    min_bytes: int,
    max_bytes: int,
    read_committed: bool,
) -> list[FetchedPartition]:
    """Fetch from partitions this broker leads: an answer for each. Check the error code of each partition first.

    The broker returns at least the first batch whole, even when it is larger than `max_bytes`. Partitions without new
    records are returned with empty records. A broker whose quota the user has used up answers with no partition at all, which
    says nothing of their logs (`FetchContext.getThrottledResponse`): it is asked again, and reads no request before its
    pause is over. Raises `Unreachable` where that lasts for `THROTTLED_S` after the first pause.
    """
    wanted = tuple(partitions)
    ask = partial(
        fetch_future,
        conn,
        wanted,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        read_committed=read_committed,
    )
    answer = await _answered(conn, ask, len(wanted))
    raise_for(answer.error_code, f"fetching from {conn.peer}")
    if len(answer.partitions) < len(wanted):
        raise Unreachable(
            f"fetching from {conn.peer} returned nothing",
            f"it answered {len(answer.partitions)} of {len(wanted)} partitions for {THROTTLED_S:g} s, as where a quota of "
            "the user is used up",
            "Raise the quotas consumer_byte_rate and request_percentage of drlib's user, then run the command again.",
        )
    return answer.partitions


def _answered(conn: Connection, ask: Callable[[], asyncio.Future[Fetched]], partitions: int) -> asyncio.Future[Fetched]:
    """`ask` now, and again while a quota leaves some of the `partitions` out, at most `THROTTLED_S` beyond the first pause."""

    async def again(asked: asyncio.Future[Fetched]) -> Fetched:
        answer = await asked
        until = time.monotonic() + conn.unread_s + THROTTLED_S
        while len(answer.partitions) < partitions and not answer.error_code and time.monotonic() < until:
            answer = await ask()
        return answer

    return asyncio.ensure_future(again(ask()))
