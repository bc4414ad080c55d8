"""Where a group goes on that comes back to the cluster its records are from: a position in a mirror, on its source.

After a failover a group has read the mirror `LEFT.flights` to some position, and RIGHT's own `flights` to another. On LEFT
`flights` goes on behind what was mirrored, first with the tail that the mirror never had, then with what is written there
next; RIGHT's own records come as `RIGHT.flights`.
Rules:
- A group that has read the whole mirror goes on behind it, past what of the tail was settled (it has that from RIGHT, or it is
  in quarantine) and past what it had read on the source itself before. Exact, whatever became of the tail.
- One that has not read the whole mirror stands at its exact record, but would read on into the settled part of the tail,
  which it gets from RIGHT too: a bound, never called exact; `unread` says how far it is from the end of the mirror.
Not for: positions in the target's own topics, which the mirror back translates forward.
"""

from __future__ import annotations

from dataclasses import dataclass

from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import Translation, TranslationKind


@dataclass(frozen=True, slots=True)
class Returned:
    """`unread`: mirrored records the group has still to read where it is."""

    translation: Translation
    unread: int = 0


def failback_position(
    offsets: PartitionMap | None, position: int, *, settled: int = 0, had_read: int = 0, source_log_start: int = 0
) -> Returned:
    """`position` in a mirror partition, on the source. `settled`: the source offset below which the tail was settled, 0 for
    none; `had_read`: the group's own position on the source, from before it moved, 0 for none."""
    end = None if offsets is None else offsets.target_end
    source_end = None if offsets is None else offsets.source_end
    if offsets is None or source_end is None or end is None:  # nothing was ever mirrored, so nothing is left to read
        at = max(settled, had_read, source_log_start)
        return Returned(Translation(at, TranslationKind.EXACT))
    there = offsets.backward(position, source_log_start=source_log_start)
    if there.kind is TranslationKind.UNKNOWN or there.offset is None:
        return Returned(Translation(there.offset, TranslationKind.UNKNOWN))
    unread = offsets.segments_on_target(position, end)
    if unread == 0:
        at = max(source_end, offsets.position or 0, settled, had_read, source_log_start)
        return Returned(Translation(at, TranslationKind.EXACT))
    if settled > source_end and there.kind in (TranslationKind.EXACT, TranslationKind.BOUNDED):
        again = settled - source_end + (there.records if there.kind is TranslationKind.BOUNDED else 0)
        return Returned(Translation(there.offset, TranslationKind.BOUNDED, again), unread)
    return Returned(there, unread)
