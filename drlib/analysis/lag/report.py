"""The lag of a flow and of the groups on both sides, over time, judged: from the clusters to a `LagReport`.

Rules: collected is one row per reader, partition and moment, never records. Only records from the earliest needed position on
are read. What could not be read (commits without authorization, an unreachable cluster) is a note, and the verdict unknown at
best. The newest point comes from the clusters themselves, so there is one even if the log cleaner removed all history. Ranges
are pinned: what is written meanwhile is not read.
Partitions that drlib's journal does not know are looked up in MirrorMaker 2's own topics (`mm2_offset_syncs`): those lags have
two bounds.
Of a topic that both directions copy under one name, the mirror lags by the source's own records; groups by all of them.
Not for: what lag is (`frames`), what it means (`trend`, `mm2_lag`).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib import clock
from drlib.analysis.audit.compare import read_failure
from drlib.analysis.lag import frames as lag
from drlib.analysis.lag import mm2_positions, positions
from drlib.analysis.lag.mm2_bounds import judge_checkpointed, missing_checkpoints, with_lower_bounds
from drlib.analysis.lag.mm2_offset_syncs import OffsetSyncs, read_offset_syncs
from drlib.analysis.lag.result import CHECKPOINTED, HourOfLatency, LagReport, LagRequest, Series
from drlib.analysis.lag.trend import Limits, judge_lag, partition_shares
from drlib.analysis.spark.shares import refuse_unknown_copies, shared_of, with_shares
from drlib.analysis.spark.topics import TopicRange, pin_ranges, read_ranges, read_topic
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, TopicDescription
from drlib.kafka.admin.group_offsets import committed
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.map.flow_maps import OWN_GROUPS, read_flow_maps
from drlib.mirror.offsets.translation.transactional_topics import visible_in_part
from drlib.mirror.status.forecast import retention_of
from drlib.model import Flow, TopicPartition
from drlib.runs.check import Verdict

ASK_S: Final = 15.0
TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class _Side:
    """One cluster's part. `records` and `held` (positions at each moment) are persisted until the report is done.

    `starts`: log start offsets now.
    """

    settings: ClusterSettings
    topics: tuple[str, ...]
    records: DataFrame
    held: DataFrame
    starts: Mapping[TopicPartition, int]
    limits: Mapping[str, Limits]


def analyse_lag(
    spark: SparkSession, settings: MirrorSettings, flow: Flow, asked: LagRequest | None = None
) -> LagReport:
    """The lag of `flow`, and of all groups that read its topics on either side, from `asked.window_s` ago until now.

    Records that expire between planning and reading are typical of a lag near its retention: the report is planned again, and
    after `TRIES` of that it holds only the reason. Raises `UsageError` for topics that do not exist or when there are none,
    `Unreachable` when a cluster does not answer.
    """
    asked = asked or LagRequest()
    why = ""
    for _ in range(TRIES):
        try:
            return _analysed(spark, settings, settings.flow(flow.source, flow.target), asked)
        except (PySparkException, Py4JJavaError) as error:
            if (why := read_failure(str(error)) or "") == "":
                raise
    until_ms = clock.now_ms()
    return LagReport(flow, until_ms - int(asked.window_s * 1000), until_ms, (), (), (), (why,))


def _analysed(spark: SparkSession, settings: MirrorSettings, chosen: FlowSettings, asked: LagRequest) -> LagReport:
    flow = chosen.flow
    source, target = settings.clusters[flow.source], settings.clusters[flow.target]
    until_ms = clock.now_ms()
    from_ms = until_ms - int(asked.window_s * 1000)
    moments = lag.moments(spark, from_ms, until_ms, asked.moments)
    notes: list[str] = []
    topics = _topics(source, chosen, asked.topics, notes)
    copies = {chosen.policy.remote_topic(flow.source, topic) for topic in topics}
    with Cluster(target) as cluster:
        found = cluster.topics(copies)
    existing = _with_leaders(target, found, notes)
    if not topics:
        return LagReport(flow, from_ms, until_ms, (), (), (), tuple(notes))
    # Before any position is read: a reader may be further by then, and never seems to be behind what came later.
    ends = {source.alias: _log_ends(source, topics), target.alias: _log_ends(target, existing)}
    notes += [f"{flow.target} has no {copy}: no record of it was mirrored" for copy in sorted(copies - {*found})]
    shared = shared_of(settings, flow, topics)
    refuse_unknown_copies(settings, flow, shared)
    mirror, syncs = _mirror_positions(spark, settings, chosen, topics, until_ms, notes)
    sides: list[_Side] = []
    persisted: list[DataFrame] = []
    try:
        readers = _group_positions(spark, source, topics, until_ms, notes, persisted)
        own = partial(_own_records, settings, flow, shared) if shared else None
        with_mirror = [mirror] if shared else [mirror, *readers]
        sides.append(
            _side(spark, source, ends, reduce(DataFrame.unionByName, with_mirror), moments, asked, until_ms, own)
        )
        series = with_lower_bounds(sides[0].records, _series(sides[0], str(flow)), syncs, moments)
        target_readers = _group_positions(spark, target, existing, until_ms, notes, persisted) if existing else []
        if syncs.positions:
            groups = {each.reader for each in series if not each.mirror and chosen.mirrors_group(each.reader)}
            target_readers.append(_by_checkpoint(spark, target, chosen, existing, groups))
        if target_readers:
            positions_frame = reduce(DataFrame.unionByName, target_readers)
            sides.append(_side(spark, target, ends, positions_frame, moments, asked, until_ms))
            series += judge_checkpointed(_series(sides[1], str(flow)), series, syncs, chosen)
        notes += missing_checkpoints(series, syncs, chosen)
        if shared and readers:  # groups read the records of both clusters
            sides.append(_side(spark, source, ends, reduce(DataFrame.unionByName, readers), moments, asked, until_ms))
            series += _series(sides[-1], str(flow))
        recent = sides[0].records.where(sf.unix_millis("timestamp") >= from_ms)
        return LagReport(
            flow,
            from_ms,
            until_ms,
            series,
            _latencies(lag.latency_by_hour(lag.latency(recent, mirror))),
            partition_shares([tuple(row) for row in lag.partition_totals(recent).collect()]),
            tuple(notes),
            visible_in_part(settings, flow, {each.partition.topic for each in series if not each.mirror} & set(topics)),
        )
    finally:
        for side in sides:
            persisted += [side.records, side.held]
        for frame in persisted:
            frame.unpersist()


def _with_leaders(where: ClusterSettings, topics: Mapping[str, TopicDescription], notes: list[str]) -> tuple[str, ...]:
    """Those whose partitions all have a leader; the others are noted."""
    notes += [
        f"{name} on {where.alias} was not read: partitions {', '.join(map(str, sorted(topic.offline)))} have no leader"
        for name, topic in sorted(topics.items())
        if topic.offline
    ]
    return tuple(name for name, topic in sorted(topics.items()) if not topic.offline)


def _topics(
    source: ClusterSettings, chosen: FlowSettings, wanted: Collection[str] | None, notes: list[str]
) -> tuple[str, ...]:
    with Cluster(source) as cluster:
        names = cluster.topics(wanted)
    if wanted is not None and (missing := sorted(set(wanted) - set(names))):
        raise UsageError(
            f"{source.alias} has no topic {', '.join(missing)}",
            "it was deleted, or the name is wrong",
            "Correct its name.",
        )
    chosen_topics = {name: topic for name, topic in names.items() if wanted is not None or chosen.mirrors_topic(name)}
    if not chosen_topics:
        raise UsageError(
            f"{chosen.flow} mirrors no topic",
            "its filters choose no topic of the source",
            "Name topics, or correct `topics` in the properties file.",
        )
    return _with_leaders(source, chosen_topics, notes)


def _mirror_positions(
    spark: SparkSession,
    settings: MirrorSettings,
    chosen: FlowSettings,
    topics: Collection[str],
    until_ms: int,
    notes: list[str],
) -> tuple[DataFrame, OffsetSyncs]:
    """Positions by the journal over time and by the offset maps now, which include copies after the last journal entry.

    For partitions they do not know, those of MirrorMaker 2.
    """
    flow = chosen.flow
    with Cluster(settings.clusters[flow.source]) as cluster:
        source_topics = cluster.topics(topics)
        every = [TopicPartition(topic.name, n) for topic in source_topics.values() for n in range(topic.partitions)]
        starts, ends = cluster.log_starts(every), cluster.log_ends(every)
    ids = {topic.topic_id: name for name, topic in source_topics.items()}
    maps = read_flow_maps(settings, flow, shared=True)
    newest = {
        (name, key.partition): at
        for key, offsets in maps.by_partition.items()
        if (name := ids.get(key.topic_id)) is not None and (at := offsets.position) is not None
    }
    unknown = {at: starts[at] for at in every if ends[at] > starts[at] and (at.topic, at.partition) not in newest}
    syncs = read_offset_syncs(spark, settings, chosen, unknown) if unknown else OffsetSyncs()
    notes += [
        f"the position of {flow} in {at} is unknown: {syncs.why(at)}" for at in unknown if at not in syncs.positions
    ]
    newest |= {(at.topic, at.partition): position.position for at, position in syncs.positions.items()}
    frames = [positions.current_positions(spark, {str(flow): newest}, until_ms)]
    if syncs.pairs is not None:
        frames.append(mm2_positions.proven_positions(syncs.pairs, str(flow)))
    journal = chosen.policy.journal_topic(flow.source)
    with Cluster(settings.clusters[flow.target]) as cluster:
        has_journal = journal in cluster.topics([journal])
    if has_journal:
        past = read_topic(spark, settings.clusters[flow.target], journal)
        journaled = {before: ids[now] for before, now in maps.journaled.items() if now in ids}
        frames.append(positions.mirror_positions(past, str(flow), {**ids, **journaled}))
    return reduce(DataFrame.unionByName, frames), syncs


def _group_positions(
    spark: SparkSession,
    settings: ClusterSettings,
    topics: Sequence[str],
    until_ms: int,
    notes: list[str],
    persisted: list[DataFrame],
) -> list[DataFrame]:
    """What groups have committed in `topics`, now and over time; none without groups."""
    try:
        with Cluster(settings) as cluster:
            groups = [listing.group for listing in cluster.groups() if not listing.group.startswith(OWN_GROUPS)]
        newest: dict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        for group, offsets in committed(settings, groups, ASK_S).items():
            if isinstance(offsets, DrlibError):
                raise offsets
            for at, position in offsets.items():
                if at.topic in topics:
                    newest[group][at.topic, at.partition] = position.offset
    except DrlibError as error:
        notes.append(f"groups on {settings.alias}: {error}")
        return []
    if not newest:
        return []
    current = positions.current_positions(spark, newest, until_ms)
    frames = [current]
    try:
        commits = positions.read_commits(spark, settings)
        persisted.append(commits)
        # A position that a group no longer has was deleted, with an earlier topic of this name or with the group.
        kept = sf.broadcast(current.select("reader", *lag.PARTITION))
        frames.append(commits.join(kept, ["reader", *lag.PARTITION], "left_semi"))
    except DrlibError as error:
        notes.append(f"earlier commits of groups on {settings.alias}: {error}")
    return frames


def _side(
    spark: SparkSession,
    settings: ClusterSettings,
    ends: Mapping[str, Mapping[TopicPartition, int]],
    positions_frame: DataFrame,
    moments: DataFrame,
    asked: LagRequest,
    until_ms: int,
    own: Callable[[Sequence[TopicRange]], list[TopicRange]] | None = None,
) -> _Side:
    """Read each partition from the earliest position, or from the beginning of the window, whichever is earlier.

    `ends`: by alias, what there is, by all partitions of its topics. `own` leaves out copies.
    """
    last_offsets = ends[settings.alias]
    topics = sorted({at.topic for at in last_offsets})
    from_ms = max(0, until_ms - int(asked.window_s * 1000))
    held = lag.positions_at(positions_frame, moments).persist()
    first = {
        (row["topic"], row["partition"]): row["first"]
        for row in held.groupBy("topic", "partition").agg(sf.min("position").alias("first")).collect()
    }
    with Cluster(settings) as cluster:
        since = cluster.offsets_at(last_offsets, from_ms)
        limits = {
            name: Limits(
                retention_s=None if (kept := retention_of(config)).ms < 0 else kept.ms / 1000,
                retention_bytes=None if kept.bytes < 0 else kept.bytes,
                objective_s=asked.objective_s,
                horizon_s=asked.horizon_s,
            )
            for name, config in cluster.topic_config(topics, inherited=True).items()
        }
    ranges, starts = [], dict[TopicPartition, int]()
    by_topic: dict[str, dict[int, int]] = defaultdict(dict)
    for at, end in last_offsets.items():
        by_topic[at.topic][at.partition] = end
    for topic, whole in pin_ranges(settings, topics).items():
        pinned = whole.up_to(by_topic[topic])
        begin = {}
        for number, end in pinned.end.items():
            at = TopicPartition(topic, number)
            starts[at] = pinned.start[number]
            written = since.get(at, -1)
            earliest = min(first.get((topic, number), end), end if written < 0 else written)
            begin[number] = min(max(earliest, pinned.start[number]), end)
        ranges.append(replace(pinned, start=begin))
    records = lag.record_sizes(read_ranges(spark, settings, own(ranges) if own else ranges), until_ms=until_ms)
    return _Side(settings, tuple(topics), records.persist(), held, starts, limits)


def _log_ends(settings: ClusterSettings, topics: Collection[str]) -> dict[TopicPartition, int]:
    """The end of what is committed, of each partition."""
    with Cluster(settings) as cluster:
        partitions = [TopicPartition(t.name, n) for t in cluster.topics(topics).values() for n in range(t.partitions)]
        return cluster.log_ends(partitions, Isolation.READ_COMMITTED)


def _own_records(
    settings: MirrorSettings, flow: Flow, shared: Collection[str], pinned: Sequence[TopicRange]
) -> list[TopicRange]:
    """Of topics that both directions copy, those of their records that were first written on the source."""
    own = {
        each.topic: each for each in with_shares(settings, flow, [p for p in pinned if p.topic in shared], copies=False)
    }
    return [own.get(each.topic, each) for each in pinned]


def _by_checkpoint(
    spark: SparkSession, target: ClusterSettings, chosen: FlowSettings, topics: Sequence[str], groups: Collection[str]
) -> DataFrame:
    """Where `groups` would resume on the target by MirrorMaker 2's checkpoints, under names of their own."""
    topic = chosen.policy.checkpoints_topic(chosen.flow.source)
    with Cluster(target) as cluster:
        if not cluster.topics([topic]):
            return positions.current_positions(spark, {}, 0)
    checkpoints = mm2_positions.checkpoint_positions(read_topic(spark, target, topic), topics)
    chosen_groups = checkpoints.where(sf.col("reader").isin(*groups))
    return chosen_groups.withColumn("reader", sf.concat("reader", sf.lit(CHECKPOINTED)))


def _series(side: _Side, flow: str) -> tuple[Series, ...]:
    points = lag.lag_points(lag.lag_at(side.records, side.held))
    series = []
    for (reader, at), pairs in sorted(points.items()):
        if at not in side.starts:
            continue  # of an earlier topic of this name, which had more partitions
        mirror = reader == flow
        limits = side.limits[at.topic] if mirror else replace(side.limits[at.topic], objective_s=None)
        history = tuple(point for point, _ in pairs)
        judgement = judge_lag(history, limits)
        last = pairs[-1][1]
        overtaken = last < side.starts[at]
        if overtaken:
            why = f"retention has deleted offsets {last} to {side.starts[at]}, which were not read"
            judgement = replace(judgement, verdict=Verdict.FAIL, why=why, soonest_s=0.0, expected_s=0.0)
        series.append(Series(side.settings.alias, reader, mirror, at, limits, history, judgement, overtaken=overtaken))
    return tuple(series)


def _latencies(hours: DataFrame) -> tuple[HourOfLatency, ...]:
    rows = hours.withColumn("hour", sf.unix_millis("hour")).orderBy("topic", "hour").collect()
    return tuple(HourOfLatency(*row) for row in rows)
