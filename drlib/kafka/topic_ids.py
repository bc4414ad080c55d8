"""IDs of topics: those that Kafka gives (from 2.8 on, UUIDs of version 4), and those that are made here where it gives none.

Rules: metadata of a topic without an ID bears `stand_in`, which is one for each name and proves nothing about identity. What
is journaled of such a topic bears `made_id`, whose number counts how often the topic was created again. Both are UUIDs of
version 5, so none can be taken for an ID of Kafka. Whether the topic is still the one that was journaled is decided elsewhere
(`drlib.mirror.engine.identity`).
Source: KIP-516; Kafka's `Uuid.randomUuid`.
"""

import uuid
from collections.abc import Collection
from typing import Final

NO_TOPIC_ID: Final = uuid.UUID(int=0)
_LONGEST_GAP: Final = 1000  # numbers in a row that are not in use any more
_SPACE: Final = uuid.UUID("6f2b6d1e-2a55-5c0f-9a39-8a1f3a3f2c71")


def stand_in(name: str) -> uuid.UUID:
    """What stands for the ID of a topic that has none."""
    return uuid.uuid5(_SPACE, name)


def made_id(cluster_id: str, name: str, number: int) -> uuid.UUID:
    """The ID of the `number`th topic of that name, counted from 1."""
    return uuid.uuid5(_SPACE, f"{cluster_id}\0{name}\0{number}")


def next_made_id(cluster_id: str, name: str, used: Collection[uuid.UUID]) -> uuid.UUID:
    """The made ID that follows those of `used`."""
    last = number = 0
    while number < last + _LONGEST_GAP:
        number += 1
        if made_id(cluster_id, name, number) in used:
            last = number
    return made_id(cluster_id, name, last + 1)


def is_made(topic_id: uuid.UUID) -> bool:
    """Was the ID made here, so that it does not come from Kafka?"""
    return topic_id.int >> 76 & 0xF == 5  # the version, without its property's checks: this is asked of every fetch


def reported(name: str, topic_id: uuid.UUID | None) -> uuid.UUID:
    """A topic's ID as a broker reports it, or what stands for it."""
    return topic_id if topic_id is not None and topic_id != NO_TOPIC_ID else stand_in(name)


def may_be(found: uuid.UUID, meant: uuid.UUID) -> bool:
    """May the topic whose ID is reported as `found` be the one that is `meant`? One without an ID may be any of its name."""
    return found == meant or is_made(found)
