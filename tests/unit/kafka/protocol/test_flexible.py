"""Kafka's flexible encoding at its boundaries."""

from __future__ import annotations

import struct
import uuid

import pytest

from drlib.kafka.protocol.flexible import PlainReader, Reader, compact_string, uvarint


def reader(text: str) -> Reader:
    return Reader(memoryview(bytes.fromhex(text)))


@pytest.mark.parametrize(
    ("number", "written"), [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_uvarint_is_as_short_as_possible(number: int, written: str) -> None:
    assert uvarint(number).hex() == written
    assert reader(written).uvarint() == number


def test_uvarint_of_more_than_five_bytes_is_refused() -> None:
    assert reader("ffffffff7f").uvarint() == 2**35 - 1
    with pytest.raises(ValueError, match="a number without end at byte 5"):
        reader("ffffffffff00").uvarint()


def test_compact_strings_count_from_one_and_null_is_zero() -> None:
    assert compact_string("é").hex() == "03c3a9"
    assert [reader(text).compact_string() for text in ("00", "01", "03c3a9")] == [None, "", "é"]
    with pytest.raises(ValueError, match="2 bytes wanted at byte 1 of 2"):
        reader("0361").compact_string()


def test_array_counts_from_one_and_is_no_longer_than_the_bytes_left() -> None:
    assert [len(reader(text).array()) for text in ("00", "01", "020a", "030a0a")] == [0, 0, 1, 2]
    with pytest.raises(ValueError, match="an array of 3 at byte 1 of 3"):
        reader("040a0a").array()


def plain(text: str) -> PlainReader:
    return PlainReader(memoryview(bytes.fromhex(text)))


def test_plain_strings_and_bytes_tell_empty_from_null() -> None:
    assert [plain(text).compact_string() for text in ("ffff", "0000", "0002c3a9")] == [None, "", "é"]
    found = [plain(text).compact_bytes() for text in ("ffffffff", "00000000", "0000000161")]
    assert [None if data is None else bytes(data) for data in found] == [None, b"", b"a"]


def test_plain_array_is_no_longer_than_the_bytes_left() -> None:
    assert [len(plain(text).array()) for text in ("ffffffff", "00000000", "000000020a0a")] == [0, 0, 2]
    with pytest.raises(ValueError, match="an array of 3 at byte 4 of 6"):
        plain("000000030a0a").array()


def test_tags_are_read_or_skipped_to_their_end() -> None:
    fields = reader("02" + "0001aa" + "0502bbcc" + "07")
    assert [(tag, value.rest().hex()) for tag, value in fields.tags()] == [(0, "aa"), (5, "bbcc")]
    assert fields.rest().hex() == "07"
    skipped = reader("01" + "0502bbcc" + "07")
    skipped.skip_tags()
    assert skipped.rest().hex() == "07"


def test_fields_of_fixed_size_follow_one_another() -> None:
    topic_id = uuid.UUID(int=7)
    fields = Reader(memoryview(topic_id.bytes + struct.pack(">ih", 5, -1)))
    assert (fields.uuid(), fields.fields(struct.Struct(">ih"))) == (topic_id, (5, -1))
    with pytest.raises(ValueError, match="1 bytes wanted at byte 22 of 22"):
        fields.fields(struct.Struct(">b"))
