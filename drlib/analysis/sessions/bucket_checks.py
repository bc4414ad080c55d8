"""What a report on buckets comes to, as checks of a scorecard. Pure.

Rules: a fault that was seen is a fault, whatever could not be seen; what proves nothing is unknown, and so are buckets that
nobody judged, a topic without records and a side that was not read lately. What the mirror has yet to pass is a price.
"""

from __future__ import annotations

from datetime import UTC, datetime

from drlib.analysis.continuous.compare import BucketReport
from drlib.analysis.continuous.rules import State
from drlib.runs.check import Check, Verdict


def topic_checks(report: BucketReport, topic: str) -> list[Check]:
    """Did everything of `topic`, as the source calls it, come over; and in time?"""
    mine = [one for one in report.partitions if one.partition.topic == topic]
    found = [one for one in report.findings if one.bucket.partition.topic == topic]
    buckets, equal = sum(one.buckets for one in mine), sum(one.equal for one in mine)
    wrong = [one for one in found if one.state is State.DIFFERS]
    doubtful = [one for one in found if one.state is State.UNKNOWN]
    told = f"{equal:,} of {buckets:,} buckets are equal"
    if wrong:
        first = wrong[0].bucket
        told += f"; {len(wrong):,} differ, the oldest {first.partition} from {moment(first.start_ms)}"
    if doubtful:
        told += f"; {len(doubtful):,} prove nothing: {doubtful[0].why}"
    if report.unjudged:
        told += f"; of all topics, {report.unjudged:,} more are not equal and were not judged"
    verdict = Verdict.PASS
    if wrong:
        verdict = Verdict.FAIL
    elif doubtful or report.unjudged or not buckets:
        verdict = Verdict.UNKNOWN
    late, waiting = report.count(State.OVERDUE, topic), report.count(State.NOT_YET, topic)
    return [
        Check(name=f"{topic}: every bucket came over whole", verdict=verdict, evidence=told),
        Check(
            name=f"{topic}: nothing is overdue",
            verdict=Verdict.FAIL if late else Verdict.CONDITIONS if waiting else Verdict.PASS,
            evidence=f"{late:,} buckets are overdue, {waiting:,} the mirror has yet to pass",
        ),
    ]


def read_check(alias: str, read_to_ms: int | None, now_ms: int, lag_s: float, why: str = "") -> Check:
    """Was a cluster read to its end within `lag_s`? `why` it is not read any more, where that is so."""
    fresh = read_to_ms is not None and (now_ms - read_to_ms) / 1000 <= lag_s
    told = f"read to its end of {moment(read_to_ms)}" if read_to_ms is not None else "never read to its end"
    return Check(
        name=f"{alias} is read",
        verdict=Verdict.PASS if fresh and not why else Verdict.UNKNOWN,
        evidence=f"{told}; {why}" if why else told,
    )


def moment(at_ms: int) -> str:
    """A time of day in UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
