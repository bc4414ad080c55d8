"""The audit on literal topics with planted faults: each is found and named, and nothing else is reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from record_frames import BEGIN, Record, frame, mirrored, placed_again, source
from second_opinion import second_opinion

from drlib.analysis.audit.compaction import Cleaners
from drlib.analysis.audit.compare import audit_frames
from drlib.analysis.audit.result import AuditResult, Fault
from drlib.analysis.spark.topics import DAY_MS, with_identity
from drlib.mirror.mm2.records import Checkpoint
from drlib.model import TopicPartition
from drlib.runs.check import Verdict


def audit(spark: SparkSession, left: list[Record], right: list[Record], **starts: Any) -> AuditResult:
    return audit_frames(frame(spark, left), frame(spark, right), **starts)


def found(result: AuditResult) -> dict[Fault, int]:
    counts = {
        Fault.MISSING: result.missing,
        Fault.INVENTED: result.invented,
        Fault.DUPLICATED: result.duplicated,
        Fault.OUT_OF_ORDER: result.out_of_order,
        Fault.ALTERED: result.altered,
    }
    return {fault: count for fault, count in counts.items() if count}


def drop(records: list[Record]) -> list[Record]:
    return records[:20] + records[21:]


def duplicate(records: list[Record]) -> list[Record]:
    return placed_again([*records[:21], records[20], *records[21:]])


def swap(records: list[Record]) -> list[Record]:
    # 20 and 25 have the same key; what lies between them has others
    return placed_again([*records[:20], records[25], *records[21:25], records[20], *records[26:]])


def flip_value(records: list[Record]) -> list[Record]:
    value = records[20].value
    assert value
    return [*records[:20], replace(records[20], value=bytes([value[0] ^ 1]) + value[1:]), *records[21:]]


def flip_key(records: list[Record]) -> list[Record]:
    return [*records[:20], replace(records[20], key=b"kez-0"), *records[21:]]


def reorder_headers(records: list[Record]) -> list[Record]:
    headers = records[20].headers
    return [*records[:20], replace(records[20], headers=(headers[1], headers[0], *headers[2:])), *records[21:]]


def null_header_to_empty(records: list[Record]) -> list[Record]:
    headers = records[20].headers
    assert headers[1] == ("note", None)
    return [*records[:20], replace(records[20], headers=(headers[0], ("note", b""), *headers[2:])), *records[21:]]


def empty_value_to_null(records: list[Record]) -> list[Record]:
    assert records[18].value == b""
    return [*records[:18], replace(records[18], value=None), *records[19:]]


def null_key_to_empty(records: list[Record]) -> list[Record]:
    assert records[17].key is None
    return [*records[:17], replace(records[17], key=b""), *records[18:]]


def later_by_one(records: list[Record]) -> list[Record]:
    return [*records[:20], replace(records[20], at_ms=records[20].at_ms + 1), *records[21:]]


def invent(records: list[Record]) -> list[Record]:
    foreign = Record(
        records[0].partition,
        0,
        2050,
        b"key-0",
        b"never sent",
        (("id", b"777777"),) if len(records[0].headers) == 3 else (),
    )
    return placed_again([*records[:21], foreign, *records[21:]])


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "contents"])
def test_audit_faithful_mirror_passes(spark: SparkSession, ids: bool) -> None:
    result = audit(spark, source(ids), mirrored(source(ids)))
    assert result.verdict is Verdict.PASS
    assert found(result) == {}
    assert second_opinion([r.row() for r in source(ids)], [r.row() for r in mirrored(source(ids))]) == {}
    assert (result.source_records, result.target_records, result.rpo_records, result.rpo_seconds) == (80, 80, 0, 0.0)
    assert result.missing_in_tail is True
    assert result.examples == ()
    assert result.reasons == ()
    assert [(row.partition, row.source_records) for row in result.per_partition] == [(0, 40), (1, 40)]


# Each fault in a partition of its own: what is planted, what it is, the source offset it happens to, the evidence.
PLANTS: tuple[tuple[Callable[[list[Record]], list[Record]], Fault | None, int | None, str], ...] = (
    (drop, Fault.MISSING, 20, "a hole"),
    (duplicate, Fault.DUPLICATED, None, "on the target already"),
    (swap, Fault.OUT_OF_ORDER, 20, "after source offset 25 of the same key"),
    (invent, Fault.INVENTED, None, "not on the source"),
    (flip_value, Fault.ALTERED, 20, "changed: value"),
    (flip_key, Fault.ALTERED, 20, "changed: key"),
    (reorder_headers, Fault.ALTERED, 20, "changed: headers"),
    (null_header_to_empty, Fault.ALTERED, 20, "changed: headers"),
    (empty_value_to_null, Fault.ALTERED, 18, "changed: value"),
    (null_key_to_empty, Fault.ALTERED, 17, "changed: key"),
    (later_by_one, Fault.ALTERED, 20, "changed: timestamp"),
    (list, None, None, ""),  # a faithful partition among them
)


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "contents"])
def test_audit_planted_fault_is_the_only_one_found(spark: SparkSession, ids: bool) -> None:
    left = source(ids, len(PLANTS))
    right: list[Record] = []
    for partition, (plant, *_) in enumerate(PLANTS):
        right += plant(mirrored([record for record in left if record.partition == partition]))
    result = audit(spark, left, right)
    assert result.verdict is Verdict.FAIL
    assert found(result) == {**dict.fromkeys(Fault, 1), Fault.ALTERED: 7}
    expected = second_opinion([record.row() for record in left], [record.row() for record in right])
    assert expected == {fault.value: count for fault, count in found(result).items()}
    assert result.missing_in_tail is False
    for row, (_, fault, number, detail) in zip(result.per_partition, PLANTS, strict=True):
        counts = {kind: getattr(row, kind.name.lower()) for kind in Fault}
        assert counts == {**dict.fromkeys(Fault, 0), **({fault: 1} if fault else {})}, row
        seen = [
            (example.fault, example.source_offset, example.detail)
            for example in result.examples
            if example.partition == row.partition
        ]
        assert seen == ([(fault, number, detail)] if fault else [])


def test_audit_missing_tail_is_rpo_and_no_fault(spark: SparkSession) -> None:
    left = source(True)
    right = [record for record in mirrored(left) if record.partition == 0 or record.offset < 33]
    result = audit(spark, left, right)
    assert result.verdict is Verdict.PASS
    assert found(result) == {Fault.MISSING: 10}
    assert (result.rpo_records, result.missing_in_tail) == (10, True)
    assert result.rpo_seconds == pytest.approx(1.0)
    assert [(example.partition, example.source_offset) for example in result.examples] == [
        (1, n) for n in range(30, 40)
    ]
    assert {example.detail for example in result.examples} == {"in the tail"}
    assert [example.record_id for example in result.examples] == [1000 + n for n in range(30, 40)]


def test_audit_partition_without_copies_is_all_tail(spark: SparkSession) -> None:
    left = source(False)
    result = audit(spark, left, [record for record in mirrored(left) if record.partition == 0])
    assert (result.missing, result.missing_in_tail) == (40, True)
    assert result.rpo_seconds == pytest.approx(3.9)


def test_audit_equal_source_records_are_no_duplicates(spark: SparkSession) -> None:
    left = source(False)
    assert left[7].row()[2:] == left[8].row()[2:]
    result = audit(spark, left, mirrored(left[:8] + left[9:]))
    assert found(result) == {Fault.MISSING: 1}
    assert (result.examples[0].source_offset, result.missing_in_tail) == (8, False)


def test_audit_second_copy_with_other_content_is_duplicate(spark: SparkSession) -> None:
    left = source(True)
    again = replace(left[20], value=b"something else")
    result = audit(spark, left, placed_again([*left[:30], again, *left[30:]]))
    assert found(result) == {Fault.DUPLICATED: 1}


def test_audit_resent_range_is_duplicates_not_disorder(spark: SparkSession) -> None:
    left = source(True)
    result = audit(spark, left, placed_again([*left[:30], *left[20:30], *left[30:]]))
    assert found(result) == {Fault.DUPLICATED: 10}
    assert [example.target_offset for example in result.examples] == list(range(31, 41))


def test_audit_order_between_keys_is_ignored(spark: SparkSession) -> None:
    left = source(True)
    assert left[20].key != left[21].key
    result = audit(spark, left, placed_again([*left[:20], left[21], left[20], *left[22:]]))
    assert result.verdict is Verdict.PASS


def test_audit_several_faults_are_classified(spark: SparkSession) -> None:
    left = source(True)
    right = mirrored(left)
    right = [*right[:10], replace(right[10], value=b"bad"), *right[11:15], *right[16:35], *right[40:]]
    result = audit(spark, left, placed_again([*right, right[-1]]))
    assert found(result) == {Fault.MISSING: 6, Fault.ALTERED: 1, Fault.DUPLICATED: 1}
    assert result.per_partition[0].holes == 1
    assert result.missing_in_tail is False


def test_audit_examples_are_bounded_and_counts_are_not(spark: SparkSession) -> None:
    left = source(True)
    result = audit_frames(frame(spark, left), frame(spark, mirrored(left)[40:]), examples=3)
    assert result.missing == 40
    assert [example.source_offset for example in result.examples] == [0, 1, 2]


def test_audit_records_deleted_from_source_are_unseen_not_invented(spark: SparkSession) -> None:
    left = source(True)
    result = audit(spark, left[10:], mirrored(left), source_start={0: 10, 1: 0})
    assert result.verdict is Verdict.UNKNOWN
    assert found(result) == {}
    assert result.per_partition[0].unseen == 10


def test_audit_records_deleted_from_target_are_unseen_not_missing(spark: SparkSession) -> None:
    left = source(True)
    result = audit(spark, left, mirrored(left)[10:], target_start={0: 13, 1: 3})
    assert result.verdict is Verdict.UNKNOWN
    assert found(result) == {}
    assert result.per_partition[0].unseen == 10


def test_audit_log_that_has_expired_on_one_side_proves_nothing(spark: SparkSession) -> None:
    """Nothing is on both sides: what the other log has may be as old as what was deleted."""
    left = source(True, 1)
    for ours, theirs, starts in (
        ([], mirrored(left), {"source_start": {0: 40}}),
        (left, [], {"target_start": {0: 43}}),
    ):
        result = audit(spark, ours, theirs, **starts)
        assert (result.verdict, found(result)) == (Verdict.UNKNOWN, {})
        assert result.per_partition[0].unseen == 40


def test_audit_ids_that_records_share_do_not_make_deleted_records_faults(spark: SparkSession) -> None:
    """An application's `id` may be that of a customer: the copies of what was deleted have the ids of later records."""
    left = [
        replace(record, headers=(("id", b"%d" % (record.offset % 3)),), value=b"%d" % record.offset)
        for record in source(True, 1)
    ]
    behind = mirrored(left)[:-2]  # what is not mirrored yet has these ids, too
    result = audit(spark, left[10:], behind, source_start={0: 10})
    assert (result.verdict, found(result)) == (Verdict.UNKNOWN, {Fault.MISSING: 2})
    assert (result.missing_in_tail, result.per_partition[0].unseen) == (True, 10)


