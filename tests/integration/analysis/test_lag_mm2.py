"""Lag of a flow of the real MirrorMaker 2: no journal of ours, and bounds that hold the truth counted from both logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from fix_engine import Engine, create_topic, produce, read_all, wait_for
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from testbed_mm2 import PARTITIONS, connect_keys, consume_some, copies, wait_for_copies

from bench.mirror_maker import MirrorMaker2
from drlib.analysis.audit.checkpoints import read_checkpoints
from drlib.analysis.lag import mm2_positions
from drlib.analysis.lag.mm2_lag import Mm2Position
from drlib.analysis.lag.report import analyse_lag
from drlib.analysis.lag.result import CHECKPOINTED, LagReport, LagRequest
from drlib.config.settings import load_mirror_settings
from drlib.mirror.mm2.records import Checkpoint, OffsetSync
from drlib.model import Flow, TopicPartition
from drlib.runs.check import Verdict

LAG_MAX = 100


@pytest.fixture(params=["source", "target"])
def mm2(engine: Engine, request: pytest.FixtureRequest) -> Iterator[MirrorMaker2]:
    """Its pairs on either cluster, and no commit that would tell of the last record during the test."""
    engine.extra |= connect_keys(engine.source, engine.target)
    engine.extra |= {"offset-syncs.topic.location": request.param, "offset.lag.max": str(LAG_MAX)}
    engine.extra[f"{engine.target}.offset.flush.interval.ms"] = "600000"
    maker = MirrorMaker2(engine.root / "mm2", engine.properties)
    yield maker
    maker.kill()


@pytest.mark.mm2
@pytest.mark.timeout(300)
def test_analyse_lag_mm2_bounds_contain_true_lag(spark: SparkSession, engine: Engine, mm2: MirrorMaker2) -> None:
    topic, remote = engine.topics, f"{engine.source}.{engine.topics}"
    create_topic(engine.left, topic, PARTITIONS, retention_ms="604800000")
    produce(engine.left, topic, 3000, partitions=PARTITIONS)
    settings, flow = load_mirror_settings(engine.properties), Flow(engine.source, engine.target)
    asked = LagRequest((topic,), window_s=60.0, moments=60)
    before = analyse_lag(spark, settings, flow, asked)
    assert (before.verdict, before.mirror) == (Verdict.UNKNOWN, ())
    assert any("there is no drlib journal" in note for note in before.notes)

    group = f"g-{topic}"
    position = consume_some(engine.left, topic, group, 2000)  # before it starts: it looks for groups every ten minutes
    mm2.start()
    wait_for_copies(engine, 3000)
    produce(engine.left, topic, 160, partitions=PARTITIONS, first=3000)
    wait_for_copies(engine, 3160)
    policy = settings.flow(flow.source, flow.target).policy
    checkpoints = policy.checkpoints_topic(flow.source)

    def seen() -> list[Checkpoint]:
        found = read_checkpoints(settings.clusters[flow.target], checkpoints)
        return [one for one in found if one.group == group]

    wait_for("the group has its checkpoints", lambda: len(seen()) == len(position), 60)
    check(analyse_lag(spark, settings, flow, asked), engine, behind=0)
    mm2.kill()
    produce(engine.left, topic, 900, partitions=PARTITIONS, first=3160)
    report = analyse_lag(spark, settings, flow, asked)
    check(report, engine, behind=900)
    assert all(one.lower_bound is not None and one.lower_bound.records >= 300 - LAG_MAX for one in report.mirror)
    for one in report.mirror:  # both ends over time, and what was written since it died is certain as soon as it was
        assert one.lower_bounds[-1] == one.lower_bound
        upper = {point.at_s: point for point in one.points}
        assert all(low.records <= upper[low.at_s].records for low in one.lower_bounds)
        assert all(low.age_s <= upper[low.at_s].age_s for low in one.lower_bounds)

    by_checkpoint = {one.partition: one for one in report.groups if one.reader == group + CHECKPOINTED}
    assert set(by_checkpoint) == {TopicPartition(remote, number) for number in position}
    there = copies(engine)
    for checkpoint in seen():
        found, number = by_checkpoint[checkpoint.partition], checkpoint.partition.partition
        assert found.cluster == engine.target
        assert found.points[-1].records == len(there[number]) - checkpoint.offset
        unread = len(there[number]) - position[number]  # both logs begin at 0 and have no gaps
        assert found.lower_bound is not None
        assert found.lower_bound.records <= unread <= found.points[-1].records
        assert found.lower_bound.records >= unread - LAG_MAX


def check(report: LagReport, engine: Engine, *, behind: int) -> None:
    """Each partition's truth, from the logs, is between the two bounds; records and seconds."""
    source, target = read_all(engine.left, engine.topics, PARTITIONS), copies(engine)
    left = {number: len(source[number]) - len(target[number]) for number in source}
    assert sum(left.values()) == behind
    assert not report.notes
    assert {one.partition.partition for one in report.mirror} == set(left)
    for one in report.mirror:
        number, most = one.partition.partition, one.points[-1]
        assert one.lower_bound is not None
        assert one.lower_bound.records <= left[number] <= most.records
        assert most.records - one.lower_bound.records <= LAG_MAX
        if left[number]:
            written = source[number][len(target[number])][3] / 1000
            age = most.at_s - written
            assert one.lower_bound.age_s - 0.001 <= age <= most.age_s + 0.001
        assert one.judgement.verdict is not Verdict.FAIL, one.judgement


