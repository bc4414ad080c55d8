"""Bounds on how far MirrorMaker 2 is behind, from its offset syncs, which name a record only now and then. Pure.

A pair (upstream, downstream) says that one source record is there on the mirror. MM2 copies a partition in source order, so
everything up to the pair is copied, and what it has copied since is after the pair on the mirror.
Rules:
- Upper bound: everything after the newest pair is still to be copied. The newest pair counts, not the furthest: a MirrorMaker 2
  that was set back, by a kill before its offsets were flushed, sends records again.
- Lower bound: what is left when each offset after the pair on the mirror is the copy of another record. Control records,
  records sent twice and records of other producers only make the true lag larger.
- A pair that does not fit the logs (the mirror or the source ends before it) is about re-created topics: unknown.
- Both bounds are judged. Where they disagree the verdict is unknown; a predicted loss rests on the upper bound over time, as
  long as the lower bound is above zero.
Sources: `OffsetSyncWriter`, `MirrorSourceTask` of `connect.mirror`: a pair is written for the first record of a task, every
`offset.lag.max` records, after any gap, and with each commit for what was held back.
Not for: translating positions (`drlib.mirror.offsets.map.taken_part`), or for flows of drlib, whose journal is exact.
"""

from dataclasses import dataclass, replace

from drlib.analysis.lag.trend import LagJudgement, Limits, Point, Trend, judge_lag
from drlib.mirror.mm2.records import OffsetSync
from drlib.runs.check import Verdict


@dataclass(frozen=True, slots=True)
class Mm2Position:
    """MirrorMaker 2 is at source position `position`, or up to `more` records after it."""

    position: int
    more: int


@dataclass(frozen=True, slots=True)
class UnknownMm2Position:
    """Why the pair says nothing about the present topics."""

    why: str


def mm2_position(sync: OffsetSync, source_end: int, mirror_end: int) -> Mm2Position | UnknownMm2Position:
    """The position from a partition's newest pair, with both end offsets read after it, the mirror's last."""
    if sync.upstream_offset >= source_end:
        return UnknownMm2Position(
            f"the source ends at {source_end}, before offset {sync.upstream_offset} of its newest offset sync"
        )
    if sync.offset >= mirror_end:
        return UnknownMm2Position(
            f"the mirror ends at {mirror_end}, before offset {sync.offset} of its newest offset sync"
        )
    return Mm2Position(sync.upstream_offset + 1, mirror_end - sync.offset - 1)


def judge_bounds(most: LagJudgement, least: Point, limits: Limits) -> LagJudgement:
    """The judgement on a lag of at most what `most` was computed from, and at its last moment at least `least`."""
    if most.verdict is not Verdict.FAIL:
        return most
    now = judge_lag([least], limits).verdict is Verdict.FAIL
    if now or (least.records and _foreseen(most, limits)):
        return most
    why = f"upper bound: {most.why}; certain are only {least.records} records and {least.age_s:.1f} s"
    return replace(most, verdict=Verdict.UNKNOWN, why=why)


def _foreseen(most: LagJudgement, limits: Limits) -> bool:
    """Is the failure a predicted loss, rather than the present lag?"""
    growing = most.age_per_s is not None and most.age_per_s.trend is Trend.GROWING
    return growing and most.soonest_s is not None and 0 < most.soonest_s <= limits.horizon_s


def judge_deleted(reading: LagJudgement, mirror: Mm2Position, log_start: int) -> LagJudgement:
    """The judgement where the log now starts at `log_start`, which was read before the pair: were records lost?"""
    if mirror.position >= log_start:
        return reading
    deleted = f"retention has deleted offsets {mirror.position} to {log_start}"
    if mirror.position + mirror.more < log_start:
        return replace(
            reading, verdict=Verdict.FAIL, why=f"{deleted}, which were not read", soonest_s=0.0, expected_s=0.0
        )
    why = f"{deleted}, and offset syncs do not say whether they had been copied"
    return replace(reading, verdict=Verdict.UNKNOWN, why=why, soonest_s=0.0, expected_s=None)


def copied_but_unread(group: Point, mirror: Point) -> Point:
    """A group's unread records that are certainly on the mirror: by the mirror's own upper bound.

    `group` is its lag on the source; `mirror` is the flow's upper bound on the same partition, both at one moment.
    """
    records = max(0, group.records - mirror.records)
    return Point(
        group.at_s, records, max(0, group.bytes - mirror.bytes) if records else 0, group.age_s if records else 0.0
    )
