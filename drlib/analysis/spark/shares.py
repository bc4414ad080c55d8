"""A flow's own share of topics that both directions copy under one name: what was first written on its source, and its copies.

Rules: each log of such a topic has the records of both clusters. Compared are the source's own records with the flow's copies
on the target, as if they were topics of their own; the other direction is another flow.
Not for: telling them apart (`drlib.mirror.offsets.unreplicated.origins`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from drlib.analysis.spark.parts import only_inside
from drlib.analysis.spark.topics import TopicRange
from drlib.config.both_ways.shared_topics import TopicsShared, refuse_ring, shared_between
from drlib.config.settings import MirrorSettings
from drlib.formats import first_few
from drlib.kafka.admin.descriptions import Range
from drlib.mirror.offsets.unreplicated.origins import SharedMaps, read_shared_maps, read_stretches_of
from drlib.model import Flow, TopicPartition

_NAMED: Final = 5  # topics


@dataclass(frozen=True, slots=True)
class Journals:
    """By which copies are recognised: on the target the flow's own, and on the source that of the flow back."""

    source: UUID
    target: UUID


def shared_of(settings: MirrorSettings, flow: Flow, topics: Collection[str]) -> tuple[str, ...]:
    """Those of `topics` that are copied in both directions under one name. Raises `TopicsShared` in a ring."""
    refuse_ring(settings, flow, "one direction cannot be analysed")
    shared = shared_between(settings, flow)
    return () if shared is None else tuple(sorted(filter(shared, topics)))


def refuse_unknown_copies(settings: MirrorSettings, flow: Flow, topics: Collection[str]) -> None:
    """Raises `TopicsShared` where it is unknown which records of shared `topics` are copies; what clusters refuse."""
    if topics:
        _maps_of_copies(settings, flow, topics)


def _maps_of_copies(settings: MirrorSettings, flow: Flow, topics: Collection[str]) -> SharedMaps:
    """The maps of both directions; raises as `refuse_unknown_copies`."""
    maps = read_shared_maps(settings, flow)
    for topic in sorted(topics):
        maps.refuse_unknown_copies(topic)
    return maps


def pin_journals(settings: MirrorSettings, flow: Flow, topics: Collection[str]) -> Journals | None:
    """The journals that say which records of shared `topics` are copies, so that later readers use no others; None without any.

    Raises as `refuse_unknown_copies` does, and `TopicsShared` for a direction that drlib mirror has never run for.
    """
    if not topics:
        return None
    maps = _maps_of_copies(settings, flow, topics)
    found = []
    for direction, of_flow in ((flow.reverse, maps.back), (flow, maps.there)):
        if of_flow.journal_id is None:
            raise TopicsShared(
                f"which records of {min(topics)} on {direction.target} are copies is not known yet",
                f"drlib mirror has never run for {direction}",
                "Start 'drlib mirror' with both directions enabled, then run this again.",
            )
        found.append(of_flow.journal_id)
    return Journals(*found)


def with_shares(
    settings: MirrorSettings, flow: Flow, pinned: Iterable[TopicRange], *, copies: bool
) -> list[TopicRange]:
    """The ranges of shared topics with the flow's share of each: on the target its `copies`, on the source all other records.

    Raises as `drlib.mirror.offsets.unreplicated.origins.read_stretches_of` does.
    """
    wanted = list(pinned)
    ranges = {
        TopicPartition(each.topic, number): Range(first, each.end[number])
        for each in wanted
        for number, first in each.start.items()
    }
    found = read_stretches_of(settings, flow if copies else flow.reverse, ranges, copies=copies)
    return [
        replace(each, parts={n: found.get(TopicPartition(each.topic, n), ()) for n in each.start}) for each in wanted
    ]


def keep_share(
    settings: MirrorSettings,
    flow: Flow,
    shared: Collection[str],
    journals: Journals,
    records: DataFrame,
    *,
    copies: bool,
) -> DataFrame:
    """Records of any topics (columns topic, partition, offset) without those of `shared` ones that are not of the flow's share.

    They are read once more to see which offsets they span. Raises as `with_shares` does, and `TopicsShared` for other
    `journals`.
    """
    spans = records.groupBy("topic", "partition").agg(sf.min("offset"), sf.max("offset")).collect()
    ranges = {TopicPartition(topic, number): Range(first, last + 1) for topic, number, first, last in spans}
    of_both = {at: span for at, span in ranges.items() if at.topic in shared}
    journal = journals.target if copies else journals.source
    found = read_stretches_of(settings, flow if copies else flow.reverse, of_both, copies=copies, journal=journal)
    return only_inside(records, parts_of(ranges, shared, found))


def parts_of(
    spans: Mapping[TopicPartition, Range],
    shared: Collection[str],
    found: Mapping[TopicPartition, Iterable[Range]],
) -> list[tuple[str, int, int, int]]:
    """As `only_inside` takes them: `spans` as a whole, and of `shared` topics the stretches that were `found`."""
    return [
        (at.topic, at.partition, *part)
        for at, span in spans.items()
        for part in (found.get(at, ()) if at.topic in shared else (span,))
    ]


def shared_note(flow: Flow, topics: Sequence[str]) -> str:
    """What of `topics`, which both directions copy, the figures of `flow` are about; empty without any."""
    if not topics:
        return ""
    named = first_few(topics, _NAMED)
    return (
        f"{named}: copied in both directions. Counted are records that were first written on {flow.source}; for those of "
        f"{flow.target} run it with the flow {flow.reverse}"
    )
