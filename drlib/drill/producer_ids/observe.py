"""Ask both clusters of a flow which producers each partition's leader knows, under the names that producers use. Read-only.

Rules: the target is asked about topics only that the source has producers of. Our own lanes on the source are left out,
as nothing redirects them; on the target they count. A partition without a leader that answers is named, and hides no other.
So is a topic that this user may not describe: a list of all topics leaves it out, which does not say that it is not there.
What a broker refuses is raised: half a comparison is none. Of a source that does not answer, or of its partitions without a
leader, the producers count that the mirror kept in its journal on the target; that it kept none is named.
Rights: Read on the topics on both clusters, and on the journal. Brokers name the transactional IDs only that one may describe.
Not for: judging (`rules`).
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from drlib.config.flow_settings import FlowSettings
from drlib.drill.producer_ids.rules import AsKept, ComparedIds, find_collisions
from drlib.drill.writers.logs import Side, own_producers
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION, name_of
from drlib.mirror.source_producers.find import KeptOfSource, read_kept
from drlib.mirror.source_producers.leaders import OURS, Known, ask_leaders
from drlib.mirror.sync.rules import local_topics
from drlib.model import TopicPartition

Cluster = tuple[ClusterClient, ClusterMetadata]


async def compare_ids(
    flow: FlowSettings, aliases: Collection[str], source: Cluster, target: Cluster, *, use_kept: bool = False
) -> ComparedIds:
    """The collisions of a flow. `aliases`: of all clusters of the file. Raises what a broker refuses, `Unreachable`.

    `use_kept`: of the source's partitions without a leader, compare what the mirror kept.
    """
    partitions = [
        TopicPartition(name, number)
        for name, topic in sorted(source[1].topics.items())
        if topic.error_code == 0 and written_by_applications(flow, name, aliases)
        for number in topic.partitions
    ]
    here, missing = await ask_leaders(*source, partitions)
    alias = flow.flow.source
    here = await _of_clients(flow, source, here)
    mirrored = {flow.policy.upstream_topic(name) or name for name in target[1].topics if flow.is_mirror(name)}
    wanted = {name for name in mirrored | source[1].topics.keys() if written_by_applications(flow, name, aliases)}
    hidden = await _not_described(source, alias, wanted)
    if not (missing and use_kept):
        without = [_no_leader(alias, each) for each in missing]
        return await _compare(flow, here, target, len(partitions), [*hidden, *without])
    kept = await _kept(flow, target)
    unasked = set(missing)
    why = f"{len(missing)} partitions of {alias} have no leader that answers"
    here += [each for each in kept.known if each.partition in unasked]
    compared = await _compare(flow, here, target, len(partitions), [*hidden, *_not_kept(kept, alias)])
    return _as_kept(compared, kept, why)


async def compare_kept(flow: FlowSettings, aliases: Collection[str], target: Cluster, why: str) -> ComparedIds:
    """The collisions with the producers that the mirror kept of the source, which is not asked: `why`.

    Raises `JournalMissing` where it keeps nothing, what a broker refuses, `Unreachable`.
    """
    kept = await _kept(flow, target)
    wanted = {name for name in kept.topics if written_by_applications(flow, name, aliases)}
    here = [each for each in kept.known if each.partition.topic in wanted]
    partitions = len({each.partition for each in here})
    return _as_kept(await _compare(flow, here, target, partitions, _not_kept(kept, flow.flow.source)), kept, why)


def written_by_applications(flow: FlowSettings, topic: str, aliases: Collection[str]) -> bool:
    """May applications write to this topic of the source, and so, redirected, to the one of the same name on the target?"""
    if local_topics.keeps_names(flow):
        return flow.mirrors_topic(topic) and not flow.policy.is_heartbeats(topic)
    return local_topics.is_wanted(flow, topic, aliases)


async def _compare(
    flow: FlowSettings, here: Sequence[Known], target: Cluster, partitions: int, missing: Sequence[tuple[str, str]]
) -> ComparedIds:
    topics, of_target = {each.partition.topic for each in here}, target[1].topics
    described = sorted(name for name in topics if name in of_target and not of_target[name].error_code)
    shared = [TopicPartition(name, number) for name in described for number in sorted(of_target[name].partitions)]
    there, without = await ask_leaders(*target, shared)
    hidden = await _not_described(target, flow.flow.target, topics)
    why = [*missing, *hidden, *(_no_leader(flow.flow.target, each) for each in without)]
    producers = len({(each.state.producer_id, each.state.epoch) for each in here})
    return ComparedIds(partitions, producers, find_collisions(here, there), tuple(why))


async def _of_clients(flow: FlowSettings, source: Cluster, known: Sequence[Known]) -> list[Known]:
    """Those of `known` that are no lanes of ours: by their transactional IDs, or else by the journal of the flow back, whose
    lanes write to the same topics where mirrors keep their names."""
    clients = [each for each in known if not each.name.startswith(OURS)]
    if not local_topics.keeps_names(flow) or all(each.name or not each.state.transactional for each in clients):
        return clients
    side = Side(flow.flow.source, *source)
    own = await own_producers(side, [flow.policy.journal_topic(flow.flow.target)])
    return [each for each in clients if each.name or each.state.producer_id not in own]


async def _not_described(cluster: Cluster, alias: str, topics: Collection[str]) -> list[tuple[str, str]]:
    """Those of `topics` that the cluster may have and does not describe, and why."""
    client, metadata = cluster
    names = sorted(name for name in topics if name not in metadata.topics or metadata.topics[name].error_code)
    if not names:
        return []
    codes = {name: topic.error_code for name, topic in (await client.metadata(names)).topics.items()}
    return [
        (name, f"{alias} does not describe it to this user: {name_of(code)}")
        for name, code in codes.items()
        if code not in (0, UNKNOWN_TOPIC_OR_PARTITION)
    ]


async def _kept(flow: FlowSettings, target: Cluster) -> KeptOfSource:
    return await read_kept(target[0], flow.policy.journal_topic(flow.flow.source))


def _not_kept(kept: KeptOfSource, source: str) -> list[tuple[str, str]]:
    """What the mirror did not keep, and why."""
    rows = [
        (f"lane {lane}", f"its worker kept no producers of {source}: it was of a version that does not")
        for lane in kept.lanes
    ]
    if kept.left_out:
        rows.append((f"{kept.left_out} producers", "a lane keeps those that wrote last, and has no room for these"))
    return rows


def _as_kept(compared: ComparedIds, kept: KeptOfSource, why: str) -> ComparedIds:
    return replace(compared, as_kept=AsKept(kept.asked_ms, kept.copied_ms, why))


def _no_leader(alias: str, partition: TopicPartition) -> tuple[str, str]:
    return str(partition), f"{alias} has no leader of it that answers"
