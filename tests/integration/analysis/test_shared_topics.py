"""A topic that both directions copy under one name, on real brokers: each direction is analysed by itself."""

from __future__ import annotations

import itertools
import json
import random
import threading
from pathlib import Path

import pytest
from fix_engine import Engine, commit, create_topic, produce, wait_for
from fix_two_way import RIGHTS_FIRST, worker
from pyspark.sql import SparkSession

from drlib.analysis.audit.staged import audit_topics
from drlib.analysis.duplicates.result import Cause
from drlib.analysis.lag.report import analyse_lag
from drlib.analysis.lag.result import LagReport, LagRequest
from drlib.analysis.sessions.analysed_flow import AnalysedFlow
from drlib.analysis.sessions.continuous_audit import ContinuousAudit
from drlib.analysis.sessions.duplicates_audit import DuplicatesAudit
from drlib.analysis.sessions.nightly_audit import NightlyAudit
from drlib.analysis.sessions.session import AnalysisRun
from drlib.analysis.spark.parts import only_inside
from drlib.analysis.spark.shares import with_shares
from drlib.analysis.spark.topics import pin_range
from drlib.config.both_ways.shared_topics import TopicsShared
from drlib.config.settings import load_mirror_settings
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.admin.descriptions import Range, Record
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.error_codes import raise_for
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.mirror.read_batches import locate
from drlib.model import Flow, TopicPartition
from drlib.runs.check import Verdict

LANES = 2  # of fixture `both`
LEFTS, RIGHTS = 700, 450
LATE = 40, 30


def partitions_of(topic: str) -> int:
    """So many that each lane has one."""
    return next(n for n in itertools.count(2) if len({lane_of(topic, each, LANES) for each in range(n)}) == LANES)


def records(bootstrap: str, topic: str) -> list[Record]:
    with Cluster(ClusterSettings("CLUSTER", (bootstrap,))) as cluster:
        (description,) = cluster.topics([topic]).values()
        ends = cluster.log_ends([TopicPartition(topic, n) for n in range(description.partitions)])
        return list(cluster.read({partition: Range(0, end) for partition, end in ends.items() if end}))


def settled(both: Engine, topic: str, count: int) -> None:
    wait_for(
        "both logs have every record",
        lambda: all(len(records(bootstrap, topic)) == count for bootstrap in (both.left, both.right)),
        60,
    )


def write_at_once(both: Engine, topic: str) -> None:
    """On both clusters at the same time, with the same keys, so that the logs differ in order."""

    def write(bootstrap: str, first: int, count: int) -> None:
        for number in range(first, first + count, 50):
            produce(bootstrap, topic, 50, partitions=partitions_of(topic), first=number, batch=1500, keys=5)

    writing = [
        threading.Thread(target=write, args=args)
        for args in ((both.left, 0, LEFTS), (both.right, RIGHTS_FIRST, RIGHTS))
    ]
    for thread in writing:
        thread.start()
    for thread in writing:
        thread.join()


def copy_again(both: Engine, topic: str) -> Record:
    """A record of the left is written to the right once more, by a lane that does not own the partition."""
    settings = load_mirror_settings(both.properties)
    claims = read_flow_maps(settings, Flow(both.source, both.target), shared=True).claims
    chosen = next(r for r in records(both.left, topic) if int(dict(r.headers)["n"] or 0) == 3)
    own = lane_of(topic, chosen.partition.partition, LANES)
    other = next(claim.claim for number, claim in claims.items() if number != own)

    async def write() -> None:
        async with wire_client(settings.clusters[both.target], client_id="test") as client:
            _, leader = await locate(client, chosen.partition)
            batch = recode.rebuild(
                [recode.Record(0, chosen.timestamp_ms, chosen.key, chosen.value, tuple(chosen.headers))],
                codec=0,
                producer_id=other.producer_id,
                producer_epoch=other.epoch,
                base_sequence=0,
            )
            connection = await client.connection(leader)
            for result in await connection.produce(topic, [(chosen.partition.partition, batch)]):
                raise_for(result.error_code, "writing a second copy", topics=[topic])

    blocking(write())
    return chosen


def opened(both: Engine, flow: Flow, folder: Path) -> AnalysisRun:
    folder.mkdir()
    return AnalysisRun(
        "test", folder, AnalysedFlow(load_mirror_settings(both.properties), flow, lambda: None), [both.topics]
    )


