"""Translate a position in a mirror partition back to its source partition, for a group that returns to the source cluster.

After a failover a group has read the mirror `LEFT.flights` to some position, and RIGHT's own `flights` to another. On LEFT,
`flights` continues after the mirrored records: first with the records that were never mirrored (the unreplicated records), then
with what is written next; RIGHT's own records arrive as `RIGHT.flights`.
Rules:
- A group that has read the whole mirror resumes after it, past the settled unreplicated records (it has read them on RIGHT,
  or they are in quarantine) and past what it had read on the source itself before. Exact, whatever became of those records.
- A group that has not read the whole mirror resumes at its exact record, but would read on into the settled unreplicated
  records, which it gets from RIGHT too: a bound, never called exact; `unread` is its distance to the end of the mirror.
- Where another replicator mirrored all of it, and how far it came has a bound, records within the bound are read again.
Not for: positions in the target's own topics, which the map of the reverse flow translates forward.
"""

from __future__ import annotations

from dataclasses import dataclass

from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import Translation, TranslationKind


@dataclass(frozen=True, slots=True)
class FailbackPosition:
    """`unread`: mirrored records that the group has not read yet on the cluster it leaves."""

    translation: Translation
    unread: int = 0


def failback_position(
    offsets: PartitionMap | None,
    position: int,
    *,
    settled: int = 0,
    previously_read: int = 0,
    source_log_start: int = 0,
) -> FailbackPosition:
    """Translate `position` in a mirror partition to its source partition.

    `settled`: the source offset below which unreplicated records were settled, 0 for none. `previously_read`: the group's own
    position on the source from before it moved, 0 for none. `offsets` is None where nothing was ever mirrored.
    """
    source_end, doubtful = None if offsets is None else offsets.source_end, 0
    if offsets is not None and source_end is None and offsets.taken is not None:  # another replicator mirrored it all
        source_end, doubtful = offsets.taken.takeover.source_offset, offsets.taken.takeover.doubtful
    if offsets is None or source_end is None:  # nothing was ever mirrored, so nothing is left to read
        resume = max(settled, previously_read, source_log_start)
        return FailbackPosition(Translation(resume, TranslationKind.EXACT))
    translation = offsets.backward(position, source_log_start=source_log_start)
    if translation.kind is TranslationKind.UNKNOWN or translation.offset is None:
        return FailbackPosition(Translation(translation.offset, TranslationKind.UNKNOWN))
    unread = offsets.unread(position)
    if unread == 0:
        resume = max(source_end, offsets.position or 0, settled, previously_read, source_log_start)
        again = max(0, source_end + doubtful - resume)
        kind = TranslationKind.BOUNDED if again else TranslationKind.EXACT
        return FailbackPosition(Translation(resume, kind, again))
    if settled > source_end and translation.kind in (TranslationKind.EXACT, TranslationKind.BOUNDED):
        read_again = settled - source_end + translation.records
        return FailbackPosition(Translation(translation.offset, TranslationKind.BOUNDED, read_again), unread)
    return FailbackPosition(translation, unread)
