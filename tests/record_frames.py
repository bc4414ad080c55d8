"""Records of a topic and of its mirror as Spark frames, with faults planted in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from drlib.analysis.spark.topics import with_identity

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