def verdicts(folder: Path) -> dict[str, Verdict]:
    checks = json.loads((folder / "scorecard.json").read_text())["checks"]
    return {each["name"]: Verdict(each["verdict"]) for each in checks}


def lag(spark: SparkSession, both: Engine, flow: Flow) -> LagReport:
    return analyse_lag(spark, load_mirror_settings(both.properties), flow, LagRequest((both.topics,), 600.0, moments=2))


def with_late_records(both: Engine) -> None:
    """Both clusters are written to at once; then, without a worker, each gets records that the other one lacks."""
    topic = both.topics
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, partitions_of(topic))
    with worker(both, partitions_of(topic)):
        write_at_once(both, topic)
        settled(both, topic, LEFTS + RIGHTS)
        commit(both.left, f"g-{topic}", topic, 100)
        settings, there = load_mirror_settings(both.properties), Flow(both.source, both.target)
        wait_for("a checkpoint", lambda: bool(checkpointed_positions(settings, there)))
    produce(both.left, topic, LATE[0], partitions=partitions_of(topic), first=LEFTS)
    produce(both.right, topic, LATE[1], partitions=partitions_of(topic), first=RIGHTS_FIRST + RIGHTS)


def test_records_inside_of_many_parts_are_kept_wherever_the_parts_begin_and_end(spark: SparkSession) -> None:
    chance = random.Random(5)
    edges = sorted(chance.sample(range(20_000), 400))
    parts = {
        ("a", 0): [*zip(edges[::2], edges[1::2], strict=True)],
        ("b", 0): [(0, 20_000)],
        ("a", 1): [(5, 5), (4095, 4097)],
    }
    rows = [(topic, number, offset) for topic, number in parts for offset in range(0, 20_000, 3)]
    frame = spark.createDataFrame(rows, "topic string, partition int, offset long")
    listed = [(*at, *part) for at, those in parts.items() for part in those]
    kept = {tuple(row) for row in only_inside(frame, listed).collect()}
    assert kept == {
        (topic, number, offset)
        for topic, number, offset in rows
        if any(first <= offset < end for first, end in parts[topic, number])
    }
    one = only_inside(frame.where("topic = 'a'").drop("topic"), [part for part in listed if part[0] == "a"])
    assert one.count() == sum(topic == "a" for topic, _, _ in kept)
    assert only_inside(frame, []).count() == 0


