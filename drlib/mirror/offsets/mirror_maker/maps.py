"""The maps of a flow that MirrorMaker 2 mirrors, behind the type of those that a journal gives.

Rules: they translate from the source to the target only. A group's own checkpoint counts where it is better than the offset
syncs and they do not deny it. Topics are known by name: MirrorMaker 2 keeps no topic IDs.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Final

from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.mirror_maker.mirrored_by import Checkpoints
from drlib.mirror.offsets.mirror_maker.sync_pairs import SyncedPartition
from drlib.model import TopicPartition, Translation, TranslationKind

_NAMES: Final = uuid.UUID("6b3a3a52-5f0e-4e0b-9d0c-7a1d7c1f6f52")


def id_of(topic: str) -> uuid.UUID:
    """What stands for the ID of a source topic."""
    return uuid.uuid5(_NAMES, topic)


class SyncedMap(PartitionMap):
    """The map of a partition that MirrorMaker 2 mirrors."""

    def __init__(self, synced: SyncedPartition) -> None:
        super().__init__()
        self.synced = synced

    @property
    def position(self) -> int | None:
        return self.synced.least

    @property
    def furthest(self) -> int | None:
        return self.synced.most

    @property
    def target_end(self) -> int | None:
        return self.synced.end

    def forward(self, g: int, *, target_log_start: int = 0) -> Translation:
        return self.synced.forward(g)

    def backward(self, t: int, *, source_log_start: int = 0) -> Translation:
        return Translation(None, TranslationKind.UNKNOWN)


@dataclass
class SyncedMaps(Maps):
    """Its `by_partition` are `SyncedMap`; there are no claims."""

    checkpoints: Checkpoints = field(default_factory=dict)

    def forward(
        self,
        group: str,
        source: TopicPartition,
        position: int,
        *,
        target_log_start: int = 0,
        there: int | None = None,
        topic_id: uuid.UUID | None = None,
    ) -> Translation | None:
        if self.refusal(source.topic, source.partition) is not None:
            return Translation(None, TranslationKind.UNKNOWN)
        offsets = self.source(source.topic, source.partition)
        if not isinstance(offsets, SyncedMap):
            return None
        pair = self.checkpoints.get((group, source))
        better = None if pair is None else offsets.synced.from_checkpoint(position, *pair)
        return offsets.forward(position) if better is None else better

    def is_current(self, key: SourcePartition, topic_id: uuid.UUID | None) -> bool:
        return topic_id is not None
