"""Bytes of share group requests and state records; that brokers read them is `tests/integration/kafka/test_share_groups.py`."""

from __future__ import annotations

import struct
import uuid

import pytest

from drlib.kafka.protocol.flexible import compact_string, uvarint
from drlib.kafka.share_groups import messages
from drlib.kafka.share_groups.messages import (
    DeliveryState,
    NewState,
    ShareOffset,
    StateBatch,
    StateKey,
    StateRecord,
)
from drlib.model import TopicPartition

TOPIC_ID = uuid.UUID("692d098d-ff06-4c3b-8800-0f55cf7d5a7f")
NO_ERROR = struct.pack(">h", 0) + b"\0"


def key(kind: int) -> bytes:
    return struct.pack(">hh", kind, 1) + b"g" + TOPIC_ID.bytes + struct.pack(">i", 4)


def batch(first: int, last: int, state: int) -> bytes:
    return struct.pack(">qqbh", first, last, state, 1) + b"\0"


def test_messages_snapshot_and_update_are_decoded_with_tags_of_newer_brokers() -> None:
    snapshot = struct.pack(">hiiiqqq", 0, 1, 2, 3, 7, 100, 200) + uvarint(2) + batch(8, 9, 2) + b"\x01\x00\x04\0\0\0\2"
    assert messages.state_key(key(0)) == StateKey("g", TOPIC_ID, 4)
    assert messages.state_record(key(0), snapshot) == StateRecord(
        True, 7, (StateBatch(8, 9, DeliveryState.ACKNOWLEDGED),)
    )
    update = struct.pack(">hiiq", 0, 1, 3, -1) + uvarint(1) + b"\0"
    assert messages.state_record(key(1), update) == StateRecord(False, None, ())


def test_messages_records_of_other_kinds_and_versions_are_no_states() -> None:
    assert messages.state_key(struct.pack(">h", 9)) is None
    assert messages.state_record(key(0), struct.pack(">h", 1)) is None


@pytest.mark.parametrize("value", [b"", b"\0", struct.pack(">hiiiq", 0, 1, 2, 3, 7)])
def test_messages_truncated_state_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="bytes wanted"):
        messages.state_record(key(0), value)


def test_messages_batch_that_ends_before_it_begins_is_refused() -> None:
    update = struct.pack(">hiiq", 0, 1, 3, 5) + uvarint(2) + batch(9, 8, 2) + b"\0"
    with pytest.raises(ValueError, match="offsets 9 to 8"):
        messages.state_record(key(1), update)


def test_messages_described_offsets_have_a_lag_from_version_1_on_and_none_without_a_start() -> None:
    def answer(lag: bytes) -> memoryview:
        partitions = b"".join(
            struct.pack(">iqi", number, start, 0) + lag + NO_ERROR + b"\0" for number, start in ((0, 3), (1, -1))
        )
        topic = compact_string("t") + TOPIC_ID.bytes + uvarint(3) + partitions + b"\0"
        return memoryview(
            struct.pack(">i", 0) + uvarint(2) + compact_string("g") + uvarint(2) + topic + NO_ERROR + b"\0\0"
        )

    newer = messages.described(1, answer(struct.pack(">q", 11)))["g"]
    assert newer.offsets[TopicPartition("t", 0)] == ShareOffset(3, 11)
    assert newer.offsets[TopicPartition("t", 1)].start is None
    assert newer.topic_ids == {"t": TOPIC_ID}
    assert messages.described(0, answer(b""))["g"].offsets[TopicPartition("t", 0)] == ShareOffset(3, None)


def test_messages_new_state_counts_what_is_complete_from_version_1_on() -> None:
    wanted = {(TOPIC_ID, 4): NewState(1, 2, 3, ((5, 7), (8, 12)))}
    body = messages.write_body(1, "g", wanted)
    assert struct.pack(">iiiqi", 4, 1, 2, 3, 6) in body
    assert struct.pack(">qqbh", 8, 11, DeliveryState.ACKNOWLEDGED, 1) in body
    assert len(messages.write_body(0, "g", wanted)) == len(body) - 4


def test_messages_coordinator_key_is_that_of_kafka() -> None:
    assert messages.coordinator_key("g", TOPIC_ID, 4) == "g:aS0Jjf8GTDuIAA9Vz31afw:4"
