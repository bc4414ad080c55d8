"""MM2's committed source offsets, as Connect writes them, and whether its connector is enabled."""

from __future__ import annotations

import pytest

from drlib.mirror.mm2.connect_offsets import (
    ConnectRecordUnreadable,
    copied,
    decode,
    source_connector,
    source_connector_enabled,
)
from drlib.model import Flow, TopicPartition

FLOW = Flow("A", "B")
# As the real MirrorMaker 2 4.3.1 wrote them.
T0 = b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]'
T1 = b'["MirrorSourceConnector",{"cluster":"A","partition":1,"topic":"t"}]'
BEAT = b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]'
STRIMZI = b'["A->B.MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]'


def test_copied_last_record_of_a_key_counts_and_null_deletes() -> None:
    records = [
        (T0, b'{"offset":5}'),
        (T1, b'{"offset":9}'),
        (T0, b'{"offset":2499}'),
        (T1, None),
        (BEAT, b'{"offset":0}'),
    ]
    assert copied(records, FLOW).offsets == {TopicPartition("t", 0): 2499}


def test_copied_first_record_alone_is_offset_0() -> None:
    assert copied([(T0, b'{"offset":0}')], FLOW).offsets == {TopicPartition("t", 0): 0}


def test_copied_reads_strimzi_connector_names() -> None:
    assert copied([(STRIMZI, b'{"offset":7}')], FLOW).offsets == {TopicPartition("t", 0): 7}
    assert copied([(STRIMZI, b'{"offset":7}')], Flow("A", "C")).offsets == {}
    assert copied([(STRIMZI, b'{"offset":7}'), (T0, b'{"offset":6}')], FLOW).offsets == {TopicPartition("t", 0): 7}


def test_copied_ignores_other_sources() -> None:
    assert copied([(T0, b'{"offset":7}')], Flow("C", "B")).offsets == {}


def test_copied_key_that_is_not_connects_is_skipped_and_named() -> None:
    found = copied([(b"no json", b"{}"), (T0, b'{"offset":7}'), (None, b"{}")], FLOW)
    assert found.offsets == {TopicPartition("t", 0): 7}
    assert len(found.skipped) == 2
    assert "no json" in found.skipped[0]
    assert not found.unreadable


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b"no json",
        b'{"offset":-1}',
        b"7",
        b'{"offset":1e400}',
        b'{"offset":1.5}',
        b'{"offset":true}',
        b"[" * 200_000,
        b'{"offset":9223372036854775808}',
        b'{"offset":7,"offset":8}',
        b'{"offset":"\\ud800"}',
    ],
    ids=range(11),
)
def test_copied_partition_with_an_unreadable_value_is_named(value: bytes) -> None:
    found = copied([(T0, b'{"offset":7}'), (T0, value), (T1, b'{"offset":9}')], FLOW)
    assert set(found.unreadable) == {TopicPartition("t", 0)}, "the value before it is not the newest"
    assert found.offsets == {TopicPartition("t", 1): 9}
    assert not copied([(T0, value), (T0, b'{"offset":7}')], FLOW).unreadable


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"no json", b"{}"),
        (None, b"{}"),
        (b'["MirrorSourceConnector"]', b"{}"),
        (T0, b"{}"),
        (T0, b'{"offset":"x"}'),
        (b'["MirrorSourceConnector",{"cluster":"A"}]', b'{"offset":1}'),
        (b'["MirrorSourceConnector",{"cluster":"A","topic":"t","partition":1e400}]', b'{"offset":1}'),
        (b'["MirrorSourceConnector",{"cluster":"A","topic":"t","partition":2147483648}]', b'{"offset":1}'),
        (b"[" * 200_000, b'{"offset":1}'),
        (b"\xff", b'{"offset":1}'),
    ],
)
def test_decode_record_not_written_by_connect_is_an_error(key: bytes | None, value: bytes) -> None:
    with pytest.raises(ConnectRecordUnreadable):
        decode(key, value)


def test_source_connector_disabled_with_heartbeats_only() -> None:
    on = (b"connector-MirrorSourceConnector", b'{"properties":{"enabled":"true"}}')
    off = (b"connector-MirrorSourceConnector", b'{"properties":{"enabled":"false"}}')
    other = (b"connector-MirrorCheckpointConnector", b'{"properties":{"enabled":"false"}}')
    assert source_connector_enabled([off, on, other], FLOW)
    assert not source_connector_enabled([on, off], FLOW)
    assert not source_connector_enabled([on, (on[0], None)], FLOW)
    assert source_connector_enabled([], FLOW), "without a word it is taken to be on"
    with pytest.raises(ConnectRecordUnreadable):
        source_connector_enabled([(on[0], b"[]")], FLOW)


def test_configuration_of_the_source_connector_is_the_newest_one() -> None:
    key = b"connector-MirrorSourceConnector"
    old, new = b'{"properties":{"topics":"a"}}', b'{"properties":{"topics":"b","tasks.max":2}}'
    assert source_connector([(key, old), (key, new), (b"connector-Other", old)], FLOW) == {
        "topics": "b",
        "tasks.max": "2",
    }
    assert source_connector([], FLOW) is None
    assert source_connector([(key, new), (key, None)], FLOW) == {"enabled": "false"}