def test_audit_fault_fails_despite_unseen_records(spark: SparkSession) -> None:
    left = source(True)
    result = audit(spark, left[10:], drop(mirrored(left)), source_start={0: 10})
    assert result.verdict is Verdict.FAIL
    assert found(result) == {Fault.MISSING: 1}


def test_audit_empty_source_is_unknown(spark: SparkSession) -> None:
    assert audit(spark, [], []).verdict is Verdict.UNKNOWN
    result = audit(spark, [], mirrored(source(True)))
    assert (result.verdict, result.invented) == (Verdict.FAIL, 80)


NOW_MS = round(BEGIN.timestamp() * 1000) + 10 * DAY_MS
BOTH = Cleaners(DAY_MS, DAY_MS, NOW_MS)
SOURCE_ONLY, TARGET_ONLY = Cleaners(DAY_MS, None, NOW_MS), Cleaners(None, DAY_MS, NOW_MS)


def keyed(partition: int = 0) -> list[Record]:
    """60 records of one partition with ten keys; the last of `key-9` is a tombstone."""
    return [
        Record(
            partition,
            n,
            n * 100,
            b"key-%d" % (n % 10),
            None if n == 59 else b"value-%d-%d" % (partition, n),
            (("note", None),),
        )
        for n in range(60)
    ]


