"""How many records clients of each cluster wrote to topics that both directions copy under one name, in the last hour.

Rules: what a flow copied from a cluster was first written there, so its map counts most of it without reading a log. What the
map lacks is read, within limits, without what the flow back wrote. Logs first, and then the journals. A partition without a
leader that answers makes its topic's number on that cluster unknown, and so does a journal that was deleted. Records that
expired within the hour are not known.
Rights: Read on the topics and journals of both clusters.
Not for: who wrote (`standby`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from drlib.config.both_ways.shared_topics import TopicsShared
from drlib.config.flow_settings import FlowSettings
from drlib.drill.writers.logs import Side, Windows, claimed_producers, count_by_producer, maps_to, windows
from drlib.drill.writers.rules import (
    HOUR_MS,
    Parts,
    TopicWritten,
    Written,
    of_clients,
    own_records,
    unknown_producers,
    written,
)
from drlib.formats import first_few
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.unreplicated.origins import SharedMaps
from drlib.model import TopicPartition


async def written_on_both(
    flow: FlowSettings, back: FlowSettings, topics: Sequence[str], sides: tuple[Side, Side], there: Maps, now_ms: int
) -> tuple[TopicWritten, ...]:
    """`sides`: the flow's source and target. `topics`: exist on both. `there`: the flow's maps, of any time.

    Raises `BrokerError`, `Unreachable`, `JournalCorrupt`.
    """
    if not topics:
        return ()
    source, target = sides
    here, beyond = await asyncio.gather(*(windows(side, topics, now_ms - HOUR_MS) for side in sides))
    journals = flow.policy.journal_topic(source.alias), back.policy.journal_topic(target.alias)
    maps_back = await maps_to(source, journals[1])
    on_source, on_target = await asyncio.gather(
        _side(_Log(source, here, there, maps_back.producers, journals[1]), topics),
        _side(_Log(target, beyond, maps_back, there.producers, journals[0]), topics),
    )
    doubts = {name: _doubt(SharedMaps(flow.flow, there, maps_back), name) for name in topics}
    return tuple(
        TopicWritten(name, {source.alias: doubts[name] or one, target.alias: doubts[name] or other})
        for name, one, other in zip(topics, on_source, on_target, strict=True)
    )


def _doubt(maps: SharedMaps, topic: str) -> str:
    """Why nothing says which records are copies; "" where the journals do."""
    try:
        maps.refuse_unknown_copies(topic)
    except TopicsShared as error:
        return error.why
    return ""


@dataclass(frozen=True, slots=True)
class _Log:
    """One cluster. `away`: the maps of the flow from it; `claimed`: the producer IDs of the flow to it, as far as they are
    known, and `journal`: where the others are."""

    side: Side
    windows: Windows
    away: Maps
    claimed: Collection[int]
    journal: str


async def _side(log: _Log, topics: Sequence[str]) -> list[Written | str]:
    """The number of each topic, or why it is unknown."""
    copied: dict[TopicPartition, Written] = {}
    parts: dict[TopicPartition, Parts] = {}
    for at, window in log.windows.of.items():
        copied[at], parts[at] = own_records(log.away.source(at.topic, at.partition), *window)
    counted = await count_by_producer(log.side.client, {at: each for at, each in parts.items() if each})
    claimed = log.claimed
    if unknown_producers((), counted.values(), claimed):
        claimed = await claimed_producers(log.side, log.journal)
    found: list[Written | str] = []
    for topic in topics:
        missing = [str(at) for at in log.windows.missing if at.topic == topic]
        if missing:
            found.append(f"{first_few(missing)} has no leader that answers")
            continue
        of = [at for at in log.windows.of if at.topic == topic]
        found.append(
            written((copied[at] for at in of), (of_clients(counted[at], claimed) for at in of if at in counted))
        )
    return found
