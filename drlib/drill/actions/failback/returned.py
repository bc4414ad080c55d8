"""Action `source.returned`: is what answers at the failed source's addresses the cluster that failed, with its data?

Rules: it only reads: cluster ID, brokers, topic IDs and log ends of the source, the journal on the target, and the last
mirrored record of each partition on both. Of a flow of MirrorMaker 2, which keeps no IDs, topics are those of the same names.
What cannot be settled and moved back to ends the run here, before anything was changed. A read-only step, so a resumed run
asks again.
Not for: the judgement (`returned_rules`).
"""

from collections.abc import Collection, Mapping

from drlib.config.settings import MirrorSettings
from drlib.drill.actions.failback.returned_rules import SeenSource, SeenTopic, judge
from drlib.drill.actions.failback.unreplicated_actions import settings_of
from drlib.drill.actions.failover.triage_rules import side_of
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.flow_arguments import ReadOnlyTargetAction, Shared
from drlib.errors import Deviated, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S, blocking, wire_client
from drlib.kafka.admin.descriptions import TopicDescription
from drlib.kafka.admin.reachability import examine
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from drlib.mirror.journal.entries import Clusters, SourcePartition
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.mirror_maker.compared_maps import read_known_maps
from drlib.mirror.offsets.unreplicated.find import same_records
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort


class SourceReturned(ReadOnlyTargetAction):
    """Verify that the cluster that answers in the source's place is the one that failed, in full and with its data."""

    name = "source.returned"
    shared_topics = Shared.ALL

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `Deviated` for what cannot be settled and moved back to."""
        settings, flow = settings_of(self.context), self.flow
        seen = observe_source(settings, flow)
        verdict = judge(seen, settings.path.name)
        self.show(
            {
                "topic": topic.name,
                "on " + flow.source: "gone" if topic.same is None else "as it was" if topic.same else "another one",
                "offsets": topic.offsets,
                "offsets lost": topic.lost,
            }
            for topic in seen.topics
        )
        if not verdict.go:
            raise Deviated(f"{flow.source} is not what failed: {verdict.found}", verdict.why, verdict.remedy)
        return {
            "found": verdict.found,
            "cluster_id": seen.cluster_id,
            "topics": len(seen.topics),
            "topics_gone": ", ".join(seen.gone),
        }


def observe_source(settings: MirrorSettings, flow: Flow) -> SeenSource:
    """What answers in the source's place. Blocks; raises what the target raises."""
    source = settings.clusters[flow.source]
    chosen = settings.flow(flow.source, flow.target)
    found = examine([source], {flow.source: chosen.mirrors_topic}, ANSWER_S)[flow.source]
    if isinstance(found, Unreachable):
        return SeenSource(flow, side_of(flow.source, found, ()))
    mirrored = [name for name in found.metadata.topics if chosen.mirrors_topic(name)]
    side = side_of(flow.source, found, mirrored)
    claimed = blocking(_journaled(settings, flow))
    seen = SeenSource(flow, side, found.metadata.cluster_id, source.cluster_id or claimed)
    if not side.serves:
        return seen
    maps = read_known_maps(settings, flow)
    names = sorted(
        {each.source_topic for each in maps.names.values() if not chosen.policy.is_heartbeats(each.source_topic)}
    )
    with Cluster(source) as cluster, Cluster(settings.clusters[flow.target]) as target:
        there = cluster.topics(names)
        every = [TopicPartition(name, n) for name, topic in there.items() for n in range(topic.partitions)]
        starts, ends = cluster.log_starts(every), cluster.log_ends(every)
        same = same_records(cluster, target, maps, there, _comparable(target, maps, there, every))
    replaced = {partition.topic for partition, alike in same.items() if not alike}
    topics = tuple(_topic(name, there.get(name), maps, starts, ends, replaced) for name in names)
    return SeenSource(flow, side, seen.cluster_id, seen.journaled_id, topics)


def _topic(
    name: str,
    topic: TopicDescription | None,
    maps: Maps,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    replaced: Collection[str],
) -> SeenTopic:
    if topic is None:
        return SeenTopic(name, None)
    every = [TopicPartition(name, number) for number in range(topic.partitions)]
    offsets = sum(ends[partition] - starts[partition] for partition in every)
    if topic.topic_id not in maps.names and topic.topic_id not in maps.journaled:
        return SeenTopic(name, False, offsets)
    mirrored = {p: maps.by_partition.get(SourcePartition(topic.topic_id, p.partition)) for p in every}
    lost = sum(max(0, (known.source_end or 0) - ends[p]) for p, known in mirrored.items() if known is not None)
    noticed = any(known is not None and known.diverged is not None for known in mirrored.values())  # by a worker
    return SeenTopic(name, True, offsets, lost, noticed or name in replaced)


def _comparable(
    target: Cluster, maps: Maps, there: Mapping[str, TopicDescription], partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionMap]:
    """The maps of those whose mirror is there, and is known to be it."""
    mirrors = {
        name: maps.names[each.topic_id].target_topic for name, each in there.items() if each.topic_id in maps.names
    }
    described = target.topics(sorted({*mirrors.values()}))
    found: dict[TopicPartition, PartitionMap] = {}
    for partition in partitions:
        key = SourcePartition(there[partition.topic].topic_id, partition.partition)
        mirror = described.get(mirrors.get(partition.topic, ""))
        if mirror is not None and key.partition < mirror.partitions and key not in maps.refused:
            found |= {partition: maps.by_partition[key]} if key in maps.by_partition else {}
    return found


async def _journaled(settings: MirrorSettings, flow: Flow) -> str:
    """The source's cluster ID in the journal's newest claim; "" where there is none."""
    journal = settings.flow(flow.source, flow.target).policy.journal_topic(flow.source)
    async with wire_client(settings.clusters[flow.target], client_id="drlib-returned") as client:
        await client.connect()
        described = (await client.metadata([journal])).topics.get(journal)
        if described is None or described.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return ""
        entries = await read_journal(client, TopicPartition(journal, 0))
    return next((entry.source_id for entry in reversed(entries) if isinstance(entry, Clusters)), "")
