"""Which mirror topics that are gone a lane may fill again from the source's start, and whether they are empty.

Rules:
- A mirror topic is identified by the topic ID in the journal. Another topic under its name is filled only while it holds
  nothing but markers, and only with permission: by the file (`drlib.target.loss.policy`, `drlib.remirror.topics`), by a
  request in the journal (`drlib remirror`) that names the very ID that is gone, or because nothing of the present
  incarnation of the source topic was ever copied, so that there is nothing to continue. Of a topic that both directions copy
  only the last is true: the copies of the target's own records, which the flow leaves out, would be missing. Once it has
  begun alone, the flow back may run again: what that one had brought before is still copied (`engine.reverse.journal`).
- A request is written beside the lane's claim, without a producer ID: it is a permission, and orders nothing. After the
  topic was filled again the journal has its new ID, so no request allows it twice.
Not for: observing and deleting mirror topics (`drlib.mirror.remirror.plan`), nor for what a claim does with the permission
(`drlib.mirror.engine.lane.lane`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from drlib.clock import now_ms
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.mirror.engine.lane.topics import LaneTopic
from drlib.mirror.errors import MirrorTopicRecreated
from drlib.mirror.journal.entries import Entry, Remirrored, RemirrorRequested, TopicNames, decode
from drlib.mirror.read_batches import holds_data, locate, log_ends, read_range
from drlib.model import TopicPartition


def may_fill_again(topic: LaneTopic, names: Iterable[TopicNames], requested: Mapping[str, uuid.UUID]) -> bool:
    """May the mirror of `topic`, which is not the journaled one any more, be filled from the source's start once it is empty?

    `names`: the lane's journal; `requested`: by mirror topic, the ID of the one that an operator gave up.
    """
    journaled = [n for n in names if n.target_topic == topic.target]
    if all(n.topic_id != topic.topic_id for n in journaled):
        return True
    if topic.shared:
        return False
    if topic.remirror:
        return True
    return requested.get(topic.target) == journaled[-1].target_topic_id


async def empty_recreated_mirrors(
    target: ClusterClient, topics: Sequence[LaneTopic], recreated: Mapping[str, MirrorTopicRecreated]
) -> list[Remirrored]:
    """Those of `recreated`, mirrors of `topics` that may be filled again, which exist again and hold nothing but markers.

    One that cannot be looked at now is left to the next look.
    """
    empty = []
    for topic in topics:
        why = recreated.get(topic.target)
        if why is None or why.now is None:
            continue
        partitions = [TopicPartition(topic.target, number) for number in topic.partitions]
        try:
            if (await log_ends(target, partitions)).ids[topic.target] != why.now:
                continue  # re-created once more since
            if any([await holds_data(target, p) for p in partitions]):
                continue
        except BrokerError:
            continue  # no leader yet, or no right to read it
        empty.append(Remirrored(topic.target, why.now, now_ms()))
    return empty


@dataclass(slots=True)
class RemirrorRequests:
    """The requests in one lane's journal. `void`: by mirror topic, the ID of the one that was given up."""

    journal: TopicPartition
    void: dict[str, uuid.UUID] = field(default_factory=dict)
    _next: int = 0

    def take(self, entries: Iterable[Entry], next_offset: int) -> None:
        """Take in a journal that was read up to `next_offset`."""
        self.void |= {e.target_topic: e.void_topic_id for e in entries if isinstance(e, RemirrorRequested)}
        self._next = next_offset

    async def refresh(self, target: ClusterClient) -> None:
        """Read what was written to the journal since, apart from what its claims wrote. Raises as `read_range` does."""
        topic_id, leader = await locate(target, self.journal)
        connection = await target.connection(leader, "control")
        end = (await requests.list_offsets(connection, [self.journal], requests.LATEST))[self.journal]
        if end < self._next:
            return  # the journal lost its end: the next claim reads it from its start
        found: list[Entry] = []
        async for header, view in read_range(connection, topic_id, self.journal, self._next, end):
            if header.producer_id >= 0:
                continue
            found += [decode(r.key, r.value) for r in recode.records(view) if r.key is not None and r.value is not None]
        self.take(found, end)
