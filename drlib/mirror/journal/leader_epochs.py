"""Leader epochs of the source's records, as journaled: they show whether the source still has the history that was read.

Rules: a leader epoch is valid for a position when its records were promised below it. An epoch journaled beyond the
position was never delivered, and the source may have another history there since: it is taken back at the next claim
(`NEVER`).
Source: KIP-101, KIP-320 (an epoch that ends below where it was read means an unclean leader election, however far the log
has grown since).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from drlib.mirror.journal.entries import Entry, SourceEpoch, SourcePartition

NEVER: Final = 2**63 - 1
UNKNOWN_EPOCH: Final = -1

Epochs = Mapping[SourcePartition, Mapping[int, int]]
"""By partition: leader epoch -> the offset from which on it was read."""


def epochs_read(entries: Iterable[Entry]) -> Epochs:
    """The leader epochs in a journal."""
    epochs: dict[SourcePartition, dict[int, int]] = defaultdict(dict)
    for entry in entries:
        if isinstance(entry, SourceEpoch):
            epochs[entry.partition][entry.epoch] = entry.source_offset
    return epochs


def epoch_below(epochs: Mapping[int, int], position: int) -> int:
    """Leader epoch of the record before `position`; -1 where it is not known."""
    return max((epoch for epoch, first in epochs.items() if first < position), default=UNKNOWN_EPOCH)


def taken_back(partition: SourcePartition, epochs: Mapping[int, int], position: int) -> list[Entry]:
    """Entries that take back the epochs journaled at or beyond `position`."""
    return [SourceEpoch(partition, epoch, NEVER) for epoch, first in epochs.items() if position <= first < NEVER]
