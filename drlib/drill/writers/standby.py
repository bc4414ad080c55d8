"""Who writes to the topics of a flow on the cluster that stands by, and which cluster that is.

Rules: the leaders say which producers they know, then the logs are looked at, then the journal: so a claim's producers are
never taken for those of clients. What the flow's map has as copied is not read; the rest is, within limits. Only what was
written since the cluster stands by counts, and of that the last day, as leaders know producers for about as long.
Rights: Read on the topics, the flow's journal, the pointer and the states of drills on the clusters that are asked.
Not for: who is a client (`rules`), judging it (`drlib.drill.readiness.checks.writers`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from drlib.client.history.entries import readable
from drlib.client.pointer import Pointer
from drlib.client.pointer_topic import EVERYONE, TOPIC, Found, Held, ask_each, read_topic
from drlib.config.settings import MirrorSettings
from drlib.drill.flow_state.flow_record import read_record
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.writers.logs import Side, claimed_producers, count_by_producer, windows
from drlib.drill.writers.rules import (
    DAY_MS,
    Standby,
    StandbyWriters,
    not_of_the_flow,
    served_since,
    standby_by_pointer,
    standby_by_state,
    unknown_producers,
    writers,
)
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.source_producers.leaders import ask_leaders
from drlib.model import Flow, TopicPartition


def find_standby(
    settings: MirrorSettings, flow: Flow, reached: Collection[str], *, copied_back: bool, timeout_s: float
) -> Standby | None:
    """The cluster that stands by; None where none does. `reached`: the aliases of clusters that answer. Blocks.

    Raises what keeps it unknown: the pointer or the state of a drill cannot be read, and no copy of the pointer decides.
    """
    sides = [settings.clusters[alias] for alias in (flow.source, flow.target) if alias in reached]
    held, silent = ask_each(sides, lambda cluster: read_topic(cluster, TOPIC, timeout_s))
    pointer = Found({alias: each.pointers for alias, each in held.items()}, silent).of(EVERYONE).pointer
    if pointer is not None:
        return standby_by_pointer(flow, pointer.active, _served_since(pointer, held))
    for error in silent.values():
        raise error
    record = _state(settings, flow, reached, timeout_s)
    back = _state(settings, flow.reverse, reached, timeout_s) if copied_back else None
    return standby_by_state(flow, record or LeaseRecord(), back, copied_back=copied_back)


def _served_since(pointer: Pointer, held: Mapping[str, Held]) -> int:
    times = [each.written_ms[EVERYONE] for each in held.values() if each.pointers.get(EVERYONE) == pointer]
    history = [past for each in held.values() for past in readable(each.history) if past.application == EVERYONE]
    return served_since(pointer, min(times, default=0), history)


def _state(settings: MirrorSettings, flow: Flow, reached: Collection[str], timeout_s: float) -> LeaseRecord | None:
    """What the flow's target knows of its drills; None where it does not answer."""
    target: ClusterSettings = settings.clusters[flow.target]
    if flow.target not in reached:
        return None
    with Cluster(target, timeout_s=timeout_s) as cluster:
        return read_record(cluster, flow)


async def standby_writers(
    standby: Standby, side: Side, topics: Sequence[str], into: Maps, journal: str, now_ms: int
) -> StandbyWriters:
    """Who writes to `topics` of `side`, which stands by. `into`: the maps of the flow to it, of any time, from `journal` there.

    Raises what a broker refuses, `Unreachable`, `JournalCorrupt`.
    """
    since_ms = max(now_ms - DAY_MS, standby.since_ms)
    partitions = [TopicPartition(name, n) for name in topics for n in sorted(side.metadata.topics[name].partitions)]
    known, _ = await ask_leaders(side.client, side.metadata, partitions)
    logs = await windows(side, topics, since_ms)
    parts = {at: not_of_the_flow(_map_into(into, at), *window) for at, window in logs.of.items()}
    counted = await count_by_producer(side.client, {at: each for at, each in parts.items() if each})
    claimed: Collection[int] = into.producers
    if unknown_producers(known, counted.values(), claimed):
        claimed = await claimed_producers(side, journal)
    found = writers(known, counted, claimed, since_ms)
    why = f"{side.alias} has no leader of it that answers"
    return StandbyWriters(
        standby,
        since_ms=since_ms,
        partitions=len(partitions),
        own=len({each.state.producer_id for each in known if each.state.producer_id in claimed}),
        writers=found,
        missing=tuple((str(at), why) for at in logs.missing),
        unread=sum(each.unread for each in counted.values()),
    )


def _map_into(maps: Maps, at: TopicPartition) -> PartitionMap | None:
    """The map of what was copied to a partition; None where there is none, or it is refused."""
    names = maps.of_target(at.topic)
    return None if names is None else maps.by_partition.get(SourcePartition(names.topic_id, at.partition))
