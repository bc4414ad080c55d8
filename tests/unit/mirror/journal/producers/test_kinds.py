"""Entries of the source's producers: their bytes outlive versions, and what no version wrote is refused."""

from __future__ import annotations

from uuid import UUID

import pytest

from drlib.mirror.journal.entries import JournalCorrupt, Producers, ProducersKnown, SourcePartition, Unknown, decode
from drlib.mirror.journal.fields import KINDS
from drlib.mirror.journal.producers.kinds import SLOT_PRODUCERS, KeptProducer

P = SourcePartition(UUID("00112233-4455-6677-8899-aabbccddeeff"), 3)
TWO = Producers(P, 1, (KeptProducer(300, 0, 1000), KeptProducer(301, 2, 1128, True, "é")))


def test_producers_bytes_are_pinned() -> None:
    assert TWO.key() == bytes.fromhex("011d 00112233445566778899aabbccddeeff 00000003 00000001")
    assert TWO.value() == bytes.fromhex("01 02 e807 ac02 00 00 00 01 02 8001 03 02 c3a9")
    assert decode(TWO.key(), TWO.value()) == TWO
    empty = Producers(P, 1, ())
    assert (empty.value(), decode(empty.key(), empty.value())) == (b"\x01\x00", empty)
    known = ProducersKnown(5, 6, 7)
    assert known.key() == bytes.fromhex("011f")
    assert known.value() == bytes.fromhex("01 0000000000000005 0000000000000006 0000000000000007")


def test_versions_that_do_not_know_the_kinds_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (Producers.KIND, ProducersKnown.KIND):
        monkeypatch.delitem(KINDS, kind)
    for entry in (TWO, ProducersKnown(5, 6, 7)):
        read = decode(entry.key(), entry.value())
        assert isinstance(read, Unknown)
        assert (read.key(), read.value()) == (entry.key(), entry.value())


def test_a_hundred_thousand_producers_are_below_a_megabyte() -> None:
    many = [KeptProducer(1000 + 3 * n, n % 3, 1_800_000_000_000 + 7919 * n % 86_400_000) for n in range(100_000)]
    slots = [
        Producers(P, first // SLOT_PRODUCERS, tuple(many[first : first + SLOT_PRODUCERS]))
        for first in range(0, len(many), SLOT_PRODUCERS)
    ]
    assert sum(len(each.key()) + len(each.value()) for each in slots) < 1_000_000


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("01 41", "65 where at most 64"),
        ("01 01 00 01 808002 00 00", "32768 where at most 32767"),
        ("01 02 00 01 00 00 00 00 00 00 00", "twice"),
        ("01 01 05 01 00 01 00", "no producer has the oldest"),
        ("01 01 00 01 00 00 04", "4 where at most 3"),
        ("01 01 00 01 00 00 02 00", "empty name"),
        ("01 01 00 01 00 00 00 00", "too many"),
        ("01 02 00 ffffffffffffffff7f 00 00 00 01 00 00 00", "producer 9223372036854775808"),
    ],
)
def test_decode_refuses_what_no_version_wrote(value: str, says: str) -> None:
    with pytest.raises(JournalCorrupt, match=says):
        decode(TWO.key(), bytes.fromhex(value))