def cleaned(records: list[Record], upto: int) -> list[Record]:
    """What a cleaner leaves that came as far as `upto`: the last of each key there, and everything behind."""
    last = {record.key: record.offset for record in records}
    return [record for record in records if record.offset >= upto or last[record.key] == record.offset]


def test_audit_records_removed_by_log_cleaner_are_no_fault(spark: SparkSession) -> None:
    """Each partition a case: the source cleaned, and its last key deleted; the target so; both, to different places."""
    whole = [keyed(p) for p in range(4)]
    no_nine = [record for record in whole[1] if record.key != b"key-9"]
    left = [*cleaned(whole[0], 60), *no_nine, *whole[2], *cleaned(whole[3], 20)]
    right = [
        *mirrored(whole[0]),
        *mirrored(whole[1]),
        *mirrored(cleaned(whole[2], 60)),
        *mirrored(cleaned(whole[3], 50)),
    ]
    result = audit_frames(frame(spark, left), frame(spark, right), cleaners=BOTH)
    assert (result.verdict, found(result)) == (Verdict.PASS, {})
    assert result.compacted == 50 + 6 + 50 + 30
    # the same without any cleaner is what it looks like
    blunt = audit(spark, left, right)
    assert (blunt.verdict, found(blunt)) == (Verdict.FAIL, {Fault.INVENTED: 56, Fault.MISSING: 80})


