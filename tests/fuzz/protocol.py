"""Decoders of what brokers and token endpoints send and of what topics hold, in a form that takes bytes."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, cast
from uuid import UUID

from kafka.protocol.admin import (
    DescribeAclsResponse,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    DescribeProducersResponse,
    DescribeQuorumResponse,
    DescribeTransactionsResponse,
    ListGroupsResponse,
    ListTransactionsResponse,
)
from kafka.protocol.consumer import (
    JoinGroupResponse,
    ListOffsetsResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
)
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import AddPartitionsToTxnResponse, InitProducerIdResponse
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from drlib.client import pointer_topic
from drlib.client.history import entries as history
from drlib.client.pointer import Pointer
from drlib.client.pointer import decode as decode_pointer
from drlib.config.replication_policy import DefaultReplicationPolicy
from drlib.decoding import json_value
from drlib.drill.plan import lease_record
from drlib.errors import UsageError
from drlib.kafka import answers
from drlib.kafka.admin.descriptions import Record
from drlib.kafka.net import cluster_client, listener_probe, sasl
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import batch as batches
from drlib.kafka.protocol import fetch, merge_batches, produce
from drlib.kafka.protocol.aborted_transactions import AbortedFilter
from drlib.kafka.protocol.validate import sound_batches
from drlib.kafka.security import oauth
from drlib.kafka.security.credentials import ClientCredentials
from drlib.kafka.share_groups import members, messages
from drlib.kafka.share_groups.state import ShareState, StateLog
from drlib.mirror.journal import entries
from drlib.mirror.journal.renamed import identified, renamed
from drlib.mirror.mm2 import connect_offsets
from drlib.mirror.mm2.writer import AS_OF_HEADER, POSITION_HEADER, TOPICS_HEADER
from drlib.mirror.offsets.map.fold_claims import valid_entries
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.translation.translate_groups import last_known
from drlib.mirror.offsets.unreplicated import ledger
from drlib.mirror.preflight import failed_over
from drlib.mirror.share_groups.known import decoded, encoded
from drlib.mirror.sync.rules.gone_positions import checkpointed
from drlib.model import Flow, TopicPartition
from drlib.outgoing import http_request
from fuzz import samples
from fuzz.mutate import Case

FLOW: Final = Flow("LEFT", "RIGHT")
_PRODUCER: Final[dict[str, int]] = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}

# -- batches -----------------------------------------------------------------------------------------------------------


def control_type(data: bytes) -> object:
    view = memoryview(data)
    kept = AbortedFilter([(9, 0)])
    for header, batch in batches.iter_batches(view):
        kept.keep(header, batch)
        if header.is_control:
            batches.control_type(batch)
    return None


def sound(data: bytes) -> object:
    return [
        batches.rewrite(view, header, **_PRODUCER)
        for header, view in sound_batches(memoryview(data), 0, 10)
        if header.magic == 2
    ]


def merge(data: bytes) -> object:
    found = [(header, view) for header, view in batches.iter_batches(data) if merge_batches.can_merge(header)]
    return merge_batches.merge(found, **_PRODUCER) if found else None


def merge_singles(data: bytes) -> object:
    view = memoryview(data)
    at = merge_batches.skip_to(view, 0)
    if at < 0:
        return None
    return merge_batches.merge_single_records(view, at, 0, end=1 << 40, most_bytes=1 << 20, **_PRODUCER)


# -- requests and responses --------------------------------------------------------------------------------------------

_ID: Final = UUID(int=7)


def _fetched(version: int, records: bytes) -> bytes:
    head = struct.pack(">ihi", 0, 0, 0)
    partition = struct.pack(">ihqqq", 0, 0, 100, 100, 0)
    if version < fetch.FLEXIBLE:
        body = struct.pack(">i", 1) + struct.pack(">h", 1) + b"t" + struct.pack(">i", 1) + partition
        return head + body + struct.pack(">iqqi", 1, 9, 5, -1) + struct.pack(">i", len(records)) + records
    topic = _ID.bytes if version >= fetch.BY_ID else b"\2t"
    aborted = b"\2" + struct.pack(">qq", 9, 5) + b"\0" + struct.pack(">i", -1)
    size = len(records) + 1
    data = bytes([size & 0x7F | 0x80, size >> 7]) + records
    return head + b"\2" + topic + b"\2" + partition + aborted + data + b"\1\0\14" + bytes(12) + b"\0\0"


FETCHED: Final[tuple[Case, ...]] = tuple(
    (bytes([version]), _fetched(version, samples.PLAIN_BATCHES[0][0])) for version in (11, 12, 13)
)


def fetch_decode(version: bytes, view: bytes) -> object:
    number = 11 + (version[0] if version else 0) % 3
    return fetch.decode(number, memoryview(view), {"t": _ID})


PRODUCED: Final[tuple[Case, ...]] = (
    (b"\2\2t\2" + struct.pack(">ihqqq", 0, 0, 5, -1, 0) + b"\2\0\0\0\0\2x\0\2m\0\0" + bytes(4) + b"\0",),
)


def produce_decode(view: bytes) -> object:
    return produce.decode(memoryview(view))


_RESPONSES: Final = (
    (ApiVersionsResponse, 0), (MetadataResponse, 9), (MetadataResponse, 12), (FindCoordinatorResponse, 4),
    (ListOffsetsResponse, 7), (OffsetCommitResponse, 8), (OffsetFetchResponse, 6), (OffsetFetchResponse, 8),
    (OffsetDeleteResponse, 0), (JoinGroupResponse, 7), (SyncGroupResponse, 5), (DescribeGroupsResponse, 5),
    (ListGroupsResponse, 4), (InitProducerIdResponse, 4), (AddPartitionsToTxnResponse, 3), (DescribeAclsResponse, 2),
    (DescribeConfigsResponse, 4), (DescribeQuorumResponse, 1), (DescribeClusterResponse, 0),
    (DescribeProducersResponse, 0), (DescribeTransactionsResponse, 0), (ListTransactionsResponse, 0),
    (SaslAuthenticateResponse, 2), (SaslHandshakeResponse, 1),
)  # fmt: skip
RESPONSES: Final[tuple[Case, ...]] = tuple(
    case
    for number, (kind, version) in enumerate(_RESPONSES)
    for case in (
        (bytes([number]), bytes(kind[version]().encode())),
        (bytes([number]), bytes(4) + b"\2" * 40 + bytes(40)),
        (bytes([number]), bytes(4) + b"\0\0\0\1\0\1t" * 4 + bytes(60)),
    )
)
_LOOP: Final = asyncio.new_event_loop()


class _Nowhere(asyncio.Transport):
    """Takes what is sent, and goes nowhere."""

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None: ...
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


def kafka_response(which: bytes, frame: bytes) -> object:
    """An answer as a connection takes it: whatever it holds, the request gets a result or a `ConnectionLost`."""
    kind, version = _RESPONSES[(which[0] if which else 0) % len(_RESPONSES)]
    return _LOOP.run_until_complete(
        _answered(partial(answers.decode, kind[version], version), struct.pack(">ii", len(frame) + 4, 1) + frame)
    )


async def _answered(decode: Callable[[memoryview], object], received: bytes) -> object:
    connection = Connection("broker:1", "fuzz", 30.0)
    connection.connection_made(_Nowhere())
    answer = connection.submit(0, 0, [b""], decode, flexible=False)
    while received and not connection.is_lost:
        buffer = connection.get_buffer(len(received))
        part = received[: len(buffer)]
        buffer[: len(part)] = part
        connection.buffer_updated(len(part))
        received = received[len(part) :]
    if not answer.done():
        raise AssertionError("the request is still waiting")
    try:
        return await answer
    finally:
        connection.end("over")


def metadata(answer: bytes) -> object:
    return cluster_client._metadata(answers.decode(MetadataResponse, 12, answer))


METADATA: Final[tuple[Case, ...]] = ((bytes(MetadataResponse[12]().encode()),),)


def sasl_mechanisms(body: bytes) -> object:
    """What a listener that is probed answers; None for what is no answer."""
    return listener_probe.mechanisms_in(body)


SASL_HANDSHAKES: Final[tuple[Case, ...]] = (
    (b"\0\x21\0\0\0\2\0\5PLAIN\0\x0dSCRAM-SHA-256",),
    (b"\0\0\0\0\0\0",),
)


SCRAM_ERRORS: Final = (sasl.BadServer, UnicodeDecodeError, StopIteration)


def scram(first: bytes, final: bytes) -> object:
    exchange = sasl.scram("SCRAM-SHA-256", "user", "secret", "nonce")
    next(exchange)
    exchange.send(first)
    return exchange.send(final)


_ENDPOINT: Final = ClientCredentials(http_request.parse("https://127.0.0.1/token"), "client", "secret")


def token(body: bytes) -> object:
    found = oauth._read(json_value(body), _ENDPOINT, 1_700_000_000.0)
    return found.fresh(time.time())


# -- topics ------------------------------------------------------------------------------------------------------------


def journal_entry(key: bytes, value: bytes) -> object:
    """An entry, which must read its own bytes as itself."""
    entry = entries.decode(key, value)
    again = entries.decode(entry.key(), entry.value())
    if again.key() != entry.key() or again.value() != entry.value():
        raise AssertionError(f"{entry} becomes {again}")
    return entry


def _packed(records: Iterable[Case]) -> bytes:
    return b"".join(struct.pack(">HH", len(key), len(value)) + key + value for key, value in records)


JOURNALS: Final[tuple[Case, ...]] = (
    (_packed(samples.JOURNAL),),
    (_packed(samples.JOURNAL[8:12]),),
    (_packed([samples.JOURNAL[8], samples.JOURNAL[9], samples.JOURNAL[11], *samples.JOURNAL[-6:]]),),
)


def offset_map(journal: bytes) -> object:
    """The offset map of the partition of a whole journal, and translations with it."""
    at, newest = 0, dict[bytes, bytes]()
    while at + 4 <= len(journal):
        sizes = struct.unpack_from(">HH", journal, at)
        key, value = journal[at + 4 : at + 4 + sizes[0]], journal[at + 4 + sizes[0] : at + 4 + sum(sizes)]
        at += 4 + sum(sizes)
        newest[key] = value
    decoded = valid_entries([entries.decode(key, value) for key, value in newest.items()])
    decoded = renamed(decoded, identified(decoded))
    offsets = PartitionMap()
    for entry in decoded:
        offsets.apply(entry)
    edges = (0, 1, 10, 16, 17, 100, 500, 2**31, 2**63 - 1)
    return [(offsets.forward(edge), offsets.backward(edge), offsets.lost(0, edge)) for edge in edges]


HEARTBEATS, CHECKPOINTS, OFFSET_SYNCS = (
    cast("tuple[Case, ...]", ((record.key(), record.value()),)) for record in samples.MM2_RECORDS
)
POSITIONS: Final[tuple[Case, ...]] = tuple((*case, b"17") for case in CHECKPOINTS)


def positions(key: bytes, value: bytes, header: bytes) -> object:
    headers = ((POSITION_HEADER, header), (AS_OF_HEADER, header))
    return last_known([Record(TopicPartition("c", 0), 0, 0, key, value, headers)], DefaultReplicationPolicy())


def kept_positions(key: bytes, value: bytes, header: bytes) -> object:
    headers = ((POSITION_HEADER, header), (AS_OF_HEADER, header), (TOPICS_HEADER, header))
    record = Record(TopicPartition("c", 0), 0, 0, key, value, headers)
    return checkpointed([record], DefaultReplicationPolicy(), lambda _: True)


def copied(key: bytes, value: bytes) -> object:
    return connect_offsets.copied([(key, value), (key, None), (None, value)], FLOW)


def connector_enabled(key: bytes, value: bytes) -> object:
    return connect_offsets.source_connector_enabled([(key, value)], FLOW)


def pointer(content: bytes) -> object:
    return decode_pointer(content)


POINTER_RECORDS: Final[tuple[Case, ...]] = tuple((b"orders", *case) for case in samples.POINTERS)


def pointer_record(key: bytes, value: bytes) -> object:
    pointers: pointer_topic.Pointers = {}
    pointer_topic.apply_record(pointers, key, value, "offset 5")
    return pointers


POINTER_HISTORY: Final[tuple[Case, ...]] = tuple(
    (past.key.encode(), history.encode(past))
    for past in (
        history.Past("*", Pointer(7, "RIGHT", "127.0.0.1:9092", "LEFT.", {"LEFT.orders": (5, 6)}, by="run 7"), 5),
        history.Past("orders", Pointer(1, "LEFT", "127.0.0.1:9092"), 0),
    )
)


def pointer_entry(key: bytes, value: bytes) -> object:
    return history.decode(key, value, "offset 5")


def pointer_history(key: bytes, value: bytes) -> object:
    found: dict[str, history.Past | UsageError] = {}
    history.apply_entry(found, key, value, "offset 5")
    return found


def lease(value: bytes) -> object:
    return lease_record.decode(value, FLOW)


def flow_record(value: bytes) -> object:
    return failed_over.decode(value)


def progress(value: bytes) -> object:
    return ledger.decode(value, ledger.Progress)


def closing(value: bytes) -> object:
    return ledger.decode(value, ledger.Closing)


_STATE_KEY = struct.pack(">hh", 0, 1) + b"g" + bytes(16) + struct.pack(">i", 4)
_STATE_VALUE = struct.pack(">hiiiqqq", 0, 1, 2, 3, 7, 100, 200) + b"\2" + struct.pack(">qqbh", 8, 9, 2, 1) + b"\0\0"
_NO_ERROR = struct.pack(">h", 0) + b"\0"
SHARE_STATES: Final[tuple[Case, ...]] = ((_STATE_KEY, _STATE_VALUE),)
SHARE_OFFSETS: Final[tuple[Case, ...]] = (
    (
        struct.pack(">i", 0) + b"\2\2g\2\2t" + bytes(16) + b"\2" + struct.pack(">iqiq", 0, 3, 0, 9) + _NO_ERROR
        + b"\0\0" + _NO_ERROR + b"\0\0",
    ),
)  # fmt: skip
_GROUP_HEAD: Final = struct.pack(">i", 0) + b"\2" + _NO_ERROR + b"\2g\7Stable" + struct.pack(">ii", 5, 5)
_GROUP_TAIL: Final = struct.pack(">i", -(2**31)) + b"\0\0"
SHARE_MEMBERS: Final[tuple[Case, ...]] = (
    (
        _GROUP_HEAD + b"\7simple" + b"\2\2m\0" + struct.pack(">i", 3) + b"\2c\2h\2\2t"
        + b"\2" + bytes(16) + b"\2t\2" + struct.pack(">i", 0) + b"\0\0\0" + _GROUP_TAIL,
    ),
)  # fmt: skip
_TASKS: Final = b"\2\0020\2" + struct.pack(">i", 0) + b"\0\1\1\0"
STREAMS_MEMBERS: Final[tuple[Case, ...]] = (
    (
        _GROUP_HEAD + b"\1" + struct.pack(">i", 0) + b"\2\0020\2\2t\1\2\2s" + struct.pack(">ih", 0, 1)
        + b"\2\2k\2v\0\0\1\0\0" + b"\2\2m" + struct.pack(">i", 2) + b"\0\0\2c\2h" + struct.pack(">i", 0) + b"\2p"
        + b"\1\2h\0\1\0" + b"\2\2k\2v\0" + b"\2\0020" + struct.pack(">iq", 0, 7) + b"\0\1" + _TASKS + _TASKS
        + b"\0\0" + _GROUP_TAIL,
    ),
)  # fmt: skip
SHARE_HEADERS: Final[tuple[Case, ...]] = ((encoded(ShareState(3, ((5, 7), (8, 12)))),),)


def share_state(key: bytes, value: bytes) -> object:
    """What a reader of `__share_group_state` makes of one record."""
    if messages.state_key(key) is None or (record := messages.state_record(key, value)) is None:
        return None
    log = StateLog()
    log.apply(record)
    return log.state


def share_offsets(data: bytes) -> object:
    return messages.described(1, memoryview(data))


def share_members(data: bytes) -> object:
    return members.share_members(memoryview(data))


def streams_members(data: bytes) -> object:
    return members.streams_members(memoryview(data))


def share_header(data: bytes) -> object:
    return decoded(3, data)
