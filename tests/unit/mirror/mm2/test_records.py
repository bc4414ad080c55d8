"""The bytes of MirrorMaker 2's records, against vectors written by its Java classes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.mm2.records import Checkpoint, Heartbeat, MalformedRecord, OffsetSync
from drlib.model import TopicPartition

AnyRecord = Heartbeat | Checkpoint | OffsetSync
NAMES = st.text(max_size=60)
OFFSETS = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1))


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (Heartbeat("A", "B", 1700000000000), "000141000142", "00000000018bcfe56800"),
        (
            Checkpoint("g", TopicPartition("A.t", 3), 150, 251),
            "0001670003412e7400000003",
            "0000000000000000009600000000000000fb0000",
        ),
        (OffsetSync(TopicPartition("t", 3), 150, 251), "00017400000003", "000000000000009600000000000000fb"),
    ],
)
def test_record_bytes_are_those_of_the_java_classes(record: AnyRecord, key: str, value: str) -> None:
    assert record.key().hex() == key
    assert record.value().hex() == value
    assert type(record).decode(bytes.fromhex(key), bytes.fromhex(value)) == record


@given(
    st.one_of(
        st.builds(Heartbeat, NAMES, NAMES, OFFSETS),
        st.builds(Checkpoint, NAMES, PARTITIONS, OFFSETS, OFFSETS, NAMES),
        st.builds(OffsetSync, PARTITIONS, OFFSETS, OFFSETS),
    ),
    st.binary(max_size=5),
)
def test_decode_returns_the_record_and_skips_trailing_bytes(record: AnyRecord, tail: bytes) -> None:
    assert type(record).decode(record.key() + tail, record.value() + tail) == record


@pytest.mark.parametrize("kind", [Heartbeat, Checkpoint, OffsetSync])
@given(key=st.one_of(st.none(), st.binary(max_size=40)), value=st.one_of(st.none(), st.binary(max_size=40)))
def test_decode_any_bytes_are_a_record_or_malformed(
    kind: type[AnyRecord], key: bytes | None, value: bytes | None
) -> None:
    try:
        found = kind.decode(key, value)
    except MalformedRecord:
        return
    assert isinstance(found, kind)


def test_decode_negative_numbers_are_signed_as_in_java() -> None:
    sync = OffsetSync(TopicPartition("t", -1), -1, -2)
    assert OffsetSync.decode(sync.key(), sync.value()) == sync
    with pytest.raises(MalformedRecord, match="null string"):
        Heartbeat.decode(b"\xff\xff", Heartbeat("A", "B", 1).value())


def test_decode_tombstone_short_value_or_unknown_version_is_malformed() -> None:
    beat = Heartbeat("A", "B", 1)
    for key, value in (
        (beat.key(), None),
        (beat.key(), beat.value()[:-1]),
        (beat.key(), b"\0\1" + beat.value()[2:]),
        (b"\xff\xff" + beat.key()[2:], beat.value()),
        (b"\x00\x01\xff\x00\x01B", beat.value()),
    ):
        with pytest.raises(MalformedRecord):
            Heartbeat.decode(key, value)


def test_encode_string_over_32767_bytes_is_refused() -> None:
    longest = Checkpoint("g" * 32767, TopicPartition("t", 0), 0, 0)
    assert Checkpoint.decode(longest.key(), longest.value()) == longest
    with pytest.raises(ValueError, match="at most 32767 bytes"):
        Checkpoint("g" * 32768, TopicPartition("t", 0), 0, 0).key()