@pytest.mark.long
def test_audit_log_cleaner_does_not_excuse_last_record_or_young_tombstone(spark: SparkSession) -> None:
    whole = keyed()
    lost = [record for record in mirrored(whole) if record.offset - 3 != 52]
    result = audit_frames(frame(spark, whole), frame(spark, lost), cleaners=TARGET_ONLY)
    assert (result.verdict, found(result)) == (Verdict.FAIL, {Fault.MISSING: 1})
    assert (result.examples[0].source_offset, result.examples[0].detail) == (52, "a hole")
    # a tombstone too young to have been removed: the key is lost
    young = Cleaners(None, 11 * DAY_MS, NOW_MS)
    longer = [*whole, replace(whole[0], offset=60, at_ms=6000)]
    gone = [record for record in mirrored(longer) if record.key != b"key-9"]
    kept = audit_frames(frame(spark, longer), frame(spark, gone), cleaners=young)
    assert (kept.verdict, found(kept)) == (Verdict.FAIL, {Fault.MISSING: 6})
    old = audit_frames(frame(spark, longer), frame(spark, gone), cleaners=TARGET_ONLY)
    assert (old.verdict, old.compacted) == (Verdict.PASS, 6)


@pytest.mark.long
def test_audit_compacted_source_extra_copy_unknown_altered_found(
    spark: SparkSession,
) -> None:
    whole = keyed()
    again = placed_again([*whole[:30], whole[20], *whole[30:]])
    result = audit_frames(frame(spark, whole), frame(spark, again), cleaners=SOURCE_ONLY)
    assert (result.verdict, found(result)) == (Verdict.UNKNOWN, {})
    flipped = audit_frames(
        frame(spark, whole),
        frame(spark, [*whole[:55], replace(whole[55], value=b"x"), *whole[56:]]),
        cleaners=SOURCE_ONLY,
    )
    assert (flipped.verdict, found(flipped)) == (Verdict.FAIL, {Fault.ALTERED: 1})


def test_audit_equal_records_with_deleted_first_are_no_duplicates(spark: SparkSession) -> None:
    left = source(False, 1)
    assert left[7].row()[2:] == left[8].row()[2:]
    result = audit(spark, left[8:], mirrored(left), source_start={0: 8})
    assert (result.verdict, found(result)) == (Verdict.UNKNOWN, {})


