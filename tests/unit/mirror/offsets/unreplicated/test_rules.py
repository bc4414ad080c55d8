"""What a tail is, by literal cases: where it lies, what is counted, what becomes of each record."""

from __future__ import annotations

from collections import Counter

import pytest
from small_maps import C1, TWO_RUNS, P, built

from drlib.config.replication_policy import ALIAS_LETTERS
from drlib.mirror.journal.entries import (
    Ack,
    Covered,
    Entry,
    Parked,
    Placement,
    Run,
    Sealed,
    SourceLoss,
    SourceTruncated,
    Unsure,
)
from drlib.mirror.offsets.unreplicated import rules as tail
from drlib.mirror.offsets.unreplicated.rules import EXAMPLES, Fate, SentAgain, Settle, Stretch, Tally
from drlib.model import TopicPartition


@pytest.mark.parametrize(
    ("entries", "start", "end", "expected"),
    [
        ((), 3, 9, [(3, 9)]),  # nothing was mirrored
        ((), 3, 3, []),  # and there was nothing
        (TWO_RUNS, 10, 18, []),  # all of it was
        (TWO_RUNS, 10, 25, [(18, 25)]),
        ((*TWO_RUNS, Covered(P, 20)), 10, 25, [(20, 25)]),  # 18 and 19 were read and held nothing
        ((*TWO_RUNS, Covered(P, 25)), 10, 25, []),
        (TWO_RUNS, 21, 25, [(21, 25)]),  # retention took the beginning of the tail
        ((*TWO_RUNS, SourceLoss(P, 18, 21, 0)), 10, 25, [(18, 25)]),  # the ledger and the end, once
        ((*TWO_RUNS, Parked(P, 18, "why", 0)), 10, 25, [(18, 25)]),  # parked and never gone on
        (
            (*TWO_RUNS, Parked(P, 18, "why", 0), Run(P, C1, 7, 20), Ack(P, C1, 9, 10)),
            10,
            25,
            [(18, 20), (22, 25)],  # parked, then gone on behind it
        ),
        ((*TWO_RUNS, SourceLoss(P, 12, 17, 0)), 10, 18, [(15, 16)]),  # what is mirrored of it is not missing
        ((Placement(P, C1, 0, 1), Run(P, C1, 0, 10)), 10, 12, [(10, 12)]),  # promised, and nothing is there
        ((*TWO_RUNS, SourceTruncated(P, 14, 18, 0)), 10, 25, [(14, 25)]),  # other records are there now
        ((*TWO_RUNS, SourceTruncated(P, 14, 18, 0)), 10, 16, [(14, 16)]),  # also where the log is shorter than it was
        ((*TWO_RUNS, SourceTruncated(P, 14, 18, 0)), 10, 14, []),
        ((*TWO_RUNS, SourceTruncated(P, 14, 18, 0)), 15, 16, [(15, 16)]),  # and where it has expired since
    ],
)
def test_tail_stretches_follow_the_map(
    entries: tuple[Entry, ...], start: int, end: int, expected: list[tuple[int, int]]
) -> None:
    offsets = built(*entries) if entries else None
    assert tail.stretches(offsets, start, end) == tuple(Stretch(*pair) for pair in expected)


def test_unreplicated_diverged_history_has_none() -> None:
    offsets = built(*TWO_RUNS)
    assert tail.divergence(offsets, 18, True) == ""
    assert tail.divergence(offsets, 30, None) == ""  # one side no longer has the record: nothing speaks against it
    assert tail.divergence(built(), 0, None) == ""  # nothing was mirrored
    assert "lost 3 of them" in tail.divergence(offsets, 15, None)
    assert "offset 17" in tail.divergence(offsets, 30, False)
    assert "offset 14" in tail.divergence(built(*TWO_RUNS, SourceTruncated(P, 14, 18, 0)), 30, True)


def test_partition_without_unreplicated_records_counts_none() -> None:
    nothing = tail.PartitionTail(TopicPartition("orders", 0), (), 18, 18)
    assert nothing == Tally(nothing.partition).tail((), 18, 18, 0)


def test_tally_unknown_to_the_journal_is_counted() -> None:
    unsure = built(
        Placement(P, C1, 0, 1), Run(P, C1, 0, 10), Ack(P, C1, 2, 3), Sealed(P, C1, 2, False), Unsure(P, C1, 2, 5, 0)
    )
    assert unsure.doubtful == 3
    assert built(*TWO_RUNS).doubtful == 0


def test_tail_records_read_by_groups_are_counted() -> None:
    tally = Tally(TopicPartition("orders", 0), positions=(5, 8, 100))
    for offset in (3, 4, 5, 7, 8, 9):
        tally.add(offset, 0, None, None, ())
    assert [tally.read_by(position) for position in (5, 8, 100)] == [2, 4, 6]
    assert Tally(TopicPartition("orders", 0), positions=(5,)).read_by(5) == 0


