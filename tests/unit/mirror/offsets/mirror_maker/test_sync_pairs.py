"""What offset syncs say of a position, also where MirrorMaker 2 was killed and copied records again, in a model of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from drlib.mirror.mm2.offset_syncs import OffsetSyncWriter
from drlib.mirror.offsets.mirror_maker.sync_pairs import Pair, SyncedPartition, UsablePairs, of_today, usable
from drlib.model import TopicPartition, Translation, TranslationKind

EXACT, BOUNDED = TranslationKind.EXACT, TranslationKind.BOUNDED
AT = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("written", "pairs", "left"),
    [
        ([], (), ()),
        ([(0, 0), (10, 10)], ((0, 0), (10, 10)), ()),
        ([(0, 0), (10, 10), (10, 10)], ((0, 0), (10, 10)), ()),
        # Killed at 19, it begins again at 5 and comes as far: later pairs count, and the earlier ones up to 5.
        ([(0, 0), (10, 10), (5, 20), (20, 35), (40, 55)], ((0, 0), (5, 20), (20, 35), (40, 55)), ()),
        # Killed again at once: records 6 to 19 are in front of the pair alone.
        ([(0, 0), (10, 10), (5, 20)], ((0, 0), (10, 10)), (20,)),
        # The second one came to 12, the first to 19 at most.
        ([(0, 0), (10, 10), (5, 20), (12, 27)], ((0, 0), (10, 10)), (20, 27)),
        # A third one has to come as far as both can have come: 19 and 24.
        ([(0, 0), (10, 10), (5, 20), (12, 27), (8, 40), (15, 47)], ((0, 0), (10, 10)), (20, 27, 40, 47)),
        ([(0, 0), (10, 10), (5, 20), (12, 27), (8, 40), (30, 62)], ((0, 0), (5, 20), (8, 40), (30, 62)), ()),
        # It went back, although later pairs are further: between 90 and 99 are more copies than records.
        ([(0, 0), (80, 80), (90, 90), (99, 132)], ((0, 0), (80, 80), (90, 90)), (132,)),
        (
            [(0, 0), (80, 80), (90, 90), (99, 132), (145, 178)],
            ((0, 0), (80, 80), (90, 90), (99, 132), (145, 178)),
            (),
        ),
        # The mirror was made again.
        ([(0, 0), (10, 10), (11, 0), (15, 4)], ((11, 0), (15, 4)), ()),
        # A compacted topic: the newest pair alone.
        ([(500, 700)], ((500, 700),), ()),
    ],
)
def test_usable_pairs_of_runs_that_came_as_far_as_those_before(
    written: list[Pair], pairs: tuple[Pair, ...], left: tuple[int, ...]
) -> None:
    assert usable(written) == UsablePairs(pairs, left)


PARTITION = SyncedPartition(0, 100, UsablePairs(((10, 10), (30, 25), (60, 70))), (60, 70))


@pytest.mark.parametrize(
    ("position", "found"),
    [
        (0, Translation(0, BOUNDED, 10)),  # before the first pair MirrorMaker 2 gives up
        (9, Translation(0, BOUNDED, 10)),
        (10, Translation(10, EXACT)),
        (11, Translation(11, EXACT)),
        (12, Translation(11, BOUNDED, 14)),
        (30, Translation(25, BOUNDED, 45)),  # up to the next pair are more copies than records: some may be repeated
        (31, Translation(26, BOUNDED, 44)),
        (59, Translation(26, BOUNDED, 44)),
        (61, Translation(71, EXACT)),
        (62, Translation(71, BOUNDED, 29)),
        (10_000, Translation(71, BOUNDED, 29)),
    ],
)
def test_forward_is_the_pair_at_or_before_a_position_bounded_by_the_next(position: int, found: Translation) -> None:
    assert PARTITION.forward(position) == found


def test_forward_expired_on_the_mirror_is_its_log_start_and_never_exact() -> None:
    partition = SyncedPartition(50, 100, PARTITION.usable, (60, 70))
    assert partition.forward(12) == Translation(50, BOUNDED, 0)
    assert partition.forward(59) == Translation(50, BOUNDED, 20)
    assert partition.forward(60) == Translation(70, EXACT)


def test_forward_without_pairs_is_the_whole_mirror() -> None:
    assert SyncedPartition(5, 100).forward(70) == Translation(5, BOUNDED, 95)
    assert SyncedPartition(7, 7).forward(70) == Translation(7, EXACT)


@pytest.mark.parametrize(
    ("position", "checkpoint", "found"),
    [
        (50, (45, 48), Translation(48, BOUNDED, 22)),  # MirrorMaker 2 knew a pair that the topic no longer has
        (50, (45, 26), None),  # no better
        (50, (51, 48), None),  # of a later position
        (
            50,
            (45, 71),
            None,
        ),  # beyond the copy of record 60: of a mirror that was made again, or of a run that was cut short
        (62, (62, 101), None),  # beyond the end of the mirror
        (62, (62, 72), Translation(72, BOUNDED, 28)),
    ],
)
def test_from_checkpoint_counts_where_it_is_better_and_the_pairs_do_not_deny_it(
    position: int, checkpoint: Pair, found: Translation | None
) -> None:
    assert PARTITION.from_checkpoint(position, *checkpoint) == found


def test_from_checkpoint_of_a_run_that_has_not_come_far_enough_does_not_count() -> None:
    partition = of_today([(0, 0), (10, 10), (5, 20)], 0, 22, None, None)
    assert partition.from_checkpoint(19, 19, 21) is None
    assert partition.from_checkpoint(19, 19, 15) == Translation(15, BOUNDED, 7)


@pytest.mark.parametrize(
    ("written", "committed", "source_end", "least", "most"),
    [
        ([(0, 0), (60, 70)], None, None, 61, 90),
        ([(0, 0), (60, 70)], 64, 500, 65, 90),
        ([(0, 0), (60, 70)], 99, 500, 100, 100),
        ([], 64, 500, 65, None),
        ([], None, 500, None, None),
        ([(60, 100)], None, 500, None, None),  # the mirror is another one
        ([(60, 70)], None, 60, None, None),  # the source is another one
        ([(60, 70)], 500, 500, None, None),
    ],
)
def test_of_today_bounds_how_far_it_is_mirrored(
    written: list[Pair], committed: int | None, source_end: int | None, least: int | None, most: int | None
) -> None:
    found = of_today(written, 0, 100, committed, source_end)
    assert (found.least, found.most) == (least, most)
    assert bool(found.why) == (least is None)


@dataclass
class ModelOfMirrorMaker:
    """Copies the records of a source with gaps. It is killed at any record and loses syncs that were on their way, but for the
    first of a run, and begins again."""

    draw: random.Random
    source: list[int] = field(default_factory=list)
    mirror: list[int | None] = field(
        default_factory=list
    )  # source offsets; None: a marker, or another producer's record
    syncs: list[Pair] = field(default_factory=list)
    committed: int = -1

    def run(self, lag: int) -> None:
        writer = OffsetSyncWriter(lag)
        todo = [offset for offset in self.source if offset > self.committed]
        if not todo:
            return
        upto = self.draw.randint(1, len(todo))
        for number, offset in enumerate(todo[:upto]):
            if self.draw.random() < 0.01:
                self.mirror.append(None)
            self.mirror.append(offset)
            writer.acked(AT, offset, len(self.mirror) - 1)
            if self.draw.random() < 0.01:
                writer.commit()
            if number == 0 or number < upto - 3:  # the last ones may be lost
                self.syncs += [(sync.upstream_offset, sync.offset) for sync in writer.take_due()]
            if self.draw.random() < 0.01:
                self.committed = offset
        if self.draw.random() < 0.3:  # it ends in order
            writer.commit()
            self.committed = todo[upto - 1]
        if self.draw.random() < 0.5:
            self.syncs += [(sync.upstream_offset, sync.offset) for sync in writer.take_due()]


def first_run(syncs: list[Pair]) -> int:
    """How many pairs there are before it began again: compaction leaves the last ones, and all of what was written since."""
    jumps = (n for n in range(1, len(syncs)) if syncs[n][1] - syncs[n - 1][1] > syncs[n][0] - syncs[n - 1][0])
    return next(jumps, len(syncs))


@pytest.mark.parametrize("seed", range(150))
def test_forward_in_a_model_that_is_killed_at_random_skips_no_record_and_keeps_its_bound(seed: int) -> None:
    draw = random.Random(seed)
    model = ModelOfMirrorMaker(draw)
    at = 0
    for _ in range(draw.randint(50, 600)):
        at += 1 if draw.random() > 0.02 else draw.randint(2, 5)
        model.source.append(at)
    for _ in range(draw.randint(1, 5)):
        model.run(draw.choice([0, 5, 20, 100]))
    keep = model.syncs[draw.randint(0, first_run(model.syncs) - 1) if draw.random() < 0.3 else 0 :]
    found = of_today(keep, 0, len(model.mirror), None, None)
    copies: dict[int, int] = {}  # the last copy of each
    for offset, record in enumerate(model.mirror):
        if record is not None:
            copies[record] = offset
    for position in range(at + 2):
        translation = found.forward(position)
        assert translation.offset is not None
        missed = [record for record, copy in copies.items() if record >= position and copy < translation.offset]
        assert missed == [], (seed, position, translation, keep)
        again = sum(record is not None and record < position for record in model.mirror[translation.offset :])
        assert again <= translation.records, (seed, position, translation, keep)


def test_checkpoint_counts_up_to_the_first_pair_behind_its_record_and_not_before_it() -> None:
    partition = SyncedPartition(0, 60, UsablePairs(((0, 0), (9, 9), (20, 25))))
    assert partition.from_checkpoint(12, 10, 15) == Translation(15, BOUNDED, 10)
    assert partition.from_checkpoint(12, 10, 25) is not None
    assert partition.from_checkpoint(12, 10, 26) is None, "records from 10 on may have their only copy at 25"


def test_what_may_have_been_copied_again_behind_the_pairs_is_in_the_bound() -> None:
    partition = SyncedPartition(0, 60, UsablePairs(((0, 0), (10, 10)), (40,)))
    assert partition.forward(5) == Translation(1, BOUNDED, (10 - 1) + (60 - 40))
