"""How far MirrorMaker 2 is behind, from what it tells: bounds, since its offset syncs name a record only now and then.

A pair (upstream, downstream) says that one source record stands there on the mirror. MM2 copies a partition in source order, so
everything up to the pair is over, and what it has copied since stands behind the pair on the mirror.
Rules:
- At most everything behind the newest pair is still to come. The newest counts and not the furthest: a MirrorMaker 2 that was
  set back, by a kill before its offsets were flushed, sends the rest again.
- At least what is left when each offset behind the pair on the mirror is the copy of another record. Markers, records sent
  twice and records of somebody else only make the truth larger than that.
- A pair that does not fit the logs (the mirror or the source ends before it) speaks of topics that are gone: unknown.
- Judged are both ends. Where they disagree the verdict is unknown; a loss that is foreseen rests on the upper end over time,
  as long as something is behind for certain.
Sources: `OffsetSyncWriter`, `MirrorSourceTask` of `connect.mirror`: a pair is written on the first record of a lifetime, every
`offset.lag.max` records, after any gap, and with each commit for what was held back.
Not for: translating positions (`rules.takeover.sparse`), or for flows of ours, whose journal is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from drlib.analysis.lag.trend import Limits, Point, Reading, Trend, read
from drlib.mirror.mm2.records import OffsetSync
from drlib.runs.check import Verdict


@dataclass(frozen=True, slots=True)
class Stand:
    """MirrorMaker 2 stands at source position `position`, or up to `more` records behind it."""

    position: int
    more: int


@dataclass(frozen=True, slots=True)
class NoStand:
    """The pair says nothing of the topics as they are, and why."""

    why: str


def stand(sync: OffsetSync, source_end: int, mirror_end: int) -> Stand | NoStand:
    """What the newest pair of a partition says, with both log ends read after it; the mirror's read last."""
    if sync.upstream_offset >= source_end:
        return NoStand(
            f"the source ends at {source_end}, before offset {sync.upstream_offset} of its newest offset sync"
        )
    if sync.offset >= mirror_end:
        return NoStand(f"the mirror ends at {mirror_end}, before offset {sync.offset} of its newest offset sync")
    return Stand(sync.upstream_offset + 1, mirror_end - sync.offset - 1)


def judged(most: Reading, least: Point, limits: Limits) -> Reading:
    """The reading of a lag that is at most what `most` was read from, and at its last moment at least `least`."""
    if most.verdict is not Verdict.FAIL:
        return most
    now = read([least], limits).verdict is Verdict.FAIL
    if now or (least.records and _foreseen(most, limits)):
        return most
    why = f"at most: {most.why}; for certain {least.records} records and {least.age_s:.1f} s are behind"
    return replace(most, verdict=Verdict.UNKNOWN, why=why)


def _foreseen(most: Reading, limits: Limits) -> bool:
    """Does it fail by where it goes, rather than by where it stands?"""
    growing = most.age_per_s is not None and most.age_per_s.trend is Trend.GROWING
    return growing and most.soonest_s is not None and 0 < most.soonest_s <= limits.horizon_s


def expired(reading: Reading, told: Stand, log_start: int) -> Reading:
    """`reading` where the log now begins at `log_start`, which was read before the pair: is anything lost?"""
    if told.position >= log_start:
        return reading
    gone = f"retention has deleted offsets {told.position} to {log_start}"
    if told.position + told.more < log_start:
        return replace(reading, verdict=Verdict.FAIL, why=f"{gone}, which were not read", soonest_s=0.0, expected_s=0.0)
    why = f"{gone}, and the offset syncs do not say whether they had been copied"
    return replace(reading, verdict=Verdict.UNKNOWN, why=why, soonest_s=0.0, expected_s=None)


def waiting(group: Point, mirror: Point) -> Point:
    """What of a group's unread records stands on the mirror for certain: those the mirror has, by its own upper bound.

    `group` is its lag on the source; `mirror` the flow's at most on the same partition, both at one moment.
    """
    records = max(0, group.records - mirror.records)
    return Point(
        group.at_s, records, max(0, group.bytes - mirror.bytes) if records else 0, group.age_s if records else 0.0
    )