def test_mm2_positions_parse_pairs_and_checkpoints_and_skip_others(spark: SparkSession) -> None:
    at, other = TopicPartition("flüge", 300), TopicPartition("other", 0)
    syncs = [OffsetSync(at, 150, 251), OffsetSync(other, 1, 1), OffsetSync(at, 2**40, 2**41)]
    (key, value), *_ = written = [(one.key(), one.value()) for one in syncs]
    rows: list[tuple[bytes | None, bytes | None, int]] = [(*pair, n) for n, pair in enumerate(written)]
    rows += [
        (key, value[:15], 7),
        (None, value, 8),
        (key, None, 9),
        (b"\x00\x7fno", b"\xff" * 16, 10),
    ]
    frame = spark.createDataFrame(rows, "key binary, value binary, offset long")
    pairs_frame = mm2_positions.offset_sync_pairs(
        frame.withColumn("timestamp", sf.timestamp_seconds(sf.lit(1_790_000_000))), ["flüge"]
    )
    assert pairs_frame.count() == 2
    assert mm2_positions.newest_pairs(pairs_frame) == (syncs[2],)

    copy = TopicPartition("A.flüge", 7)
    checkpoints = [Checkpoint("gré", copy, 150, 251, "note"), Checkpoint("g", TopicPartition("A.other", 7), 1, 1)]
    (key, value), *_ = written = [(one.key(), one.value()) for one in checkpoints]
    bytes_of: list[tuple[bytes | None, bytes | None, int]] = [(*pair, n) for n, pair in enumerate(written)]
    bytes_of += [
        (key, b"\x00\x01" + value[2:], 3),
        (b"\xff\xff" * 4, value, 4),
        (None, None, 5),
    ]
    frame = spark.createDataFrame(bytes_of, "key binary, value binary, offset long")
    found = mm2_positions.checkpoint_positions(
        frame.withColumn("timestamp", sf.current_timestamp()), ["A.flüge"]
    ).collect()
    assert [(r["reader"], r["topic"], r["partition"], r["position"]) for r in found] == [("gré", "A.flüge", 7, 251)]

    ends = {
        0: 5,
        1: 6,
        2: 9,
        3: 12,
        4: 13,
        99: 13,
    }  # the first offset it may not have copied, by how many more it may have
    there = [("flüge", more, offset) for more in ends for offset in (0, 5, 6, 9, 12)]
    records = spark.createDataFrame(there, "topic string, partition int, offset long")
    positions = {TopicPartition("flüge", more): Mm2Position(3, more) for more in ends}
    written_pairs = pairs(spark, *(WrittenPair(more, 1, 2, 40 + more) for more in ends))
    furthest = mm2_positions.furthest_positions(records, written_pairs, positions, "A->B").collect()
    assert {row["partition"]: row["position"] for row in furthest} == ends


@dataclass(frozen=True)
class WrittenPair:
    """A pair of partition `number` of topic flüge, written at second `at`."""

    number: int
    at: int
    upstream: int
    downstream: int


def pairs(spark: SparkSession, *pairs_written: WrittenPair) -> DataFrame:
    rows = [("flüge", pair.number, pair.at, pair.upstream, pair.downstream, n) for n, pair in enumerate(pairs_written)]
    shape = "topic string, partition int, at long, upstream long, downstream long, sync_offset long"
    return spark.createDataFrame(rows, shape).withColumn("at", sf.timestamp_seconds("at"))


@pytest.mark.parametrize(
    ("written_pairs", "end", "furthest"),
    [
        # 20 records, offsets 0 to 19. Copied as they are, the mirror's end says how far it can have come, whenever.
        ([WrittenPair(0, 1, 0, 0), WrittenPair(0, 2, 5, 5)], 10, {1: 10, 2: 10}),
        # Markers, or records of another producer: the older pair has to leave more room.
        ([WrittenPair(0, 1, 0, 0), WrittenPair(0, 2, 5, 8)], 13, {1: 13, 2: 10}),
        # Set back, it sent 3 to 5 again: before that it may have come further than it can be now.
        ([WrittenPair(0, 1, 5, 5), WrittenPair(0, 2, 3, 6)], 9, {1: 9, 2: 6}),
        # The mirror was re-created, or records were left out: earlier pairs say nothing.
        ([WrittenPair(0, 1, 0, 0), WrittenPair(0, 2, 2, 2), WrittenPair(0, 3, 9, 5)], 7, {3: 11}),
        ([WrittenPair(0, 1, 9, 9), WrittenPair(0, 2, 10, 0)], 3, {2: 13}),
        # All may be over.
        ([WrittenPair(0, 1, 18, 18)], 40, {1: 20}),
    ],
)
def test_furthest_positions_are_limited_by_mirror_end(
    spark: SparkSession, written_pairs: list[WrittenPair], end: int, furthest: dict[int, int]
) -> None:
    records = spark.createDataFrame([("flüge", 0, n) for n in range(20)], "topic string, partition int, offset long")
    last = written_pairs[-1]
    positions = {TopicPartition("flüge", 0): Mm2Position(last.upstream + 1, end - last.downstream - 1)}
    rows = mm2_positions.furthest_positions(records, pairs(spark, *written_pairs), positions, "A->B").collect()
    assert {int(row["at"].timestamp()): row["position"] for row in rows} == furthest
