"""Which copy belongs to which source record, from the mirror's own offset map.

Rules: partitions with a doubtful map, or without one, are left out; their duplicates are counted from both logs. Read the
maps after pinning the ranges, so that they reach as far.
Not for: flows of MirrorMaker 2, which keeps no such map; the result is empty, not an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from drlib.mirror.offsets.map.load_maps import Maps
from drlib.model import Segment


def segments(maps: Maps, topic: str, partitions: Iterable[int]) -> Mapping[int, Sequence[Segment]]:
    """By partition of a source topic, the mirrored segments; only of partitions with an exact map."""
    by_partition: dict[int, Sequence[Segment]] = {}
    for number in partitions:
        known = maps.source(topic, number)
        if known is None or known.doubtful or maps.refusal(topic, number) is not None:
            continue
        if stretches := tuple(known.segments()):
            by_partition[number] = stretches
    return by_partition
