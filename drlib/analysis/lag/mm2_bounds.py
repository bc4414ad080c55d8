"""Lag with two bounds, where MirrorMaker 2's offset syncs are the only source: series with their lower bound, judged by both.

Rules: as in `mm2_lag`. Both bounds are known over time, the lower one from where the mirror ends now: what cannot be copied by
now was not copied then. So for a stopped MirrorMaker 2 both bounds grow, and for a running one the lower bound is little more
than what is left now. For checkpoints the lower bound is of the last moment only.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from drlib.analysis.lag import frames as lag
from drlib.analysis.lag import mm2_positions
from drlib.analysis.lag.mm2_lag import copied_but_unread, judge_bounds, judge_deleted
from drlib.analysis.lag.mm2_offset_syncs import OffsetSyncs
from drlib.analysis.lag.result import CHECKPOINTED, Series
from drlib.analysis.lag.trend import Point, judge_lag
from drlib.config.flow_settings import FlowSettings
from drlib.model import TopicPartition
from drlib.runs.check import Verdict


def with_lower_bounds(
    records: DataFrame, series: Sequence[Series], syncs: OffsetSyncs, moments: DataFrame
) -> tuple[Series, ...]:
    """`series` of the source with the lower bound where only offset syncs are known, judged by both."""
    if not syncs.positions or syncs.pairs is None:
        return tuple(series)
    flow = next(each.reader for each in series if each.mirror)
    ceilings = mm2_positions.furthest_positions(records, syncs.pairs, syncs.positions, flow)
    lower = lag.lag_points(lag.lag_at(records, lag.positions_at(ceilings, moments)))
    judged = []
    for each in series:
        if each.mirror and (position := syncs.positions.get(each.partition)) is not None:
            lower_bounds = tuple(point for point, _ in lower[flow, each.partition])
            judgement = judge_bounds(judge_lag(each.points, each.limits), lower_bounds[-1], each.limits)
            each = replace(
                each,
                lower_bound=lower_bounds[-1],
                lower_bounds=lower_bounds,
                judgement=judge_deleted(judgement, position, syncs.log_starts[each.partition]),
            )
        judged.append(each)
    return tuple(judged)


def judge_checkpointed(
    series: Sequence[Series], on_source: Sequence[Series], syncs: OffsetSyncs, chosen: FlowSettings
) -> tuple[Series, ...]:
    """`series` of the target; what a checkpoint leaves unread is an upper bound, as some had been read on the source."""
    mirror = {each.partition: each.points[-1] for each in on_source if each.mirror}
    groups = {(each.reader, each.partition): each.points[-1] for each in on_source if not each.mirror}
    sources = {_copy(chosen, at): at for at in syncs.positions}
    judged = []
    for each in series:
        if each.reader.endswith(CHECKPOINTED) and (at := sources.get(each.partition)) is not None:
            group = groups.get((each.reader.removesuffix(CHECKPOINTED), at))
            last = each.points[-1]
            low = Point(last.at_s, 0, 0, 0.0) if group is None else copied_but_unread(group, mirror[at])
            low = Point(
                low.at_s, min(low.records, last.records), min(low.bytes, last.bytes), min(low.age_s, last.age_s)
            )
            judgement = judge_bounds(judge_lag(each.points, each.limits), low, each.limits)
            if each.overtaken:
                why = "retention has deleted records after its checkpoint; whether it had read them is unknown"
                judgement = replace(judgement, verdict=Verdict.UNKNOWN, why=why, soonest_s=0.0, expected_s=None)
            each = replace(each, lower_bound=low, judgement=judgement)
        judged.append(each)
    return tuple(judged)


def missing_checkpoints(series: Sequence[Series], syncs: OffsetSyncs, chosen: FlowSettings) -> list[str]:
    """Groups that read what MirrorMaker 2 mirrors and have no checkpoint, as notes."""
    checkpointed = {(each.reader, each.partition) for each in series if each.reader.endswith(CHECKPOINTED)}
    missing: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in series:
        expected = not each.mirror and each.cluster == chosen.flow.source and chosen.mirrors_group(each.reader)
        known = (
            each.partition not in syncs.positions
            or (each.reader + CHECKPOINTED, _copy(chosen, each.partition)) in checkpointed
        )
        if expected and not known:
            missing[each.reader, each.partition.topic].append(each.partition.partition)
    return [
        f"MirrorMaker 2 has no checkpoint of {group} on {chosen.flow.target} for {topic}, "
        f"partitions {', '.join(map(str, sorted(numbers)))}: "
        "it would start there from its auto.offset.reset"
        for (group, topic), numbers in sorted(missing.items())
    ]


def _copy(chosen: FlowSettings, at: TopicPartition) -> TopicPartition:
    return TopicPartition(chosen.policy.remote_topic(chosen.flow.source, at.topic), at.partition)