def test_tally_counts_all_and_shows_examples() -> None:
    partition = TopicPartition("orders", 2)
    tally = Tally(partition)
    for number in range(EXAMPLES + 5):
        key = None if number == 3 else b"k%d" % (number % 4)
        tally.add(100 + number, 1000 - number, key, b"12345", [("h", b"xy"), ("none", None)])
    found = tally.tail((Stretch(100, 200),), 100, 200, 0)
    assert (found.records, found.first_ms, found.last_ms) == (EXAMPLES + 5, 1000 - EXAMPLES - 4, 1000)
    assert found.bytes == (EXAMPLES + 5) * 7 + (EXAMPLES + 4) * 2
    assert len(tally.examples) == EXAMPLES
    assert (tally.examples[0].offset, tally.examples[0].key, tally.examples[3].key) == (100, "k0", "")
    assert sorted(tally.keys.values()) == [5, 6, 6, 7]
    assert tail.shown(b"\xff" + b"a" * 100).startswith("\\xffaaa")
    assert len(tail.shown(b"a" * 100)) == 63
    assert tail.shown(b"a" * 60) == "a" * 60


@pytest.mark.parametrize(
    ("how", "keep_order", "key", "value", "expected"),
    [
        (Settle.RECOVER, False, b"new", b"v", Fate.RECOVERED),
        (Settle.RECOVER, False, b"both", b"v", Fate.RECOVERED),  # late, and reported
        (Settle.RECOVER, True, b"both", b"v", Fate.SET_ASIDE),
        (Settle.RECOVER, True, b"new", b"v", Fate.RECOVERED),
        (Settle.RECOVER, True, None, b"v", Fate.RECOVERED),
        (Settle.RECOVER, False, b"both", b"again", Fate.SENT_AGAIN),
        (Settle.RECOVER, True, b"both", b"again", Fate.SENT_AGAIN),
        (Settle.QUARANTINE, False, b"both", b"again", Fate.QUARANTINED),
    ],
)
def test_fate_of_a_record_follows_map_and_content(
    how: Settle, keep_order: bool, key: bytes | None, value: bytes, expected: Fate
) -> None:
    since = SentAgain({tail.key_digest(b"both")}, Counter([tail.content_digest(b"both", b"again", [("n", b"1")])]))
    assert tail.fate(how, key, value, [("n", b"1")], since, keep_order=keep_order) is expected


def test_fate_of_records_that_are_left_is_not_asked() -> None:
    with pytest.raises(ValueError, match="left"):
        tail.fate(Settle.LEAVE, b"k", b"v", [], SentAgain(), keep_order=False)


@pytest.mark.parametrize("there", [0, 1, 4, 7])
def test_fate_of_equal_records_counts_how_many_are_there(there: int) -> None:
    since = SentAgain(contents=Counter({tail.content_digest(b"k", b"equal", []): there}))
    fates = Counter(tail.fate(Settle.RECOVER, b"k", b"equal", [], since, keep_order=False) for _ in range(5))
    assert fates == Counter({Fate.SENT_AGAIN: min(5, there), Fate.RECOVERED: max(0, 5 - there)})


def test_recovered_record_names_its_origin() -> None:
    headers = tail.provenance("LEFT", TopicPartition("orders", 3), 77)
    assert headers == [
        ("drlib.tail.cluster", b"LEFT"),
        ("drlib.tail.topic", b"orders"),
        ("drlib.tail.partition", b"3"),
        ("drlib.tail.offset", b"77"),
    ]
    assert tail.is_recovered([("n", b"1"), *headers])
    assert not tail.is_recovered([("n", b"1")])
    assert tail.content_digest(b"", b"v", []) != tail.content_digest(None, b"v", [])
    assert tail.quarantine_topic("LEFT", "orders") == "drlib.tail.LEFT.orders"


def test_quarantine_topic_of_a_long_name_is_a_name_of_its_own_that_brokers_take() -> None:
    """The broker refused it, and no record of the flow could be settled, also where none was to be quarantined."""
    longest = "o" * 232
    assert tail.quarantine_topic("paris", longest) == f"drlib.tail.paris.{longest}"
    names = [tail.quarantine_topic("paris", f"{longest}{end}") for end in ("", "a", "b", "b" * 17)]
    assert len(set(names)) == len(names)
    for name in names[1:]:
        assert name.startswith("drlib.tail.paris.ooo")  # rights are granted by this prefix
        assert len(name) == 200
        assert set(name) <= ALIAS_LETTERS  # those of a topic's name, too
