"""Which copy is whose, as the replicator's own map has it, for one topic of a flow of ours.

Rules: a partition whose map is in doubt, or that has none, is left out: what is counted then is what both logs hold. Read
the map after the ranges were pinned, so that it reaches as far as they do.
Not for: flows that MirrorMaker 2 runs, which keep no such map; there is none, and that is no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from drlib.config.settings import MirrorSettings
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.model import Flow, Segment


def known_copies(settings: MirrorSettings, flow: Flow) -> Maps:
    """The maps of the flow as they are now; empty for one that never ran here. Raises `Unreachable`, `BrokerError`."""
    return read_flow_maps(settings, flow)


def segments(maps: Maps, topic: str, partitions: Iterable[int]) -> Mapping[int, Sequence[Segment]]:
    """By partition of a source topic, the stretches that were mirrored; only of partitions that are known exactly."""
    found: dict[int, Sequence[Segment]] = {}
    for number in partitions:
        known = maps.source(topic, number)
        if known is None or known.doubtful or maps.refusal(topic, number) is not None:
            continue
        if stretches := tuple(known.segments()):
            found[number] = stretches
    return found