def test_audit_copy_of_aborted_record_is_named(spark: SparkSession) -> None:
    left = source(False, 1)
    committed = [*left[:20], *left[21:]]
    result = audit_frames(frame(spark, committed), frame(spark, mirrored(left)), uncommitted=frame(spark, left))
    assert found(result) == {Fault.INVENTED: 1}
    assert (result.examples[0].target_offset, result.examples[0].detail) == (23, "aborted on the source")


def test_audit_checkpoints_off_by_one_is_found(spark: SparkSession) -> None:
    left = source(False, 1)
    at = TopicPartition("LEFT.orders", 0)
    checkpoints = [
        Checkpoint("exact", at, 20, 23),
        Checkpoint("behind", at, 20, 22),
        Checkpoint("ahead", at, 20, 24),
        Checkpoint("at the end", at, 40, 43),
        Checkpoint("at the beginning", at, 0, 3),
        Checkpoint("elsewhere", TopicPartition("LEFT.orders", 5), 0, 0),
        Checkpoint("another topic", TopicPartition("LEFT.other", 0), 0, 9),
    ]
    result = audit_frames(
        frame(spark, left), frame(spark, mirrored(left)), checkpoints=checkpoints, remote_topic="LEFT.orders"
    )
    judged = {one.group: (one.re_read, one.skipped, one.verdict) for one in result.checkpoints}
    assert judged == {
        "exact": (0, 0, Verdict.PASS),
        "behind": (1, 0, Verdict.FAIL),
        "ahead": (0, 1, Verdict.FAIL),
        "at the end": (0, 0, Verdict.PASS),
        "at the beginning": (0, 0, Verdict.PASS),
        "elsewhere": (None, None, Verdict.UNKNOWN),
    }


@pytest.mark.long
@pytest.mark.timeout(600)
def test_audit_one_of_each_fault_in_a_million_records_is_found(spark: SparkSession) -> None:
    text = sf.col("id").cast("string").cast("binary")
    key = sf.concat(sf.lit("key-"), (sf.col("id") % 997).cast("string")).cast("binary")
    base = spark.range(1_000_000).select(
        (sf.col("id") % 8).cast("int").alias("partition"),
        sf.floor(sf.col("id") / 8).alias("offset"),
        sf.timestamp_millis(sf.col("id") + 1_790_000_000_000).alias("timestamp"),
        key.alias("key"),
        sf.when(sf.col("id") % 101 != 0, text).alias("value"),
        sf.array(sf.struct(sf.lit("note").alias("key"), text.alias("value"))).alias("headers"),
    )
    clean = audit_frames(with_identity(base), with_identity(base.withColumn("offset", sf.col("offset") + 1)))
    assert (clean.verdict, found(clean), clean.source_records) == (Verdict.PASS, {}, 1_000_000)

    def number(offset: int, partition: int):  # type: ignore[no-untyped-def]
        return (sf.col("partition") == partition) & (sf.col("offset") == offset)

    again = base.where(number(60_000, 3)).withColumn("offset", sf.lit(200_000).cast("bigint"))
    value = sf.when(number(50_001, 1), sf.lit(b"flipped")).otherwise(sf.col("value"))
    later = sf.col("timestamp") + sf.expr("interval 1 millisecond")
    timestamp = sf.when(number(50_002, 2), later).otherwise(sf.col("timestamp"))
    torn = (
        base.where(~number(50_000, 0)).withColumn("value", value).withColumn("timestamp", timestamp).unionByName(again)
    )
    result = audit_frames(with_identity(base), with_identity(torn))
    assert found(result) == {Fault.MISSING: 1, Fault.ALTERED: 2, Fault.DUPLICATED: 1}
    seen = {(one.fault, one.partition, one.source_offset, one.detail) for one in result.examples}
    assert seen == {
        (Fault.MISSING, 0, 50_000, "a hole"),
        (Fault.ALTERED, 1, 50_001, "changed: value"),
        (Fault.ALTERED, 2, 50_002, "changed: timestamp"),
        (Fault.DUPLICATED, 3, None, "on the target already"),
    }
