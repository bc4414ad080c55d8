"""Batches of one record each become one, as the general merge makes it; the first that is anything else ends it."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import iter_batches
from drlib.kafka.protocol.merge_batches import leader_epoch, merge, merge_single_records, skip_to
from drlib.kafka.protocol.recode import Record

FIRST, EPOCH = 5000, 4
IDENTITY = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 2**31 - 2}
MOST = 256 << 10

Values = list[tuple[int, bytes | None, bytes | None]]
values: st.SearchStrategy[Values] = st.lists(
    st.tuples(st.integers(0, 2**45), st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=9000)),
    min_size=1,
    max_size=12,
)


def stored(offset: int, *records: tuple[int, bytes | None, bytes | None], attributes: int = 0) -> bytes:
    """A batch as a log holds it."""
    mine = [Record(offset + n, t, key, value, ()) for n, (t, key, value) in enumerate(records)]
    batch = recode.rebuild(mine, codec=0, producer_id=9, producer_epoch=1, base_sequence=offset)
    raw = bytearray(bytes(batch.head) + bytes(batch.body))
    raw[0:8], raw[12:16] = offset.to_bytes(8, "big"), EPOCH.to_bytes(4, "big")
    raw[21:23] = attributes.to_bytes(2, "big")
    return sealed(raw)


def sealed(raw: bytearray) -> bytes:
    raw[17:21] = google_crc32c.value(bytes(raw[21:])).to_bytes(4, "big")
    return bytes(raw)


def changed(batch: bytes, at: int, new: bytes) -> bytes:
    return batch[:at] + new + batch[at + len(new) :]


def plain(records: Values) -> list[bytes]:
    return [stored(FIRST + n, record) for n, record in enumerate(records)]


def taken(data: bytes, *, end: int = 1 << 63, most_bytes: int = MOST) -> tuple[int, bytes, int]:
    """How many records were merged, the batch's bytes, and how many bytes of `data` were used."""
    stretch = merge_single_records(memoryview(data), 0, FIRST, end=end, most_bytes=most_bytes, **IDENTITY)
    if stretch is None:
        return 0, b"", 0
    assert stretch.batch.size == len(stretch.batch.head) + len(stretch.batch.body) <= most_bytes
    return stretch.number, stretch.batch.head + bytes(stretch.batch.body), stretch.after


def merged(batches: list[bytes]) -> tuple[int, bytes, int]:
    out = merge(list(iter_batches(b"".join(batches))), **IDENTITY).batch
    return len(batches), out.head + bytes(out.body), sum(map(len, batches))


def small(batch: bytes) -> bool:
    """Whether its record is small enough for one pass."""
    return len(batch) - 61 - (2 if len(batch) - 61 > 64 else 1) <= 8192 - 14


@given(values, st.integers(0, 20))
def test_merge_is_that_of_the_general_path_up_to_the_first_large_record(records: Values, cut: int) -> None:
    batches = plain(records)
    fit = next((n for n, batch in enumerate(batches) if not small(batch)), len(batches))
    data = b"".join(batches) + stored(FIRST + len(batches), (1, b"k", b"v"))[:cut]
    assert taken(data) == (merged(batches[:fit]) if fit > 1 else (0, b"", 0))


def test_merge_records_around_lengths_of_one_and_two_bytes_are_kept() -> None:
    sizes = [*range(40, 80), *range(8_150, 8_172)]
    batches = plain([(0, None, bytes(size)) for size in sizes])
    assert all(map(small, batches))
    assert taken(b"".join(batches)) == merged(batches)
    large = plain([(0, None, b"1"), (0, None, b"2"), (0, None, bytes(8200))])
    assert taken(b"".join(large)) == merged(large[:2])


def test_merge_records_that_would_outgrow_the_table_are_left_to_the_general_path() -> None:
    for size in range(8_150, 8_200):
        batches = plain([(0, None, b"1"), (0, None, b"2"), (2**62, None, bytes(size))])
        assert taken(b"".join(batches)) == merged(batches[: 3 if small(batches[2]) else 2])


@pytest.mark.parametrize("body", [b"", b"\0", b"\0" * 6])
def test_merge_batch_too_short_for_a_record_ends_there(body: bytes) -> None:
    batches = plain([(1, b"k", b"v")] * 3)
    raw = bytearray(batches[2][:61] + body)
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    assert taken(b"".join(batches[:2]) + sealed(raw)) == merged(batches[:2])


def test_merge_more_records_than_its_table_has_numbers_ends_there() -> None:
    batches = plain([(1, None, None)] * 8194)
    assert taken(b"".join(batches), most_bytes=1 << 20) == merged(batches[:8192])


