"""Lag of a flow and of the groups on both its sides, over time, judged: values, and how they are had from the clusters.

Rules: what is collected is one row per reader, partition and moment, never records. Only what lies behind the earliest
position that is asked about is read. What could not be read (commits somebody may not see, a cluster that is away) is a note
and leaves the verdict unknown at best. The newest point comes from the clusters themselves, so that one is there even if the
cleaner took all history. Offsets are pinned: what is written meanwhile is not looked at.
Partitions that no journal of ours knows are asked about at MirrorMaker 2's own topics (`mm2_told`): those lags have two ends.
Not for: what lag is (`lag`), what it means (`rules.lag_trend`, `rules.mm2_lag`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib import clock
from drlib.analysis.audit.compare import reading_failure
from drlib.analysis.lag import frames as lag
from drlib.analysis.lag import mm2_positions, positions
from drlib.analysis.lag.mm2_bounds import bounded, checkpointed, without_checkpoint
from drlib.analysis.lag.mm2_offset_syncs import Told, read_told
from drlib.analysis.lag.result import CHECKPOINTED, Asked, HourOfLatency, LagReport, Series
from drlib.analysis.lag.trend import Limits, read, shares
from drlib.analysis.spark.topics import pin_range, read_topic
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.group_offsets import committed
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.status.catch_up import retention_of
from drlib.model import Flow, TopicPartition
from drlib.runs.check import Verdict

ASK_S: Final = 15.0
TRIES: Final = 3
OURS: Final = "drlib-"  # groups of workers and leases


@dataclass(frozen=True, slots=True)
class _Side:
    """One cluster's part. `records` and `held` (positions at each moment) are frames that stay in memory until it is over;
    `starts`: where logs begin now."""

    settings: ClusterSettings
    topics: tuple[str, ...]
    records: DataFrame
    held: DataFrame
    starts: Mapping[TopicPartition, int]
    limits: Mapping[str, Limits]


def analyse_lag(spark: SparkSession, settings: MirrorSettings, flow: Flow, asked: Asked | None = None) -> LagReport:
    """The lag of `flow`, and of all groups that read its topics on either side, from `asked.window_s` ago until now.

    Records that expire between planning and reading are what a lag near its retention is like: it is planned anew, and after
    `TRIES` of that the report holds nothing but why. Raises `UsageError` for topics that are not there or nothing to look at,
    `Unreachable` when a cluster is away.
    """
    asked = asked or Asked()
    why = ""
    for _ in range(TRIES):
        try:
            return _analysed(spark, settings, settings.flow(flow.source, flow.target), asked)
        except (PySparkException, Py4JJavaError) as error:
            if (why := reading_failure(str(error)) or "") == "":
                raise
    until_ms = clock.now_ms()
    return LagReport(flow, until_ms - int(asked.window_s * 1000), until_ms, (), (), (), (why,))


def _analysed(spark: SparkSession, settings: MirrorSettings, chosen: FlowSettings, asked: Asked) -> LagReport:
    flow = chosen.flow
    source, target = settings.clusters[flow.source], settings.clusters[flow.target]
    until_ms = clock.now_ms()
    from_ms = until_ms - int(asked.window_s * 1000)
    moments = lag.ticks(spark, from_ms, until_ms, asked.moments)
    topics = _topics(source, chosen, asked.topics)
    copies = tuple(chosen.policy.remote_topic(flow.source, topic) for topic in topics)
    with Cluster(target) as cluster:
        there = tuple(sorted(cluster.topics(copies)))
    notes = [f"{flow.target} has no {copy}: nothing of it was mirrored" for copy in sorted(set(copies) - set(there))]
    mirror, told = _mirror_positions(spark, settings, chosen, topics, until_ms, notes)
    sides: list[_Side] = []
    kept: list[DataFrame] = []
    try:
        read_here = [mirror, *_group_positions(spark, source, topics, until_ms, notes, kept)]
        sides.append(_side(spark, source, topics, reduce(DataFrame.unionByName, read_here), moments, asked, from_ms))
        series = bounded(sides[0].records, _series(sides[0], str(flow)), told, moments)
        read_there = _group_positions(spark, target, there, until_ms, notes, kept) if there else []
        if told.stands:
            groups = {one.reader for one in series if not one.mirror and chosen.mirrors_group(one.reader)}
            read_there.append(_by_checkpoint(spark, target, chosen, there, groups))
        if read_there:
            found = reduce(DataFrame.unionByName, read_there)
            sides.append(_side(spark, target, there, found, moments, asked, from_ms))
            series += checkpointed(_series(sides[1], str(flow)), series, told, chosen)
        notes += without_checkpoint(series, told, chosen)
        recent = sides[0].records.where(sf.unix_millis("timestamp") >= from_ms)
        return LagReport(
            flow,
            from_ms,
            until_ms,
            series,
            _latencies(lag.latency_by_hour(lag.latency(recent, mirror))),
            shares([tuple(row) for row in lag.by_partition(recent).collect()]),
            tuple(notes),
        )
    finally:
        for side in sides:
            kept += [side.records, side.held]
        for frame in kept:
            frame.unpersist()


def _topics(source: ClusterSettings, chosen: FlowSettings, wanted: Collection[str] | None) -> tuple[str, ...]:
    with Cluster(source) as cluster:
        names = tuple(sorted(cluster.topics(wanted)))
    if wanted is not None and (missing := sorted(set(wanted) - set(names))):
        raise UsageError(
            f"{source.alias} has no topic {', '.join(missing)}", "it was deleted or misspelt", "Correct its name."
        )
    found = names if wanted is not None else tuple(name for name in names if chosen.mirrors_topic(name))
    if not found:
        raise UsageError(
            f"{chosen.flow} mirrors nothing", "no topic of the source is chosen", "Name topics, or check 'topics'."
        )
    return found


def _mirror_positions(
    spark: SparkSession,
    settings: MirrorSettings,
    chosen: FlowSettings,
    topics: Collection[str],
    until_ms: int,
    notes: list[str],
) -> tuple[DataFrame, Told]:
    """What the journal says of the past, and of now: the map has what stands beyond the last word of the journal.

    And of partitions it does not know, what MirrorMaker 2 says.
    """
    flow = chosen.flow
    with Cluster(settings.clusters[flow.source]) as cluster:
        found = cluster.topics(topics)
        every = [TopicPartition(topic.name, n) for topic in found.values() for n in range(topic.partitions)]
        starts, ends = cluster.log_starts(every), cluster.log_ends(every)
    ids = {topic.topic_id: name for name, topic in found.items()}
    maps = read_flow_maps(settings, flow)
    newest = {
        (name, key.partition): at
        for key, offsets in maps.by_partition.items()
        if (name := ids.get(key.topic_id)) is not None and (at := offsets.position) is not None
    }
    unknown = {at: starts[at] for at in every if ends[at] > starts[at] and (at.topic, at.partition) not in newest}
    told = read_told(spark, settings, chosen, unknown) if unknown else Told()
    notes += [f"where {flow} stands in {at} is not known: {told.why(at)}" for at in unknown if at not in told.stands]
    newest |= {(at.topic, at.partition): one.position for at, one in told.stands.items()}
    frames = [positions.now(spark, str(flow), newest, until_ms)]
    if told.pairs is not None:
        frames.append(mm2_positions.least(told.pairs, str(flow)))
    journal = chosen.policy.journal_topic(flow.source)
    with Cluster(settings.clusters[flow.target]) as cluster:
        kept = journal in cluster.topics([journal])
    if kept:
        past = read_topic(spark, settings.clusters[flow.target], journal)
        frames.append(positions.mirrored(past, str(flow), ids))
    return reduce(DataFrame.unionByName, frames), told


def _group_positions(
    spark: SparkSession,
    settings: ClusterSettings,
    topics: Sequence[str],
    until_ms: int,
    notes: list[str],
    kept: list[DataFrame],
) -> list[DataFrame]:
    """What groups have committed in `topics`, ever since the cluster remembers, and now; a frame each, none for no group."""
    try:
        with Cluster(settings) as cluster:
            groups = [one.group for one in cluster.groups() if not one.group.startswith(OURS)]
        newest: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        for group, found in committed(settings, groups, ASK_S).items():
            if isinstance(found, DrlibError):
                raise found
            for at, position in found.items():
                if at.topic in topics:
                    newest[group][at.topic, at.partition] = position.offset
    except DrlibError as error:
        notes.append(f"groups on {settings.alias}: {error}")
        return []
    if not newest:
        return []
    frames = [positions.now(spark, group, found, until_ms) for group, found in sorted(newest.items())]
    try:
        commits = positions.read_commits(spark, settings)
        kept.append(commits)
        frames.append(commits.where(sf.col("topic").isin(*topics) & sf.col("reader").isin(*newest)))
    except DrlibError as error:
        notes.append(f"what groups committed on {settings.alias} before now: {error}")
    return frames


def _side(
    spark: SparkSession,
    settings: ClusterSettings,
    topics: Sequence[str],
    heard: DataFrame,
    moments: DataFrame,
    asked: Asked,
    from_ms: int,
) -> _Side:
    """Read of each partition what lies behind the earliest position, or was written since `from_ms`, whatever is earlier."""
    held = lag.held(heard, moments).persist()
    first = {
        (row["topic"], row["partition"]): row["first"]
        for row in held.groupBy("topic", "partition").agg(sf.min("position").alias("first")).collect()
    }
    with Cluster(settings) as cluster:
        every = [TopicPartition(t.name, n) for t in cluster.topics(topics).values() for n in range(t.partitions)]
        since = cluster.offsets_at(every, max(0, from_ms))
        limits = {
            name: Limits(
                retention_s=None if (kept := retention_of(config)).ms < 0 else kept.ms / 1000,
                retention_bytes=None if kept.bytes < 0 else kept.bytes,
                objective_s=asked.objective_s,
                horizon_s=asked.horizon_s,
            )
            for name, config in cluster.topic_config(topics, inherited=True).items()
        }
    frames, starts = [], dict[TopicPartition, int]()
    for topic in topics:
        pinned = pin_range(settings, topic)
        begin = {}
        for number, end in pinned.end.items():
            at = TopicPartition(topic, number)
            starts[at] = pinned.start[number]
            written = since.get(at, -1)
            earliest = min(first.get((topic, number), end), end if written < 0 else written)
            begin[number] = min(max(earliest, pinned.start[number]), end)
        frames.append(lag.sized(read_topic(spark, settings, topic, start=begin, end=pinned.end), topic))
    return _Side(settings, tuple(topics), reduce(DataFrame.unionByName, frames).persist(), held, starts, limits)


def _by_checkpoint(
    spark: SparkSession, target: ClusterSettings, chosen: FlowSettings, there: Sequence[str], groups: Collection[str]
) -> DataFrame:
    """Where `groups` would go on at the target by MirrorMaker 2's checkpoints, under names of their own."""
    topic = chosen.policy.checkpoints_topic(chosen.flow.source)
    with Cluster(target) as cluster:
        if not cluster.topics([topic]):
            return positions.now(spark, "", {}, 0)
    found = mm2_positions.checkpointed(read_topic(spark, target, topic), there)
    mine = found.where(sf.col("reader").isin(*groups))
    return mine.withColumn("reader", sf.concat("reader", sf.lit(CHECKPOINTED)))


def _series(side: _Side, flow: str) -> tuple[Series, ...]:
    points = lag.points(lag.lags(side.records, side.held))
    found = []
    for (reader, at), heard in sorted(points.items()):
        mirror = reader == flow
        limits = side.limits[at.topic] if mirror else replace(side.limits[at.topic], objective_s=None)
        told = tuple(point for point, _ in heard)
        reading = read(told, limits)
        last = heard[-1][1]
        overtaken = last < side.starts[at]
        if overtaken:
            why = f"retention has deleted offsets {last} to {side.starts[at]}, which were not read"
            reading = replace(reading, verdict=Verdict.FAIL, why=why, soonest_s=0.0, expected_s=0.0)
        found.append(Series(side.settings.alias, reader, mirror, at, limits, told, reading, overtaken=overtaken))
    return tuple(found)


def _latencies(hours: DataFrame) -> tuple[HourOfLatency, ...]:
    rows = hours.withColumn("hour", sf.unix_millis("hour")).orderBy("topic", "hour").collect()
    return tuple(HourOfLatency(*row) for row in rows)
