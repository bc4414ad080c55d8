"""What a lane remembers of the records that it reads, and which of them count as returned."""

from __future__ import annotations

import pytest

from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import OutgoingBatch
from drlib.mirror.engine.returns.sightings import (
    ALERT,
    ALERT_S,
    KEPT_S,
    LARGE_BYTES,
    MOST,
    MOST_CREDIT,
    PER_BATCH,
    RAISE_S,
    RECORDS_PER_S,
    STRETCH_MS,
    SUSPECT,
    Sampler,
    Sightings,
    contents,
)
from drlib.model import TopicPartition

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
HEADERS = (("h", b"1"),)


def batch(numbers: range, *, codec: int = 0, at: int = 1000) -> OutgoingBatch:
    records = [recode.Record(n, at + n, b"k", b"v%d" % n, HEADERS) for n in numbers]
    return recode.rebuild(records, codec=codec, producer_id=7, producer_epoch=0, base_sequence=0)


def test_record_read_again_after_its_copy_was_acknowledged_is_a_return() -> None:
    sightings = Sightings()
    assert sightings.take(P, b"a", 5, mirrored=0, now=1.0) is None
    seen = sightings.take(P, b"a", 9, mirrored=6, now=3.0)
    assert seen is not None
    assert (seen.first, seen.last, seen.returns, seen.interval_s) == (5, 9, 1, 2.0)
    assert sightings.take(Q, b"a", 9, mirrored=6, now=3.0) is None, "another partition"


def test_record_written_twice_before_its_copy_is_acknowledged_is_no_return() -> None:
    """A producer that retries, or writes the same twice in a row."""
    sightings = Sightings()
    for offset in range(5, 50):
        assert sightings.take(P, b"a", offset, mirrored=5, now=1.0) is None
    assert sightings.suspects(P) == frozenset()


def test_record_read_again_at_its_own_offset_is_no_return() -> None:
    """After a park its partition is read again from there."""
    sightings = Sightings()
    sightings.take(P, b"a", 5, mirrored=0, now=1.0)
    assert sightings.take(P, b"a", 5, mirrored=6, now=2.0) is None


def test_record_that_returned_often_is_suspected_unless_it_returns_seldom_or_by_itself() -> None:
    sightings = Sightings()
    for number in range(SUSPECT + 1):
        seen = sightings.take(P, b"a", number, mirrored=number, now=number * 2.0)
        assert seen is None or sightings.is_suspect(P, b"a", seen) == (number == SUSPECT)
    assert seen is not None
    assert seen.interval_s == 2.0
    assert sightings.suspects(P) == {b"a"}
    seldom = sightings.take(P, b"a", 99, mirrored=99, now=1000.0)
    assert seldom is not None
    assert not sightings.is_suspect(P, b"a", seldom), "a trial would last for an hour"
    for number in range(100, 100 + SUSPECT):
        seen = sightings.take(P, b"a", number, mirrored=number, now=900.0 + number)
    assert seen is not None
    assert sightings.is_suspect(P, b"a", seen)
    sightings.refute(P, {b"a"}, until=1003.0)
    assert not sightings.is_suspect(P, b"a", seen)
    assert sightings.suspects(P) == frozenset()
    later = sightings.take(P, b"a", 200, mirrored=200, now=1003.0)
    assert later is not None
    assert sightings.is_suspect(P, b"a", later)
    assert sightings.suspects(P) == {b"a"}


def test_memory_is_bounded_and_says_when_it_forgets_too_soon() -> None:
    sightings = Sightings()
    for number in range(MOST):
        sightings.take(P, b"%d" % number, number, mirrored=0, now=1.0)
    assert not sightings.forget_oldest(1.0)
    assert not sightings.has_room
    sightings.take(P, b"0", MOST, mirrored=MOST, now=2.0)  # it returned: others are forgotten before it
    sightings.take(P, b"more", MOST + 1, mirrored=0, now=2.0)
    assert sightings.forget_oldest(2.0), "it was seen a second ago"
    assert sightings.suspects(P) == {b"0"}
    sightings.take(P, b"and more", MOST + 2, mirrored=0, now=2.0)
    assert not sightings.forget_oldest(2.0 + KEPT_S)


@pytest.mark.parametrize("codec", range(5))
def test_contents_are_the_same_however_batches_were_cut(codec: int) -> None:
    whole = contents(batch(range(100), codec=codec), [(500, 60), (700, 40)], timed=True)
    assert len(whole) == PER_BATCH
    assert all(500 <= offset < 560 or 700 <= offset < 740 for offset, _ in whole)
    ones = {c for n in range(100) for _, c in contents(batch(range(n, n + 1)), [(n, 1)], timed=True)}
    assert {content for _, content in whole} <= ones


def test_contents_without_timestamps_are_the_same_after_a_cluster_set_them() -> None:
    here, there = batch(range(4)), batch(range(4), at=9000)
    assert contents(here, [(0, 4)], timed=True) != contents(there, [(0, 4)], timed=True)
    assert contents(here, [(0, 4)], timed=False) == contents(there, [(0, 4)], timed=False)


def test_contents_of_a_batch_that_is_too_large_or_damaged_are_none() -> None:
    sound = batch(range(4), codec=1)
    large = OutgoingBatch(sound.head, sound.body, sound.count, LARGE_BYTES + 1)
    assert contents(large, [(0, 4)], timed=True) == []
    damaged = OutgoingBatch(sound.head, sound.body[: len(sound.body) // 2], sound.count, sound.size)
    assert contents(damaged, [(0, 4)], timed=True) == []


def test_sampler_chooses_everything_at_first_and_part_of_what_it_chose_at_every_higher_level() -> None:
    sampler = Sampler(0.0)
    newest = range(1_700_000_000_000, 1_700_000_000_000 + 64 * STRETCH_MS)
    before = set(newest)
    for level in range(5):
        chosen = {at for at in newest if sampler.chooses(at)}
        assert sampler.level == level
        assert chosen <= before
        assert len(chosen) == len(newest) >> level
        before = chosen
        kept = sorted(chosen)[len(chosen) // 2]
        sampler.rise(kept, (level + 1) * RAISE_S)
        assert sampler.chooses(kept), "what was too much is chosen again: a few records that circulate would be missed"
    assert all(map(sampler.chooses, (-1, 0))), "records without a timestamp"


def test_sampler_pays_for_a_bounded_number_of_records_and_rises_when_it_cannot() -> None:
    sampler = Sampler(0.0)
    paid = sum(100 for at in range(1000) if sampler.pays(100, 0, at / 100))
    assert MOST_CREDIT + 9 * RECORDS_PER_S <= paid <= MOST_CREDIT + 11 * RECORDS_PER_S, "ten seconds"
    assert 5 <= sampler.level <= 10 / RAISE_S
    level = sampler.level
    sampler.settle(20.0)
    assert sampler.level == level - 1


def test_sampler_pays_for_more_while_records_return() -> None:
    sampler = Sampler(0.0)
    while sampler.pays(100, 0, 0.0):
        pass
    sampler.alert(0.0)
    paid = sum(100 for at in range(1000) if sampler.pays(100, 0, at / 100))
    assert paid >= MOST_CREDIT + 9 * ALERT * RECORDS_PER_S
    later = sum(100 for at in range(1000) if sampler.pays(100, 0, ALERT_S + 100 + at / 100))
    assert later <= MOST_CREDIT + 11 * RECORDS_PER_S


def test_sampler_keeps_its_level_during_a_trial() -> None:
    sampler = Sampler(0.0)
    sampler.frozen = True
    sampler.rise(0, 100.0)
    assert sampler.level == 0
