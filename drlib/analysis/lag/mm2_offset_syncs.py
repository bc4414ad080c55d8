"""What a real MirrorMaker 2 says of partitions that no journal of ours knows: read once, from its own offset-syncs topic.

Rules: log ends are read after the pairs, so that a pair is never held against an end from before it, and where logs begin is
taken from before them. Whatever stays unknown says why.
Not for: what pairs mean (`rules.mm2_lag`), nor for MirrorMaker 2's committed offsets, which are up to a minute older.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.lag import mm2_positions
from drlib.analysis.lag.mm2_lag import NoStand, Stand, stand
from drlib.analysis.spark.topics import read_topic
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.kafka.admin.cluster import Cluster
from drlib.model import TopicPartition

SILENT = "no journal of ours and no offset sync of MirrorMaker 2 speaks of it"


@dataclass(frozen=True, slots=True)
class Told:
    """`stands` by source partition; `pairs`, all that the topic still has of them, None for none. `starts`: where the source's
    logs began before the pairs were read."""

    stands: Mapping[TopicPartition, Stand] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    pairs: DataFrame | None = None

    def why(self, at: TopicPartition) -> str:
        """Why nothing is known of `at`."""
        return self.unknown.get(at, SILENT)


def read_told(
    spark: SparkSession, settings: MirrorSettings, chosen: FlowSettings, starts: Mapping[TopicPartition, int]
) -> Told:
    """Ask about the partitions of `starts`, which are the source's, with where their logs begin.

    Raises `Unreachable`, and what a cluster refuses.
    """
    flow = chosen.flow
    source, target = settings.clusters[flow.source], settings.clusters[flow.target]
    holder = source if chosen.offset_syncs_location == "source" else target
    with Cluster(holder) as cluster:
        if not cluster.topics([chosen.offset_syncs_topic]):
            why = f"no journal of ours, and {holder.alias} has no {chosen.offset_syncs_topic} of MirrorMaker 2"
            return Told(unknown=dict.fromkeys(starts, why))
    names = sorted({at.topic for at in starts})
    pairs = mm2_positions.pairs(read_topic(spark, holder, chosen.offset_syncs_topic), names)
    newest = {one.partition: one for one in mm2_positions.newest(pairs) if one.partition in starts}
    with Cluster(source) as cluster:
        source_ends = cluster.log_ends(newest)
    copies = {at: TopicPartition(chosen.policy.remote_topic(flow.source, at.topic), at.partition) for at in newest}
    with Cluster(target) as cluster:
        there = cluster.topics({copy.topic for copy in copies.values()})
        whole = [c for c in copies.values() if c.topic in there and c.partition < there[c.topic].partitions]
        mirror_ends = cluster.log_ends(whole)
    stands: dict[TopicPartition, Stand] = {}
    unknown: dict[TopicPartition, str] = {}
    for at, sync in newest.items():
        found = stand(sync, source_ends[at], mirror_ends.get(copies[at], 0))
        if isinstance(found, NoStand):
            unknown[at] = f"no journal of ours, and of MirrorMaker 2 {found.why}"
        else:
            stands[at] = found
    if not stands:
        return Told(unknown=unknown)
    known = spark.createDataFrame([(at.topic, at.partition) for at in stands], "topic string, partition int")
    return Told(stands, starts, unknown, pairs.join(sf.broadcast(known), ["topic", "partition"]))
