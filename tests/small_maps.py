"""The smallest map with a gap in the middle, for tests of what is read from maps."""

from __future__ import annotations

from uuid import UUID

from drlib.mirror.journal.entries import Ack, ClaimId, Entry, Placement, Run, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap

P = SourcePartition(UUID(int=1), 0)
C1 = ClaimId(9, 0)
# Source 10..14, a marker at 15, 16..17; on the target behind one marker: 1..5, 6..7.
TWO_RUNS: tuple[Entry, ...] = (Placement(P, C1, 0, 1), Run(P, C1, 0, 10), Run(P, C1, 5, 16), Ack(P, C1, 7, 8))


def built(*entries: Entry) -> PartitionMap:
    offsets = PartitionMap()
    for entry in entries:
        offsets.apply(entry)
    return offsets