@pytest.mark.long
@pytest.mark.timeout(400)
def test_each_direction_is_compared_by_itself_and_no_record_counts_as_a_duplicate(
    spark: SparkSession, both: Engine, tmp_path: Path
) -> None:
    topic, there = both.topics, Flow(both.source, both.target)
    with_late_records(both)
    again = copy_again(both, topic)
    settings = load_mirror_settings(both.properties)
    for flow, written, late, twice in ((there, LEFTS, LATE[0], 1), (there.reverse, RIGHTS, LATE[1], 0)):
        with NightlyAudit(opened(both, flow, tmp_path / f"audit-{flow.source}")) as audit:
            (row,) = audit.compare().rows
            assert (row[f"on {flow.source}"], row[f"on {flow.target}"]) == (written + late, written + twice)
            assert str(flow.reverse) in str(audit.compare())
            audit.conclude()
        result = audit.results[topic]
        found = result.missing, result.duplicated, result.invented, result.out_of_order, result.altered
        assert found == (late, twice, 0, 0, 0), result
        assert sum(each.holes for each in result.per_partition) == 0
        assert {each.skipped for each in result.checkpoints} <= {0}
        failed = {name for name, verdict in verdicts(audit.run_dir).items() if verdict is Verdict.FAIL}
        assert failed == ({f"{topic}: nothing was copied twice"} if twice else set())
        with DuplicatesAudit(opened(both, flow, tmp_path / f"duplicates-{flow.source}")) as search:
            search.conclude()
        report = search.reports[topic]
        assert report.counts == {**dict.fromkeys(Cause, 0), Cause.REPLICATOR: twice}, report
        assert [each.partition for each in report.examples] == [again.partition.partition] * twice
    left, right = (settings.clusters[alias] for alias in (there.source, there.target))
    ranges = [
        with_shares(settings, there, [pin_range(side, topic)], copies=copies)[0]
        for side, copies in ((left, False), (right, True))
    ]
    by_sums = audit_topics(
        spark, left, right, topic, topic, source_range=ranges[0], target_range=ranges[1], sums_from=0
    )
    assert (by_sums.source_records, by_sums.missing, by_sums.duplicated) == (LEFTS + LATE[0], LATE[0], 1)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_mirror_lags_by_the_records_of_its_own_source_and_groups_by_all(spark: SparkSession, both: Engine) -> None:
    topic, there = both.topics, Flow(both.source, both.target)
    with_late_records(both)
    for flow, written, late in ((there, LEFTS, LATE[0]), (there.reverse, RIGHTS, LATE[1])):
        report = lag(spark, both, flow)
        assert not report.notes
        assert sum(each.points[-1].records for each in report.mirror) == late
        assert sum(share.records for share in report.shares) == written + late
        groups = [each for each in report.groups if each.cluster == both.source]
        unread = sum(1 for r in records(both.left, topic) if r.partition.partition == 0 and r.offset >= 100)
        assert sum(each.points[-1].records for each in groups) == unread  # a group reads the records of both clusters


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("spark")
def test_both_sides_are_followed_and_a_second_copy_is_named(both: Engine, tmp_path: Path) -> None:
    topic, there = both.topics, Flow(both.source, both.target)
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, partitions_of(topic))

    def follow(flow: Flow, name: str, lag_s: float = 300.0) -> ContinuousAudit:
        run = opened(both, flow, tmp_path / f"{name}-{flow.source}")
        return ContinuousAudit(run, tmp_path / f"state-{flow.source}", lag_seconds=lag_s)

    with pytest.raises(TopicsShared, match="drlib mirror has never run for"), follow(there, "before") as audit:
        audit.followed()
    with worker(both, partitions_of(topic)):
        write_at_once(both, topic)
        settled(both, topic, LEFTS + RIGHTS)
    for flow, count in ((there, LEFTS), (there.reverse, RIGHTS)):
        with follow(flow, "first") as audit:
            assert str(flow.reverse) in str(audit.followed())
            (row,) = audit.catch_up().rows
            assert (row[f"on {flow.source}"], row[f"on {flow.target}"]) == (count, count)
            assert row["equal"] == row["buckets"]
            audit.conclude()
            assert set(verdicts(audit.run_dir).values()) == {Verdict.PASS}
    copy_again(both, topic)
    for flow, wrong in ((there, 1), (there.reverse, 0)):
        with follow(flow, "second", 0.0) as audit:
            audit.catch_up()
            (row,) = audit.catch_up().rows  # both sides were read to their ends since it was found
            assert row["overdue"] == wrong, audit.differences()
            assert [each["fault"] for each in audit.evidence().rows] == ["duplicated"] * wrong
    settings = load_mirror_settings(both.properties)
    with Cluster(settings.clusters[both.target]) as cluster:
        cluster.delete_topic(settings.flow(both.source, both.target).policy.journal_topic(both.source))
    produce(both.right, topic, 5, partitions=1, first=RIGHTS_FIRST + RIGHTS)
    with follow(there, "third") as audit:
        (row,) = audit.catch_up().rows
        assert row[f"on {both.target}"] == LEFTS + 1  # what nothing tells from copies is not counted
        audit.conclude()
        assert verdicts(audit.run_dir)[f"{both.target} is read"] is Verdict.UNKNOWN
        evidence = json.loads((audit.run_dir / "scorecard.json").read_text())["checks"]
        assert (
            "it was deleted" in next(each for each in evidence if each["name"] == f"{both.target} is read")["evidence"]
        )


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_deleted_journal_leaves_the_origin_of_records_unknown(both: Engine, tmp_path: Path) -> None:
    topic, there = both.topics, Flow(both.source, both.target)
    for bootstrap in (both.left, both.right):
        create_topic(bootstrap, topic, 1)
    with worker(both):
        produce(both.left, topic, 50, partitions=1)
        produce(both.right, topic, 50, partitions=1, first=RIGHTS_FIRST)
        settled(both, topic, 100)
    settings = load_mirror_settings(both.properties)
    journal = settings.flow(both.target, both.source).policy.journal_topic(both.target)
    with Cluster(settings.clusters[both.source]) as cluster:
        cluster.delete_topic(journal)
    with NightlyAudit(opened(both, there, tmp_path / "run")) as audit, pytest.raises(TopicsShared) as refused:
        audit.compare()
    assert f"the journal of {there.reverse} on {both.source}" in refused.value.why
