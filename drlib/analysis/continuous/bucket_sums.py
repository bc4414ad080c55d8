"""Records as sums per partition and bucket of time, stored so that no batch is ever counted twice.

Rules: the sums of a batch are one folder of Parquet, `batch-N`, overwritten when the batch is run again: Structured Streaming
runs an uncommitted batch again with the same offsets, and only folders of committed batches are read. So a killed process
leaves nothing that counts twice, and nothing uncounted. Many batches are folded into one, `upto-N`, which counts once Spark's
`_SUCCESS` is in it; its inputs are deleted after that.
Hashes are summed in halves of 32 bits, since Spark's sums of longs fail on overflow and decimals take a third of the
speed; a bucket may hold 2^31 records. A record is *late* when an earlier batch had reached a later bucket of its partition.
Columns of sums: topic string, partition int, bucket_ms long, records, bytes, content_low, content_high, check_low,
check_high, first, last, changed_ms, late long.
Not for: what unequal sums mean (`drlib.analysis.continuous.rules`).
"""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as sf

from drlib import clock, decoding
from drlib.analysis.continuous.rules import BucketSums
from drlib.analysis.spark.topics import field_hashes, salted_hash

PLACE: Final = ("topic", "partition", "bucket_ms")
COUNTS: Final = ("records", "bytes", "content_low", "content_high", "check_low", "check_high")
COLUMNS: Final = (*PLACE, *COUNTS, "first", "last", "changed_ms", "late")
_SCHEMA: Final = (
    "topic string, partition int, bucket_ms long, records long, bytes long, content_low long, content_high long,"
    " check_low long, check_high long, first long, last long, changed_ms long, late long, batch long"
)
_LOW: Final = 0xFFFFFFFF
FOLD_AT: Final = 200  # batches; with one every ten seconds a day folds 43 times


def bucket_sums(records: DataFrame, bucket_ms: int) -> DataFrame:
    """Sums of records with `read_topic`'s columns and topic; `SumsFolder` adds `changed_ms` and `late`."""
    at_ms = sf.unix_millis("timestamp")
    hashed = records.select(
        "topic",
        "partition",
        "offset",
        (at_ms - sf.pmod(at_ms, sf.lit(bucket_ms))).alias("bucket_ms"),
        _size().alias("bytes"),
        sf.xxhash64(*field_hashes().values()).alias("content"),
        salted_hash().alias("check"),
    )
    return hashed.groupBy(*PLACE).agg(
        sf.count("*").alias("records"),
        sf.sum("bytes").alias("bytes"),
        sf.sum(sf.col("content").bitwiseAND(sf.lit(_LOW))).alias("content_low"),
        sf.sum(sf.shiftright("content", 32)).alias("content_high"),
        sf.sum(sf.col("check").bitwiseAND(sf.lit(_LOW))).alias("check_low"),
        sf.sum(sf.shiftright("check", 32)).alias("check_high"),
        sf.min("offset").alias("first"),
        sf.max("offset").alias("last"),
    )


def _size() -> Column:
    """Bytes of key, value and headers."""
    nothing = sf.lit(0)
    headers = sf.aggregate(
        sf.col("headers"),
        sf.lit(0),
        lambda total, header: (
            total + sf.octet_length(header["key"]) + sf.coalesce(sf.octet_length(header["value"]), sf.lit(0))
        ),
    )
    sizes = [sf.coalesce(sf.octet_length(name), nothing) for name in ("key", "value")]
    return (sizes[0] + sizes[1] + sf.coalesce(headers, nothing)).cast("long")


