"""Fields of journal entries as bytes: what was written once is written and read in the same way for ever."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest

from drlib.mirror.journal.entries import Chunk
from drlib.mirror.journal.fields import ClaimId, Fields, SourcePartition
from drlib.model import Segment

P = SourcePartition(UUID(int=1), 0)


@pytest.mark.parametrize(
    ("count", "written"),
    [(1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16_384, "808001"), (2**63 - 1, "ff" * 8 + "7f")],
)
def test_number_of_seven_bits_a_byte_is_as_short_as_possible(count: int, written: str) -> None:
    value = Chunk(P, 0, (Segment(0, 0, count),)).value()
    assert value.hex().endswith("010000" + written)
    assert Fields(bytes.fromhex(written), 0).varint() == count


def test_number_of_more_than_64_bits_is_refused() -> None:
    assert Fields(b"\xff" * 9 + b"\x01", 0).varint() == 2**64 - 1
    with pytest.raises(ValueError, match="more than 64 bits"):
        Fields(b"\xff" * 10 + b"\x01", 0).varint()


def test_segments_that_go_back_are_not_written() -> None:
    with pytest.raises(ValueError, match="segments go back by 1"):
        Chunk(P, 0, (Segment(5, 5, 2), Segment(6, 9, 1))).value()


@pytest.mark.parametrize(("byte", "flag"), [(0, False), (1, True)])
def test_flag_is_one_byte_of_0_or_1(byte: int, flag: bool) -> None:
    assert Fields(bytes([byte]), 0).flag() is flag
    with pytest.raises(ValueError, match="2 where 0 or 1 belongs"):
        Fields(b"\x02", 0).flag()


def test_number_is_never_negative_and_integer_may_be() -> None:
    raw = struct.pack(">qq", 0, -1)
    fields = Fields(raw, 0)
    assert fields.number() == 0
    with pytest.raises(ValueError, match="-1 where an offset or a count belongs"):
        fields.number()
    assert Fields(raw, 8).integer() == -1
    assert Fields(raw, 12).int32() == -1


def test_partition_and_claim_begin_at_0_and_are_never_negative() -> None:
    assert Fields(P.pack(), 0).partition() == P
    assert Fields(ClaimId(0, 0).pack(), 0).claim() == ClaimId(0, 0)
    with pytest.raises(ValueError, match="partition -1"):
        Fields(SourcePartition(UUID(int=1), -1).pack(), 0).partition()
    for claim in (ClaimId(-1, 0), ClaimId(0, -1)):
        with pytest.raises(ValueError, match="producer ID"):
            Fields(claim.pack(), 0).claim()


def test_fields_end_exactly_with_the_bytes() -> None:
    fields = Fields(b"abc", 1)
    with pytest.raises(ValueError, match="3 bytes wanted at 1 of 3"):
        fields.raw(3)
    with pytest.raises(ValueError, match="2 bytes too many"):
        fields.done()
    assert fields.raw(2) == b"bc"
    fields.done()
