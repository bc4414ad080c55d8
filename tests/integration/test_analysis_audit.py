"""The audit on literal topics with planted faults: each is found and named, and nothing else is reported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

from drlib.analysis.audit import failover_audit
from drlib.analysis.result import AuditResult, Fault, Verdict
from drlib.analysis.topics import with_identity

SCHEMA = (
    "partition int, offset long, timestamp timestamp, key binary, value binary,"
    " headers array<struct<key: string, value: binary>>"
)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Record:
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def row(self) -> tuple[object, ...]:
        timestamp = BEGIN + timedelta(milliseconds=self.at_ms)
        return (self.partition, self.offset, timestamp, self.key, self.value, list(self.headers) or None)


def source(ids: bool, partitions: int = 2) -> list[Record]:
    """Partitions of 40 records, five keys and keyless ones, 100 ms apart; numbers 7 and 8 of each are identical."""
    records = []
    for partition in range(partitions):
        for number in range(40):
            content = 7 if number == 8 else number
            headers: Headers = (("kind", b"departure"), ("note", b"" if content % 2 else None))
            records.append(
                Record(
                    partition,
                    number,
                    content * 100,
                    None if content % 6 == 5 else b"key-%d" % (content % 5),
                    b"" if content % 9 == 0 else b"value-%d-%d" % (partition, content),
                    (*headers, ("id", b"%d" % (partition * 1000 + number))) if ids else headers,
                )
            )
    return records


def mirrored(records: list[Record], shift: int = 3) -> list[Record]:
    """What a faithful mirror holds: each partition in the same order, placed somewhere else."""
    return [replace(record, offset=record.offset + shift) for record in records]


def placed_again(records: list[Record]) -> list[Record]:
    """The records of each partition in the order given, at consecutive offsets."""
    counts: dict[int, int] = {}
    placed = []
    for record in records:
        offset = counts[record.partition] = counts.get(record.partition, 0) + 1
        placed.append(replace(record, offset=offset))
    return placed


def frame(spark: SparkSession, records: list[Record]) -> DataFrame:
    return with_identity(spark.createDataFrame([record.row() for record in records], SCHEMA))


def audit(spark: SparkSession, left: list[Record], right: list[Record], **starts: dict[int, int]) -> AuditResult:
    return failover_audit(frame(spark, left), frame(spark, right), **starts)


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
def test_a_faithful_mirror_passes(spark: SparkSession, ids: bool) -> None:
    result = audit(spark, source(ids), mirrored(source(ids)))
    assert result.verdict is Verdict.PASS
    assert found(result) == {}
    assert (result.source_records, result.target_records, result.rpo_records, result.rpo_seconds) == (80, 80, 0, 0.0)
    assert result.missing_in_tail is True
    assert result.examples == ()
    assert result.reasons == ()
    assert [(row.partition, row.source_records) for row in result.per_partition] == [(0, 40), (1, 40)]


# Each fault in a partition of its own: what is planted, what it is, the source offset it happens to, the evidence.
PLANTS = (
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
def test_every_planted_fault_is_found_and_named_and_nothing_else_is(spark: SparkSession, ids: bool) -> None:
    left = source(ids, len(PLANTS))
    right: list[Record] = []
    for partition, (plant, *_) in enumerate(PLANTS):
        right += plant(mirrored([record for record in left if record.partition == partition]))
    result = audit(spark, left, right)
    assert result.verdict is Verdict.FAIL
    assert found(result) == {**dict.fromkeys(Fault, 1), Fault.ALTERED: 7}
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


def test_the_tail_is_the_rpo_and_no_fault(spark: SparkSession) -> None:
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


def test_a_partition_that_never_arrived_is_all_tail(spark: SparkSession) -> None:
    left = source(False)
    result = audit(spark, left, [record for record in mirrored(left) if record.partition == 0])
    assert (result.missing, result.missing_in_tail) == (40, True)
    assert result.rpo_seconds == pytest.approx(3.9)


def test_what_the_source_holds_twice_is_no_duplicate_and_losing_one_copy_is_a_hole(spark: SparkSession) -> None:
    left = source(False)
    assert left[7].row()[2:] == left[8].row()[2:]
    result = audit(spark, left, mirrored(left[:8] + left[9:]))
    assert found(result) == {Fault.MISSING: 1}
    assert (result.examples[0].source_offset, result.missing_in_tail) == (8, False)


def test_a_second_copy_with_other_content_is_a_duplicate(spark: SparkSession) -> None:
    left = source(True)
    again = replace(left[20], value=b"something else")
    result = audit(spark, left, placed_again([*left[:30], again, *left[30:]]))
    assert found(result) == {Fault.DUPLICATED: 1}


def test_a_resent_stretch_is_duplicates_and_not_disorder(spark: SparkSession) -> None:
    left = source(True)
    result = audit(spark, left, placed_again([*left[:30], *left[20:30], *left[30:]]))
    assert found(result) == {Fault.DUPLICATED: 10}
    assert [example.target_offset for example in result.examples] == list(range(31, 41))


def test_order_between_keys_is_not_promised(spark: SparkSession) -> None:
    left = source(True)
    assert left[20].key != left[21].key
    result = audit(spark, left, placed_again([*left[:20], left[21], left[20], *left[22:]]))
    assert result.verdict is Verdict.PASS


def test_several_faults_at_once_are_told_apart(spark: SparkSession) -> None:
    left = source(True)
    right = mirrored(left)
    right = [*right[:10], replace(right[10], value=b"bad"), *right[11:15], *right[16:35], *right[40:]]
    result = audit(spark, left, placed_again([*right, right[-1]]))
    assert found(result) == {Fault.MISSING: 6, Fault.ALTERED: 1, Fault.DUPLICATED: 1}
    assert result.per_partition[0].holes == 1
    assert result.missing_in_tail is False


def test_examples_are_bounded_and_counts_are_not(spark: SparkSession) -> None:
    left = source(True)
    result = failover_audit(frame(spark, left), frame(spark, mirrored(left)[40:]), examples=3)
    assert result.missing == 40
    assert [example.source_offset for example in result.examples] == [0, 1, 2]


def test_what_the_source_no_longer_has_is_unknown_and_not_invented(spark: SparkSession) -> None:
    left = source(True)
    result = audit(spark, left[10:], mirrored(left), left_start={0: 10, 1: 0})
    assert result.verdict is Verdict.UNKNOWN
    assert found(result) == {}
    assert result.per_partition[0].unseen == 10


def test_what_the_target_no_longer_has_is_unknown_and_not_missing(spark: SparkSession) -> None:
    left = source(True)
    result = audit(spark, left, mirrored(left)[10:], right_start={0: 13, 1: 3})
    assert result.verdict is Verdict.UNKNOWN
    assert found(result) == {}
    assert result.per_partition[0].unseen == 10


def test_a_fault_stays_a_fault_when_something_is_unseen(spark: SparkSession) -> None:
    left = source(True)
    result = audit(spark, left[10:], drop(mirrored(left)), left_start={0: 10})
    assert result.verdict is Verdict.FAIL
    assert found(result) == {Fault.MISSING: 1}


def test_an_empty_source_proves_nothing(spark: SparkSession) -> None:
    assert audit(spark, [], []).verdict is Verdict.UNKNOWN
    result = audit(spark, [], mirrored(source(True)))
    assert (result.verdict, result.invented) == (Verdict.FAIL, 80)
