"""Positions of a MirrorMaker 2 in partitions that drlib's journal does not know, from its offset-syncs topic, read once.

Rules: end offsets are read after the pairs, so that a pair is never compared with an older end; log start offsets come from
before them. Every unknown partition has a reason.
Not for: what pairs mean (`mm2_lag`), nor for MirrorMaker 2's committed offsets, which are up to a minute older.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.lag import mm2_positions
from drlib.analysis.lag.mm2_lag import Mm2Position, UnknownMm2Position, mm2_position
from drlib.analysis.spark.topics import read_topic
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.kafka.admin.cluster import Cluster
from drlib.model import TopicPartition

SILENT = "neither a drlib journal nor an offset sync of MirrorMaker 2 names it"


@dataclass(frozen=True, slots=True)
class OffsetSyncs:
    """`positions` and reasons in `unknown` by source partition; `pairs`: all pairs of the topic, None for none.

    `log_starts`: the source's log start offsets before the pairs were read.
    """

    positions: Mapping[TopicPartition, Mm2Position] = field(default_factory=dict)
    log_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    pairs: DataFrame | None = None

    def why(self, at: TopicPartition) -> str:
        """Why the position in `at` is unknown."""
        return self.unknown.get(at, SILENT)


def read_offset_syncs(
    spark: SparkSession, settings: MirrorSettings, chosen: FlowSettings, starts: Mapping[TopicPartition, int]
) -> OffsetSyncs:
    """Read those of the partitions of `starts`, the source's with their log start offsets.

    Raises `Unreachable`, and what a cluster refuses.
    """
    flow = chosen.flow
    source, target = settings.clusters[flow.source], settings.clusters[flow.target]
    holder = source if chosen.offset_syncs_location == "source" else target
    with Cluster(holder) as cluster:
        if not cluster.topics([chosen.offset_syncs_topic]):
            why = f"there is no drlib journal, and {holder.alias} has no topic {chosen.offset_syncs_topic} of MirrorMaker 2"
            return OffsetSyncs(unknown=dict.fromkeys(starts, why))
    names = sorted({at.topic for at in starts})
    pairs = mm2_positions.offset_sync_pairs(read_topic(spark, holder, chosen.offset_syncs_topic), names)
    newest = {pair.partition: pair for pair in mm2_positions.newest_pairs(pairs) if pair.partition in starts}
    with Cluster(source) as cluster:
        source_ends = cluster.log_ends(newest)
    copies = {at: TopicPartition(chosen.policy.remote_topic(flow.source, at.topic), at.partition) for at in newest}
    with Cluster(target) as cluster:
        target_topics = cluster.topics({copy.topic for copy in copies.values()})
        existing = [
            c for c in copies.values() if c.topic in target_topics and c.partition < target_topics[c.topic].partitions
        ]
        mirror_ends = cluster.log_ends(existing)
    positions: dict[TopicPartition, Mm2Position] = {}
    unknown: dict[TopicPartition, str] = {}
    for at, sync in newest.items():
        position = mm2_position(sync, source_ends[at], mirror_ends.get(copies[at], 0))
        if isinstance(position, UnknownMm2Position):
            unknown[at] = f"there is no drlib journal, and for MirrorMaker 2 {position.why}"
        else:
            positions[at] = position
    if not positions:
        return OffsetSyncs(unknown=unknown)
    known = spark.createDataFrame([(at.topic, at.partition) for at in positions], "topic string, partition int")
    return OffsetSyncs(positions, starts, unknown, pairs.join(sf.broadcast(known), ["topic", "partition"]))
