"""Batches that are decoded and built again: the same records, and damage that is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.kafka.protocol.batch import HEADER_SIZE, CorruptBatch, iter_batches, verify
from drlib.kafka.protocol.recode import Record, TooLargeToDecode, digest, most_size, rebuild, records

text = st.text(max_size=5)
held = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(text, held), max_size=3).map(tuple)


def stored(of: list[Record], codec: int = 0) -> bytes:
    batch = rebuild(of, codec=codec, producer_id=7, producer_epoch=2, base_sequence=2**31 + 5)
    return batch.head + bytes(batch.body)


@pytest.mark.parametrize("times", [(0, -1), (-1, 0), (0, 1), (5, 5), (-1, -1), (2**45, 7)])
def test_rebuild_keeps_timestamps_in_any_order(times: tuple[int, int]) -> None:
    """A time of -1 is none, and comes with records of format 0."""
    data = stored([Record(n, time, b"k", b"v") for n, time in enumerate(times)])
    ((header, view),) = iter_batches(data)
    verify(view, header)
    assert [r.timestamp for r in records(data)] == list(times)
    assert (header.base_timestamp, header.max_timestamp) == (times[0], max(times))


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_rebuild_header_names_producer_and_codec(codec: int) -> None:
    ((header, _),) = iter_batches(stored([Record(0, 1, b"k", b"v" * 500)], codec))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 5)
    assert (header.magic, header.attributes) == (2, codec)


@given(st.lists(st.builds(Record, st.just(0), st.integers(-1, 2**45), held, held, headers), min_size=1, max_size=4))
def test_most_size_is_never_below_the_size_of_the_batch(of: list[Record]) -> None:
    """A batch within the bound is not refused by the target as too large."""
    assert len(stored(of)) <= most_size(of)


def test_most_size_of_a_record_exceeds_its_content_by_a_constant() -> None:
    nothing = Record(0, 0, None, None)
    assert most_size([nothing, nothing]) - most_size([nothing]) == most_size([nothing]) - most_size([]) == 36
    full = Record(0, 0, b"k" * 10, b"v" * 20, (("é", b"h" * 30), ("", None)))
    assert most_size([full]) - most_size([nothing]) == 10 + 20 + 2 + 30 + 2 * 10


@pytest.mark.parametrize("size", [0, 16])
def test_records_of_bytes_too_few_for_a_batch_are_corrupt(size: int) -> None:
    with pytest.raises(CorruptBatch, match=f"it has {size} bytes"):
        records(bytes(size))


@pytest.mark.parametrize("offset", [-1, 0, 5000])
def test_records_damaged_batch_is_named_by_its_offset(offset: int) -> None:
    data = offset.to_bytes(8, "big", signed=True) + stored([Record(0, 1, b"k", b"v")])[8:-3]
    with pytest.raises(CorruptBatch, match=f"the batch at offset {offset} can't be decoded"):
        records(data)


def test_records_fewer_than_none_are_damage_and_not_too_large() -> None:
    data = bytearray(stored([Record(0, 1, b"k", b"v")]))
    data[HEADER_SIZE - 4 : HEADER_SIZE] = (-1).to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptBatch) as raised:
        records(bytes(data))
    assert not isinstance(raised.value, TooLargeToDecode)


def test_digest_tells_contents_apart_and_leaves_out_the_time() -> None:
    contents: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (b"a", b"bc", ()),
        (b"ab", b"c", ()),
        (None, b"abc", ()),
        (b"", b"abc", ()),
        (b"a", b"bc", (("", None),)),
        (b"a", b"bc", (("", b""),)),
    ]
    for time in (None, -1, 5):
        found = {digest(*content, time) for content in contents}
        assert len(found) == len(contents)
        assert {len(one) for one in found} == {16}
    assert digest(b"a", b"b", (), 5) != digest(b"a", b"b", (), 6)