class SumsFolder:
    """The sums of one side. `write` is for the thread of the streaming query, the rest for any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = threading.Lock()

    def write(self, sums: DataFrame, batch: int) -> None:
        """Store the sums of `batch`, replacing those of an earlier attempt; all batches before it are committed."""
        spark = sums.sparkSession
        if len(self._batches("batch", batch - 1)) >= FOLD_AT:
            self._fold(spark, batch - 1)
        numbered = sums.withColumns(
            {
                "changed_ms": sf.lit(clock.now_ms()).cast("long"),
                "late": sf.lit(None).cast("long"),
                "batch": sf.lit(batch).cast("long"),
            }
        )
        numbered.coalesce(1).write.mode("overwrite").parquet(str(self.path / f"batch-{batch}"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Inside, no file that `totals` reads is deleted."""
        with self._files:
            yield

    def totals(self, spark: SparkSession, committed: int) -> DataFrame:
        """One row for each bucket, from all batches up to `committed` (-1: none)."""
        return _totals(self._rows(spark, committed))

    def _rows(self, spark: SparkSession, committed: int) -> DataFrame:
        folded = max(self._folds(committed), default=-1)
        paths = [self.path / f"batch-{number}" for number in self._batches("batch", committed) if number > folded]
        if folded >= 0:
            paths.append(self.path / f"upto-{folded}")
        if not paths:
            return spark.createDataFrame([], _SCHEMA)
        return spark.read.schema(_SCHEMA).parquet(*(str(path) for path in paths))

    def _fold(self, spark: SparkSession, upto: int) -> None:
        """Write the sums of all batches up to `upto` as one folder, then delete theirs."""
        if upto not in self._folds(upto):
            rows = _totals(self._rows(spark, upto)).withColumn("batch", sf.lit(upto).cast("long"))
            rows.coalesce(1).write.mode("overwrite").parquet(str(self.path / f"upto-{upto}"))
        with self._files:
            for number in self._batches("batch", upto):
                shutil.rmtree(self.path / f"batch-{number}")
            for number in self._batches("upto", upto - 1):
                shutil.rmtree(self.path / f"upto-{number}")

    def _folds(self, upto: int) -> list[int]:
        """Fold folders that were written completely."""
        return [n for n in self._batches("upto", upto) if (self.path / f"upto-{n}" / "_SUCCESS").exists()]

    def _batches(self, kind: str, upto: int) -> list[int]:
        names = (path.name.removeprefix(f"{kind}-") for path in self.path.glob(f"{kind}-*"))
        return sorted(number for name in names if 0 <= (number := decoding.integer_or(-1, name)) <= upto)


def _totals(rows: DataFrame) -> DataFrame:
    before = Window.partitionBy("topic", "partition").orderBy("batch").rangeBetween(Window.unboundedPreceding, -1)
    late = sf.when(sf.col("bucket_ms") < sf.max("bucket_ms").over(before), sf.col("records")).otherwise(sf.lit(0))
    numbered = rows.withColumn("late", sf.coalesce("late", late))
    return numbered.groupBy(*PLACE).agg(
        *(sf.sum(name).alias(name) for name in COUNTS),
        sf.min("first").alias("first"),
        sf.max("last").alias("last"),
        sf.max("changed_ms").alias("changed_ms"),
        sf.sum("late").alias("late"),
    )


def join_buckets(source: DataFrame, target: DataFrame) -> DataFrame:
    """A row for each bucket of either side: topic, partition, bucket_ms, source and target as structs, equal boolean."""
    fields = [name for name in COLUMNS if name not in PLACE]
    sides = [
        frame.select(*PLACE, sf.struct(*fields).alias(name)) for frame, name in ((source, "source"), (target, "target"))
    ]
    same = [sf.col(f"source.{name}") == sf.col(f"target.{name}") for name in COUNTS]
    equal = same[0]
    for column in same[1:]:
        equal = equal & column
    return sides[0].join(sides[1], [*PLACE], "full_outer").withColumn("equal", sf.coalesce(equal, sf.lit(False)))


def row_sums(row: Row | None) -> BucketSums | None:
    """One side of a row of `join_buckets`."""
    if row is None:
        return None
    return BucketSums(
        records=row["records"],
        bytes=row["bytes"],
        content=(row["content_low"] + (row["content_high"] << 32)) % 2**64,
        check=(row["check_low"] + (row["check_high"] << 32)) % 2**64,
        first=row["first"],
        last=row["last"],
        changed_ms=row["changed_ms"],
        late=row["late"],
    )