def test_merge_time_may_stand_still_go_back_and_be_unknown() -> None:
    for times in ([0, 0], [-1, -1], [5, 3, 4], [0, 8191, 8192, 2**44], [-1, 2**63 - 1]):
        batches = plain([(time, b"k", b"v") for time in times])
        assert taken(b"".join(batches)) == merged(batches)


def test_merge_batches_that_just_fit_are_taken() -> None:
    batches = plain([(1, b"k", b"v")] * 3)
    most = 61 + 3 * (len(batches[0]) - 61 + 14)
    assert taken(b"".join(batches), most_bytes=most)[0] == 3
    assert taken(b"".join(batches), most_bytes=most - 1)[0] == 2


NEXT = FIRST + 2
ONE = stored(NEXT, (7, b"key", b"value"))
OTHERS = {
    "two records": stored(NEXT, (7, b"k", b"a"), (8, b"k", b"b")),
    "transactional": stored(NEXT, (7, b"k", b"v"), attributes=0x10),
    "log append time": stored(NEXT, (7, b"k", b"v"), attributes=0x08),
    "compressed": stored(NEXT, (7, b"k", b"v"), attributes=1),
    "gap before it": stored(NEXT + 1, (7, b"k", b"v")),
    "offset of the one before": stored(NEXT - 1, (7, b"k", b"v")),
    "another epoch": changed(ONE, 12, (EPOCH + 1).to_bytes(4, "big")),
    "old format": changed(ONE, 16, b"\1"),
    "damaged byte": changed(ONE, len(ONE) - 2, b"?"),
    "damaged checksum": changed(ONE, 17, b"????"),
    "length too large": changed(ONE, 8, (len(ONE)).to_bytes(4, "big")),
    "length too small": changed(ONE, 8, (20).to_bytes(4, "big")),
    "negative length": changed(ONE, 8, b"\xff\xff\xff\xff"),
    "record shorter than its batch": sealed(bytearray(changed(ONE, 61, bytes([ONE[61] - 2])))),
    "negative record length": sealed(bytearray(changed(ONE, 61, bytes([ONE[61] + 1])))),
    "record with attributes": sealed(bytearray(changed(ONE, 62, b"\1"))),
    "record with a time delta": sealed(bytearray(changed(ONE, 63, b"\2"))),
    "record with an offset delta": sealed(bytearray(changed(ONE, 64, b"\2"))),
    "last offset beyond its record": sealed(bytearray(changed(ONE, 26, b"\1"))),
}


@pytest.mark.parametrize("other", OTHERS)
def test_merge_ends_before_a_batch_that_is(other: str) -> None:
    before, behind = plain([(3, b"a", b"x"), (2, b"b", b"y")]), stored(NEXT + 1, (9, b"z", b"z"))
    assert taken(b"".join(before) + OTHERS[other] + behind) == merged(before)
    assert taken(b"".join(before) + ONE + behind) == merged([*before, ONE, behind])


def test_merge_ends_at_the_high_watermark() -> None:
    batches = plain([(1, b"k", b"v")] * 5)
    assert taken(b"".join(batches), end=FIRST + 3) == merged(batches[:3])


def test_merge_leaves_a_batch_that_comes_alone() -> None:
    assert taken(ONE) == (0, b"", 0)
    assert taken(b"") == (0, b"", 0)


@given(st.integers(300, 4000), st.integers(0, 2**44))
def test_merge_stays_below_the_limit_and_uses_it(most: int, step: int) -> None:
    batches = plain([(n * step, b"key", bytes(30)) for n in range(60)])
    count, *_ = taken(b"".join(batches), most_bytes=most)
    assert count == 60 or count >= (most - 61) // (len(batches[0]) - 61 + 14) - 1


def test_skip_to_finds_the_batch_that_begins_at_the_offset() -> None:
    batches = [*plain([(1, b"k", b"v")] * 3), stored(FIRST + 3, (1, b"k", b"a"), (2, b"k", b"b"))]
    data = memoryview(b"".join(batches))
    assert [skip_to(data, FIRST + n) for n in range(-1, 6)] == [
        -1, 0, len(batches[0]), 2 * len(batches[0]), 3 * len(batches[0]), -1, -1,
    ]  # fmt: skip
    assert leader_epoch(data, len(batches[0])) == EPOCH
    emptied = changed(stored(FIRST + 5, (1, b"k", b"v"))[:61], 8, (61 - 12).to_bytes(4, "big"))  # by the log cleaner
    assert skip_to(memoryview(bytes(data) + emptied), FIRST + 5) == len(data)


@given(st.binary(max_size=300), st.integers(0, 2**63 - 1))
def test_merge_any_bytes_raise_nothing(data: bytes, offset: int) -> None:
    at = skip_to(memoryview(data), offset)
    assert -1 <= at <= len(data)
    if at >= 0:
        merge_single_records(memoryview(data), at, offset, end=1 << 63, most_bytes=MOST, **IDENTITY)
