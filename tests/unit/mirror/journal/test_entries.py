"""Journal entries: bytes and back, which entries supersede each other, and which bytes are refused."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drlib.errors import DrlibError
from drlib.mirror.journal.entries import (
    Ack,
    Chunk,
    Claim,
    ClaimId,
    Clusters,
    CommittedTransactions,
    Compared,
    Covered,
    Entry,
    Expired,
    Folded,
    Foreign,
    Incarnation,
    JournalCorrupt,
    MirrorRefused,
    OwnRecords,
    Parked,
    PartitionsAtStart,
    PartitionShared,
    Placement,
    Producers,
    ProducersKnown,
    Remirrored,
    RemirrorRequested,
    Run,
    Sealed,
    Shared,
    SourceEpoch,
    SourceLoss,
    SourcePartition,
    SourceTruncated,
    Thinned,
    TopicIdentified,
    TopicNames,
    Transactions,
    Unknown,
    Unsure,
    decode,
    names_key,
)
from drlib.mirror.journal.producers.kinds import KeptProducer
from drlib.mirror.journal.transactions import TransactionCommitted, TransactionEvent, partitions_of
from drlib.mirror.offsets.map.fold_claims import valid_entries
from drlib.model import Segment

TOPIC = UUID("00112233-4455-6677-8899-aabbccddeeff")
OTHER = UUID("ffeeddcc-bbaa-9988-7766-554433221100")
P = SourcePartition(TOPIC, 3)
C = ClaimId(4000, 7)


def _in_order(steps: list[tuple[int, int, int]]) -> Iterator[Segment]:
    source = target = 0
    for ahead, behind, count in steps:
        yield Segment(source + ahead, target + behind, count)
        source, target = source + ahead + count, target + behind + count


numbers = st.integers(0, 2**63 - 1)
uuids = st.uuids()
partitions = st.builds(SourcePartition, uuids, st.integers(0, 2**31 - 1))
claims = st.builds(ClaimId, numbers, st.integers(0, 2**15 - 1))
times = st.integers(-(2**63), 2**63 - 1)
stretches = st.lists(st.tuples(*[st.integers(0, 2**40)] * 2, st.integers(1, 2**40)), max_size=5).map(
    lambda steps: tuple(_in_order(steps))
)


def _events(steps: list[tuple[int, int, int, int, int]]) -> tuple[TransactionEvent, ...]:
    """Records, or a marker where there are none."""
    events, at = [], 0
    for producer, epoch, ahead, length, records in steps:
        at += ahead
        at_ms = 0 if records else producer
        events.append(TransactionEvent(producer, epoch, at, at + length, min(records, length), at_ms, ahead % 3))
    return tuple(events)


small = st.integers(0, 2**40)
epochs = st.integers(0, 2**15 - 1)
events = st.lists(st.tuples(small, epochs, small, st.integers(1, 2**40), small), max_size=5).map(_events)
committed = st.builds(
    TransactionCommitted,
    st.tuples(small, small),
    st.text(),
    small,
    epochs,
    epochs,
    small,
    st.lists(st.tuples(st.text(), st.lists(small, max_size=3).map(tuple)), max_size=3).map(tuple),
    number=st.just(0),
    nths=st.just(()),
    early=st.booleans(),
)
counted = st.builds(lambda each, n: each._replace(number=n, nths=(n,) * len(partitions_of(each))), committed, small)
committed |= counted.filter(lambda each: bool(each.nths))
producers = st.lists(
    st.builds(KeptProducer, small, epochs, small, st.booleans(), st.text()),
    max_size=5,
    unique_by=lambda each: each.producer_id,
).map(lambda found: tuple(sorted(found)))
entries: st.SearchStrategy[Entry] = st.one_of(
    st.builds(Transactions, partitions, st.integers(0, 63), numbers, events),
    st.builds(CommittedTransactions, st.integers(0, 255), numbers, st.lists(committed, max_size=3).map(tuple)),
    st.builds(Producers, partitions, st.integers(0, 63), producers),
    st.builds(ProducersKnown, numbers, numbers, numbers),
    st.builds(Claim, claims, st.integers(-(2**31), 2**31 - 1), times, st.text()),
    st.builds(TopicNames, uuids, st.text(), st.text(), uuids),
    st.builds(TopicIdentified, uuids, uuids, times),
    st.builds(Shared, uuids, uuids),
    st.builds(PartitionShared, partitions),
    st.builds(PartitionsAtStart, uuids, st.integers(0, 2**31 - 1), st.booleans()),
    st.builds(Placement, partitions, claims, numbers, numbers),
    st.builds(Run, partitions, claims, numbers, numbers),
    st.builds(Ack, partitions, claims, numbers, numbers),
    st.builds(Sealed, partitions, claims, numbers, st.booleans()),
    st.builds(Covered, partitions, numbers),
    st.builds(MirrorRefused, partitions, st.text(), times),
    st.builds(SourceLoss, partitions, numbers, numbers, times),
    st.builds(SourceTruncated, partitions, numbers, numbers, times),
    st.builds(Incarnation, st.text(), uuids, uuids, times),
    st.builds(Parked, partitions, numbers, st.text(), times),
    st.builds(Foreign, partitions, numbers, numbers, times),
    st.builds(Unsure, partitions, claims, numbers, numbers, times),
    st.builds(Clusters, st.text(), st.text()),
    st.builds(SourceEpoch, partitions, st.integers(0, 2**31 - 1), numbers),
    st.builds(Remirrored, st.text(), uuids, times),
    st.builds(RemirrorRequested, st.text(), uuids, times),
    st.builds(Chunk, partitions, numbers, stretches),
    st.builds(Expired, partitions, *[numbers] * 5),
    st.builds(Thinned, partitions, *[numbers] * 3, stretches),
    st.builds(Compared, partitions, *[numbers] * 3, stretches),
    st.builds(OwnRecords, partitions, st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple), times),
    st.builds(Folded, partitions, numbers, st.lists(claims, max_size=3).map(tuple)),
)


def test_run_bytes_are_pinned() -> None:
    """Journals outlive versions: these bytes must not change without a new format number."""
    run = Run(P, C, 5, 258)
    assert run.key() == bytes.fromhex(
        "0104 00112233445566778899aabbccddeeff 00000003 0000000000000fa0 0007 0000000000000005"
    )
    assert run.value() == bytes.fromhex("01 0000000000000102")


def test_topic_names_bytes_are_pinned() -> None:
    names = TopicNames(TOPIC, "é", "A.é", OTHER)
    assert names.key() == bytes.fromhex("0102 00112233445566778899aabbccddeeff")
    assert names.value() == b"\x01\0\0\0\x02\xc3\xa9\0\0\0\x04A.\xc3\xa9" + OTHER.bytes


EVENTS = TransactionEvent(300, 1, 5, 8, 2), TransactionEvent(300, 2, 9, 10, 0, 7)
COMMITTED = TransactionCommitted((4, 9), "é", 300, 2, 2, 128, (("a", (0, 1)),))


def test_transactions_bytes_are_pinned() -> None:
    entry = Transactions(P, 1, 65, EVENTS)
    assert entry.key() == bytes.fromhex("011b 00112233445566778899aabbccddeeff 00000003 00000001")
    assert entry.value() == bytes.fromhex("01 0000000000000041 02 ac02 01 05 03 02 ac02 02 04 01 00 07")
    kept = CommittedTransactions(1, 257, (COMMITTED,))
    assert kept.key() == bytes.fromhex("011c 00000001")
    assert kept.value() == bytes.fromhex("01 0000000000000101 01 04 09 ac02 02 02 8001 01 02 c3a9 01 61 02 00 01")
    numbered = Transactions(P, 1, 65, (EVENTS[0]._replace(nth=300), EVENTS[1]))
    assert numbered.value() == entry.value() + bytes.fromhex("ac02 00")
    counted = CommittedTransactions(1, 257, (COMMITTED._replace(number=3, nths=(2, 0)),))
    assert counted.value() == kept.value() + bytes.fromhex("03 02 02 00")
    assert decode(counted.key(), counted.value()) == counted
    early = CommittedTransactions(1, 257, (COMMITTED._replace(early=True),))
    assert early.value() == kept.value() + bytes.fromhex("00 00 01")
    assert decode(early.key(), early.value()) == early


def test_entry_kinds_are_pinned() -> None:
    every = {
        1: Claim(C, 0, 1, "w"),
        2: TopicNames(TOPIC, "a", "b", OTHER),
        3: Placement(P, C, 0, 1),
        4: Run(P, C, 0, 1),
        5: Ack(P, C, 0, 1),
        6: Sealed(P, C, 0, True),
        7: Covered(P, 1),
        8: SourceLoss(P, 1, 2, 3),
        9: SourceTruncated(P, 1, 2, 3),
        10: Incarnation("a", TOPIC, OTHER, 1),
        11: Parked(P, 1, "r", 2),
        12: Foreign(P, 1, 2, 3),
        13: Unsure(P, C, 1, 2, 3),
        14: Clusters("source", "target"),
        15: Remirrored("t", OTHER, 1),
        30: RemirrorRequested("t", OTHER, 1),
        16: Chunk(P, 0, (Segment(1, 2, 3),)),
        17: Folded(P, 1, (C,)),
        21: MirrorRefused(P, "r", 1),
        22: Expired(P, 1, 2, 3, 4, 5),
        24: Thinned(P, 1, 2, 3, (Segment(1, 2, 3),)),
        23: Compared(P, 0, 1, 2, (Segment(1, 2, 3),)),
        25: TopicIdentified(TOPIC, OTHER, 1),
        26: Shared(TOPIC, OTHER),
        27: Transactions(P, 0, 0, EVENTS),
        28: CommittedTransactions(0, 0, (COMMITTED,)),
        29: Producers(P, 0, ()),
        31: ProducersKnown(0, 0, 0),
        32: OwnRecords(P, ((1, 2),), 3),
        34: PartitionsAtStart(TOPIC, 1, True),
        35: PartitionShared(SourcePartition(TOPIC, 1)),
    }
    assert {kind: (1, kind) for kind in every} == {kind: tuple(e.key()[:2]) for kind, e in every.items()}


@settings(max_examples=400)
@given(entries)
def test_decode_returns_the_encoded_entry(entry: Entry) -> None:
    assert decode(entry.key(), entry.value()) == entry
    assert decode(memoryview(entry.key()), memoryview(entry.value())) == entry  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (Ack(P, C, 10, 20), Ack(P, C, 11, 21)),
        (Covered(P, 10), Covered(P, 11)),
        (Sealed(P, C, 10, False), Sealed(P, C, 10, True)),
        (SourceLoss(P, 10, 20, 1), SourceLoss(P, 10, 30, 2)),
        (Parked(P, 10, "size", 1), Parked(P, 10, "time", 2)),
        (Unsure(P, C, 1, 2, 3), Unsure(P, C, 1, 3, 3)),
        (TopicNames(TOPIC, "a", "b", OTHER), TopicNames(TOPIC, "a", "b", TOPIC)),
        (Foreign(P, 10, 1, 1), Foreign(P, 10, 2, 2)),
        (Placement(P, C, 0, 10), Placement(P, C, 0, 11)),
        (Claim(C, 0, 1, "w"), Claim(C, 0, 2, "w")),
        (Clusters("a", "b"), Clusters("c", "b")),
        (OwnRecords(P, (), 1), OwnRecords(P, ((1, 2),), 1)),
        (Compared(P, 0, 5, 5, (Segment(5, 5, 1),)), Compared(P, 0, 4, 4, (Segment(4, 4, 2),))),
    ],
)
def test_entry_key_equal_for_superseding_entries(older: Entry, newer: Entry) -> None:
    assert older.key() == newer.key()
    assert older.value() != newer.value()


def test_entry_key_unique_for_lasting_facts() -> None:
    p2, c2, c3 = SourcePartition(TOPIC, 4), ClaimId(4000, 8), ClaimId(4001, 7)
    other = SourcePartition(OTHER, 3)
    facts: list[Entry] = [
        *(Run(p, c, q, 0) for p in (P, p2, other) for c in (C, c2, c3) for q in (0, 1)),
        *(Placement(p, c, q, 0) for p in (P, p2, other) for c in (C, c2, c3) for q in (0, 1)),
        *(Ack(p, c, 1, 1) for p in (P, p2, other) for c in (C, c2, c3)),
        *(Sealed(p, c, 1, True) for p in (P, p2, other) for c in (C, c2, c3)),
        *(Unsure(p, c, 1, 2, 3) for p in (P, p2, other) for c in (C, c2, c3)),
        *(Covered(p, 1) for p in (P, p2, other)),
        *(SourceLoss(p, first, 9, 1) for p in (P, p2) for first in (1, 2)),
        *(SourceTruncated(p, first, end, 1) for p in (P, p2) for first in (1, 2) for end in (9, 10)),
        *(Parked(p, at, "r", 1) for p in (P, p2) for at in (1, 2)),
        *(Foreign(p, at, 1, 1) for p in (P, p2) for at in (1, 2)),
        *(Claim(c, 0, 0, "w") for c in (C, c2, c3)),
        *(Compared(p, number, 1, 1, ()) for p in (P, p2, other) for number in (0, 1)),
        TopicNames(TOPIC, "a", "b", OTHER),
        TopicNames(OTHER, "a", "b", OTHER),
        Incarnation("a", TOPIC, OTHER, 1),
        Incarnation("a", OTHER, TOPIC, 1),
        Incarnation("b", TOPIC, OTHER, 1),
    ]
    assert len({fact.key() for fact in facts}) == len(facts)


def test_entry_has_no_dict_of_its_own() -> None:
    assert not hasattr(Run(P, C, 0, 0), "__dict__")  # a map holds millions while it is loaded


def test_decode_unknown_kind_is_kept() -> None:
    entry = decode(b"\x01\xc8abc", b"\x07xyz")
    assert entry == Unknown(b"\x01\xc8abc", b"\x07xyz")
    assert isinstance(entry, Unknown)
    assert entry.kind == 200
    assert (entry.key(), entry.value()) == (b"\x01\xc8abc", b"\x07xyz")
    assert decode(b"\x01\xc8", b"\x01") == Unknown(b"\x01\xc8", b"\x01")


RUN = Run(P, C, 5, 258)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (b"", b"\x01", "too short"),
        (b"\x01", b"\x01", "too short"),
        (RUN.key(), b"", "too short"),
        (b"\x02" + RUN.key()[1:], RUN.value(), "key has format 2"),
        (RUN.key(), b"\x02" + RUN.value()[1:], "value has format 2"),
        (RUN.key() + b"\0", RUN.value(), "1 bytes too many"),
        (RUN.key(), RUN.value() + b"\0", "1 bytes too many"),
        (RUN.key()[:-1], RUN.value(), "bytes wanted"),
        (RUN.key(), RUN.value()[:-1], "bytes wanted"),
        (Run(P, C, -1, 0).key(), RUN.value(), "-1 where an offset"),
        (RUN.key(), Run(P, C, 0, -1).value(), "-1 where an offset"),
        (Run(SourcePartition(TOPIC, -1), C, 0, 0).key(), RUN.value(), "partition -1"),
        (Run(P, ClaimId(-1, -1), 0, 0).key(), RUN.value(), "producer ID -1, epoch -1"),
        (Sealed(P, C, 1, True).key(), Sealed(P, C, 1, True).value()[:-1] + b"\x02", "2 where 0 or 1"),
        (Parked(P, 1, "a", 1).key(), b"\x01\0\0\0\x01\xff" + bytes(8), "utf-8"),
        (Parked(P, 1, "a", 1).key(), b"\x01\xff\xff\xff\xff", "4294967295 bytes wanted"),
        (Transactions(P, 0, 0, ()).key(), bytes.fromhex("01 0000000000000000 8100"), "does not need"),
        (Transactions(P, 0, 0, ()).key(), bytes.fromhex("01 0000000000000000 8120"), "at most 1024"),
        (
            Transactions(P, 0, 0, ()).key(),
            bytes.fromhex("01 0000000000000000 01 01 01 00 01 02"),
            "2 records in 1 offsets",
        ),
        (
            Transactions(P, 0, 0, ()).key(),
            bytes.fromhex("01 0000000000000000 01 01 01 00 00 00"),
            "0 records in 0 offsets",
        ),
        (CommittedTransactions(0, 0, ()).key(), bytes.fromhex("01 0000000000000000 21"), "at most 32"),
        (Transactions(P, 0, 0, EVENTS).key(), Transactions(P, 0, 0, EVENTS).value() + b"\0\0", "all 0"),
        (
            CommittedTransactions(0, 0, (COMMITTED,)).key(),
            CommittedTransactions(0, 0, (COMMITTED,)).value() + b"\0\0",
            "no number",
        ),
        (
            CommittedTransactions(0, 0, (COMMITTED,)).key(),
            CommittedTransactions(0, 0, (COMMITTED,)).value() + b"\1\1\1",
            "as many numbers",
        ),
        (
            CommittedTransactions(0, 0, (COMMITTED,)).key(),
            CommittedTransactions(0, 0, (COMMITTED,)).value() + b"\0\0\0",
            "no early",
        ),
        (
            CommittedTransactions(0, 0, (COMMITTED,)).key(),
            CommittedTransactions(0, 0, (COMMITTED,)).value() + b"\0\0\2",
            "2 where at most 1",
        ),
    ],
)
def test_decode_corrupt_bytes_names_the_cause(key: bytes, value: bytes, says: str) -> None:
    with pytest.raises(JournalCorrupt, match=says) as caught:
        decode(key, value)
    assert isinstance(caught.value, DrlibError)
    assert caught.value.remedy


@settings(max_examples=600)
@given(st.binary(max_size=60), st.binary(max_size=40))
@example(b"\x01\x01", b"\x01")
def test_decode_any_bytes_are_an_entry_or_corrupt(key: bytes, value: bytes) -> None:
    for k in (key, b"\x01" + key, *(bytes([1, kind]) + key for kind in range(1, 15))):
        for v in (value, b"\x01" + value):
            try:
                entry = decode(k, v)
            except JournalCorrupt:
                continue
            assert (entry.key(), entry.value()) == (k, v)


@settings(max_examples=400)
@given(entries, st.data())
def test_decode_changed_bytes_are_another_entry_or_corrupt(entry: Entry, data: st.DataObject) -> None:
    """A decoded entry encodes to the same bytes."""
    raw = bytearray(entry.key() + entry.value())
    split = len(entry.key())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, 3))
    key, value = bytes(raw[:split]), bytes(raw[split : len(raw) - cut])
    try:
        found = decode(key, value)
    except JournalCorrupt:
        return
    assert (found.key(), found.value()) == (key, value)
    assert found != entry


def test_valid_entries_remirrored_voids_earlier_ones() -> None:
    other = SourcePartition(OTHER, 0)
    journal: list[Entry] = [
        Run(other, C, 0, 1),
        Run(P, C, 0, 1),
        Ack(P, C, 5, 6),
        Remirrored("A.t", OTHER, 1),
        Placement(P, ClaimId(4000, 8), 0, 1),
        TopicNames(TOPIC, "t", "A.t", OTHER),  # compaction keeps the newest names only, behind what they void
        TopicNames(OTHER, "u", "A.u", OTHER),
    ]
    assert valid_entries(journal) == [journal[0], *journal[3:]]
    assert valid_entries(journal[:3]) == journal[:3]


def test_names_key_is_the_topic_of_names_only() -> None:
    assert names_key(TopicNames(TOPIC, "a", "b", OTHER).key()) == TOPIC
    assert names_key(Covered(P, 1).key()) is None
    assert names_key(TopicNames(TOPIC, "a", "b", OTHER).key()[:-1]) is None
    assert names_key(b"") is None
