"""Duplicates on literal topics with planted ones: each is found, counted once and given its cause, or none."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from pyspark.sql import SparkSession
from record_frames import Record, frame, mirrored, placed_again, source

from drlib.analysis.duplicates.find import Segments, duplicates_in
from drlib.analysis.duplicates.result import Cause, DuplicateReport
from drlib.model import Segment
from drlib.runs.check import Verdict


def plain(partitions: int = 2) -> list[Record]:
    """`source` without the two identical records it has: nothing is alike."""
    return [replace(record, at_ms=record.offset * 100) for record in source(False, partitions)]


def search(
    spark: SparkSession,
    left: list[Record] | None,
    right: list[Record],
    *,
    segments: Segments | None = None,
    source_start: dict[int, int] | None = None,
    compacted: bool = False,
    allowed: tuple[Cause, ...] = (),
) -> DuplicateReport:
    return duplicates_in(
        "LEFT.orders",
        frame(spark, right),
        None if left is None else frame(spark, left),
        segments=segments,
        source_start=source_start,
        source_compacted=compacted,
        allowed=allowed,
    )


def found(report: DuplicateReport) -> dict[Cause, int]:
    assert report.counts is not None
    return {cause: count for cause, count in report.counts.items() if count}


def one(partition: int) -> list[Record]:
    return [record for record in plain(partition + 1) if record.partition == partition]


def at(records: list[Record], *order: int | slice) -> list[Record]:
    """The records of these places, one after the other."""
    return [record for each in order for record in (records[each] if isinstance(each, slice) else [records[each]])]


def test_duplicates_in_counts_each_once_with_right_cause(spark: SparkSession) -> None:
    """A case in a partition of its own: faithful, copied twice, written twice, both, written twice and not crossed yet,
    and records that differ from another in one field alone."""
    whole = slice(None)
    left = [
        placed_again(one(0)),
        placed_again(one(1)),
        placed_again(at(one(2), slice(0, 10), slice(8, 10), slice(10, None))),
        placed_again(at(one(3), slice(0, 10), 9, slice(10, None))),
        placed_again(at(one(4), whole, -1)),
        placed_again([*one(5), *near(one(5)[20])]),
    ]
    right = [
        mirrored(left[0]),
        placed_again(at(left[1], slice(0, 30), slice(20, 30), slice(30, None))),
        mirrored(left[2]),
        placed_again(at(left[3], slice(0, 12), 9, slice(12, None))),
        mirrored(left[4])[:-1],
        mirrored(left[5]),
    ]
    report = search(spark, [*chain(*left)], [*chain(*right)])
    assert (report.verdict, found(report)) == (Verdict.FAIL, {Cause.REPLICATOR: 11, Cause.PRODUCER: 4})
    assert report.per_partition == {1: 10, 2: 2, 3: 2, 4: 1}
    assert report.rate == 15 / sum(map(len, right))
    causes = {
        p: [(e.cause, e.source_offset, e.target_offset, e.first) for e in report.examples if e.partition == p]
        for p in range(6)
    }
    assert causes[0] == causes[5] == []
    assert causes[1] == [(Cause.REPLICATOR, None, 31 + n, 21 + n) for n in range(10)]
    assert causes[2] == [(Cause.PRODUCER, 11, 14, 12), (Cause.PRODUCER, 12, 15, 13)]
    assert causes[3] == [(Cause.REPLICATOR, None, 13, 10), (Cause.PRODUCER, 11, 11, 10)]
    assert causes[4] == [(Cause.PRODUCER, 41, None, 43)]
    ranges = [(e.partition, e.first, e.next_offset, e.cause) for e in report.skip]
    assert ranges == [
        (1, 31, 41, Cause.REPLICATOR),
        (2, 14, 16, Cause.PRODUCER),
        (3, 11, 12, Cause.PRODUCER),
        (3, 13, 14, Cause.REPLICATOR),
    ]
    assert report.skip_ranges == 4
    assert (sum(cell.records for cell in report.heat), {cell.partition for cell in report.heat}) == (15, {1, 2, 3, 4})


def near(record: Record) -> list[Record]:
    """Records that are `record` but for one field, null and empty distinguished."""
    bare = replace(record, key=None, value=None, headers=())
    return [
        replace(record, key=b"other"),
        replace(record, value=b"other"),
        replace(record, headers=record.headers[::-1]),
        replace(record, at_ms=record.at_ms + 1),
        bare,
        replace(bare, key=b""),
        replace(bare, value=b""),
        replace(bare, headers=(("", None),)),
        replace(bare, headers=(("", b""),)),
    ]


def test_duplicates_in_faithful_mirror_and_allowed_cause_pass(spark: SparkSession) -> None:
    report = search(spark, plain(), mirrored(plain()))
    assert (report.verdict, found(report), report.total, report.rate) == (Verdict.PASS, {}, 0, 0.0)
    assert (report.source_records, report.target_records, report.examples, report.skip) == (80, 80, (), ())
    left = source(False)  # 7 and 8 of each are alike
    assert search(spark, left, mirrored(left), allowed=(Cause.PRODUCER,)).verdict is Verdict.PASS


def test_duplicates_in_without_source_cause_is_unknown(spark: SparkSession) -> None:
    right = placed_again([*plain()[:30], *plain()[20:30], *plain()[30:]])
    report = search(spark, None, right)
    assert (report.verdict, found(report), report.source_records) == (Verdict.UNKNOWN, {Cause.UNKNOWN: 10}, None)


def test_duplicates_in_truncated_source_cause_is_unknown(spark: SparkSession) -> None:
    left = placed_again([*plain(1)[:10], plain(1)[9], *plain(1)[10:]])  # 10 and 11 are alike; 10 is gone
    kept = [record for record in left if record.offset > 10]
    report = search(spark, kept, mirrored(left), source_start={0: 11})
    assert (report.verdict, found(report)) == (Verdict.UNKNOWN, {Cause.UNKNOWN: 1})
    # behind what both sides hold, a copy too many is a copy too many
    again = placed_again([*left, left[30]])
    assert found(search(spark, kept, again, source_start={0: 11})) == {Cause.UNKNOWN: 1, Cause.REPLICATOR: 1}


def test_duplicates_in_compacted_source_cause_is_unknown(spark: SparkSession) -> None:
    right = placed_again([*plain()[:30], plain()[20], *plain()[30:]])
    report = search(spark, plain(), right, compacted=True)
    assert (report.verdict, found(report)) == (Verdict.UNKNOWN, {Cause.UNKNOWN: 1})


def test_duplicates_in_with_map_finds_loss_and_duplicate_that_cancel(spark: SparkSession) -> None:
    """Partition 0: 11 is like 10 and was never copied, 10 was copied twice; by number all is well. Partition 1: the two
    records that were written alike are gone from the source, and the map still knows that there were two."""
    left = placed_again([*chain(*(at(one(p), slice(0, 10), 9, slice(10, None)) for p in range(2)))])
    kept = [record for record in left if record.partition == 0 or record.offset > 11]
    right, starts = mirrored(left), {0: 0, 1: 12}
    assert found(search(spark, kept, right, source_start=starts)) == {Cause.PRODUCER: 1, Cause.UNKNOWN: 1}
    by_partition = {0: (Segment(1, 4, 10), Segment(12, 15, 30)), 1: (Segment(1, 4, 41),)}
    report = search(spark, kept, right, source_start=starts, segments=by_partition)
    assert (report.exact, found(report)) == (True, {Cause.PRODUCER: 2, Cause.REPLICATOR: 1})
    seen = [(e.cause, e.partition, e.source_offset, e.target_offset, e.first) for e in report.examples]
    assert seen == [
        (Cause.REPLICATOR, 0, None, 14, 13),
        (Cause.PRODUCER, 0, 11, None, 13),
        (Cause.PRODUCER, 1, 11, 14, 13),
    ]


def test_duplicates_in_empty_topic_is_unknown(spark: SparkSession) -> None:
    report = search(spark, [], [])
    assert (report.verdict, report.compared) == (Verdict.UNKNOWN, False)


def test_duplicates_in_mirror_with_times_of_its_own_is_unknown(spark: SparkSession) -> None:
    """A record that was copied twice has two times there, and equals no other one."""
    left = plain()
    right = [replace(record, at_ms=10_000_000 + n) for n, record in enumerate(placed_again([*left, *left[:3]]))]
    report = duplicates_in("LEFT.orders", frame(spark, right), frame(spark, left), append_time=True)
    assert (report.verdict, report.compared, found(report)) == (Verdict.UNKNOWN, False, {})
    assert "LogAppendTime" in report.reasons[0]
