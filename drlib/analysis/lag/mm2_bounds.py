"""Lags that have two ends, because MirrorMaker 2's word is all there is: series with their lower end, judged by both.

Rules: as in `rules.mm2_lag`. Both ends are known over time, the lower one from where the mirror ends now: what it cannot have
copied by now it had not copied then. So a MirrorMaker 2 that stands still is seen to fall behind for certain, and of one that
runs little more is certain than what is left now. Of checkpoints the lower end is of the last moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from drlib.analysis.lag import frames as lag
from drlib.analysis.lag import mm2_positions
from drlib.analysis.lag.mm2_lag import expired, judged, waiting
from drlib.analysis.lag.mm2_offset_syncs import Told
from drlib.analysis.lag.result import CHECKPOINTED, Series
from drlib.analysis.lag.trend import Point, read
from drlib.config.flow_settings import FlowSettings
from drlib.model import TopicPartition
from drlib.runs.check import Verdict


def bounded(records: DataFrame, series: Sequence[Series], told: Told, moments: DataFrame) -> tuple[Series, ...]:
    """`series` of the source with the lower end where MirrorMaker 2's word is all there is, and judged by both."""
    if not told.stands or told.pairs is None:
        return tuple(series)
    flow = next(one.reader for one in series if one.mirror)
    ceilings = mm2_positions.furthest(records, told.pairs, told.stands, flow)
    least = lag.points(lag.lags(records, lag.held(ceilings, moments)))
    found = []
    for one in series:
        if one.mirror and (stood := told.stands.get(one.partition)) is not None:
            certain = tuple(point for point, _ in least[flow, one.partition])
            reading = judged(read(one.points, one.limits), certain[-1], one.limits)
            one = replace(
                one, least=certain[-1], certain=certain, reading=expired(reading, stood, told.starts[one.partition])
            )
        found.append(one)
    return tuple(found)


def checkpointed(
    series: Sequence[Series], here: Sequence[Series], told: Told, chosen: FlowSettings
) -> tuple[Series, ...]:
    """`series` of the target; what a checkpoint leaves unread is at most that, for some of it had been read on the source."""
    mirror = {one.partition: one.points[-1] for one in here if one.mirror}
    groups = {(one.reader, one.partition): one.points[-1] for one in here if not one.mirror}
    sources = {_copy(chosen, at): at for at in told.stands}
    found = []
    for one in series:
        if one.reader.endswith(CHECKPOINTED) and (at := sources.get(one.partition)) is not None:
            group = groups.get((one.reader.removesuffix(CHECKPOINTED), at))
            last = one.points[-1]
            low = Point(last.at_s, 0, 0, 0.0) if group is None else waiting(group, mirror[at])
            low = Point(
                low.at_s, min(low.records, last.records), min(low.bytes, last.bytes), min(low.age_s, last.age_s)
            )
            reading = judged(read(one.points, one.limits), low, one.limits)
            if one.overtaken:
                why = "retention has overtaken its checkpoint; whether it had read what was deleted is not known"
                reading = replace(reading, verdict=Verdict.UNKNOWN, why=why, soonest_s=0.0, expected_s=None)
            one = replace(one, least=low, reading=reading)
        found.append(one)
    return tuple(found)


def without_checkpoint(series: Sequence[Series], told: Told, chosen: FlowSettings) -> list[str]:
    """Groups that read what MirrorMaker 2 mirrors and that it would leave to begin anew."""
    there = {(one.reader, one.partition) for one in series if one.reader.endswith(CHECKPOINTED)}
    missing: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one in series:
        asked = not one.mirror and one.cluster == chosen.flow.source and chosen.mirrors_group(one.reader)
        known = one.partition not in told.stands or (one.reader + CHECKPOINTED, _copy(chosen, one.partition)) in there
        if asked and not known:
            missing[one.reader, one.partition.topic].append(one.partition.partition)
    return [
        f"on {chosen.flow.target} nothing is known of {group} in {topic}, partitions {', '.join(map(str, sorted(numbers)))}: "
        "MirrorMaker 2 has no checkpoint of it, so it would begin anew there"
        for (group, topic), numbers in sorted(missing.items())
    ]


def _copy(chosen: FlowSettings, at: TopicPartition) -> TopicPartition:
    return TopicPartition(chosen.policy.remote_topic(chosen.flow.source, at.topic), at.partition)
