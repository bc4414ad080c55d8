"""Records of __transaction_state, as brokers of Kafka 4.3.1 wrote them, and those of the format before."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.mm2.records import MalformedRecord
from drlib.mirror.transactions.transaction_state import PreparedCommit, ProducerState, decode

JAVA = b"\0\0\0\x08java-app"
PARTITIONS = (("one", (0,)), ("two", (0,)))
PREPARED = bytes.fromhex(
    "0001000000000000000000030000ea600203046f6e650200000000000474776f020000000000000001a218db33e8000001a218db3357"
    "020008000000000000000002020002"
)
COMPLETE = bytes.fromhex(
    "0001000000000000000000040000ea600401000001a218db346b000001a218db3444020008000000000000000002020002"
)
OF_LIBRDKAFKA = bytes.fromhex(
    "0001000000000000000100000000ea600203046f6e650200000000000474776f020000000000000001a218db36ff000001a218db36f6"
    "0100080000000000000001"
)


def test_decided_commit_has_partitions_and_the_markers_epoch() -> None:
    assert decode(JAVA, PREPARED) == PreparedCommit("java-app", 0, 3, 2, 1795713348584, PARTITIONS)


def test_client_of_an_earlier_version_is_known_as_one() -> None:
    assert decode(b"\0\0\0\3rdk", OF_LIBRDKAFKA) == PreparedCommit("rdk", 1, 0, 0, 1795713349375, PARTITIONS)


def test_empty_id_is_one() -> None:
    assert decode(b"\0\0\0\0", PREPARED) == PreparedCommit("", 0, 3, 2, 1795713348584, PARTITIONS)


def test_other_states_and_expired_ids_are_no_commits() -> None:
    assert decode(JAVA, COMPLETE) == ProducerState(0, 4, False)
    assert decode(JAVA, None) is None
    assert decode(None, PREPARED) is None
    assert decode(b"\0\1" + JAVA[2:], PREPARED) is None
    for state in (1, 3, 4, 5, 6, 7):
        changed = bytearray(PREPARED)
        changed[16] = state
        assert decode(JAVA, bytes(changed)) == ProducerState(0, 3, False, is_open=state == 1)


def test_producer_that_began_has_the_epoch_of_its_transactions() -> None:
    began = bytearray(PREPARED)
    began[16] = 0
    assert decode(JAVA, bytes(began)) == ProducerState(0, 3, True)


def test_format_before_compact_fields() -> None:
    topic = struct.pack(">ih3siii", 1, 3, b"one", 2, 0, 7)
    value = struct.pack(">hqhib", 0, 9, 4, 60000, 2) + topic + struct.pack(">qq", 1700, 1600)
    assert decode(b"\0\0\0\1x", value) == PreparedCommit("x", 9, 4, 0, 1700, (("one", (0, 7)),))
    no_partitions = struct.pack(">hqhib", 0, 9, 4, 60000, 2) + struct.pack(">i", -1) + struct.pack(">qq", 1700, 1600)
    assert decode(b"\0\0\0\1x", no_partitions) == PreparedCommit("x", 9, 4, 0, 1700, ())


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"\0\2" + PREPARED[2:], "version 2 is not known"),
        (PREPARED[:16] + b"\x08" + PREPARED[17:], "state 8 is not known"),
        (PREPARED + b"\0", "1 bytes too many"),
        (PREPARED[:-1], "past the end"),
        (PREPARED[:20], "past the end"),
        (PREPARED[:12], "not a record"),
        (PREPARED[:17] + b"\xff\xff\xff\xff\xff\xff" + PREPARED[18:], "without an end"),
        (PREPARED[:17] + b"\xff\x7f" + PREPARED[18:], "elements in"),
        (PREPARED[:2] + b"\xff" * 8 + PREPARED[10:], "negative"),
    ],
)
def test_malformed_records_are_refused(value: bytes, says: str) -> None:
    with pytest.raises(MalformedRecord, match=says):
        decode(JAVA, value)


@given(st.binary(max_size=40), st.binary(max_size=80))
def test_any_bytes_are_a_record_or_malformed(key: bytes, value: bytes) -> None:
    for k in (key, JAVA):
        for v in (value, b"\0\1" + value, b"\0\0" + value):
            try:
                decode(k, v)
            except MalformedRecord:
                continue
