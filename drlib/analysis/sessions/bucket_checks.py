"""From a bucket report to the checks of a scorecard. Pure.

Rules: a fault is a fault, whatever could not be read. Differences that prove nothing are unknown, and so are unjudged buckets,
a topic without records and a side that was not read lately. Buckets the mirror has not passed yet are a price.
"""

from drlib import formats
from drlib.analysis.continuous.compare import BucketReport
from drlib.analysis.continuous.rules import BucketState
from drlib.runs.check import Check, Verdict


def topic_checks(report: BucketReport, topic: str) -> list[Check]:
    """Were all buckets of `topic`, named as on the source, mirrored completely, and in time?"""
    partitions = [each for each in report.partitions if each.partition.topic == topic]
    findings = [each for each in report.findings if each.bucket.partition.topic == topic]
    buckets, equal = sum(each.buckets for each in partitions), sum(each.equal for each in partitions)
    wrong = [each for each in findings if each.state is BucketState.DIFFERS]
    unknown = [each for each in findings if each.state is BucketState.UNKNOWN]
    late, waiting = report.count(BucketState.OVERDUE, topic), report.count(BucketState.NOT_YET, topic)
    passed = buckets - late - waiting
    evidence = f"{equal:,} of {passed:,} buckets that the mirror has passed are equal"
    if wrong:
        first = wrong[0].bucket
        evidence += f"; {len(wrong):,} differ, the oldest {first.partition} from {formats.second(first.start_ms)}"
    if unknown:
        evidence += f"; {len(unknown):,} prove nothing: {unknown[0].why}"
    if report.unjudged:
        evidence += f"; of all topics, {report.unjudged:,} more are not equal and were not judged"
    verdict = Verdict.PASS
    if wrong:
        verdict = Verdict.FAIL
    elif unknown or report.unjudged or not passed:
        verdict = Verdict.UNKNOWN
    in_time = Verdict.PASS if buckets else Verdict.UNKNOWN
    if late or waiting:
        in_time = Verdict.FAIL if late else Verdict.CONDITIONS
    return [
        Check(name=f"{topic}: every bucket was mirrored completely", verdict=verdict, evidence=evidence),
        Check(
            name=f"{topic}: nothing is overdue",
            verdict=in_time,
            evidence=f"{late:,} buckets are overdue, {waiting:,} the mirror has not passed yet",
        ),
    ]


def read_check(alias: str, read_to_ms: int | None, now_ms: int, lag_s: float, why: str = "") -> Check:
    """Was a cluster read to its end within `lag_s`? `why` it is no longer read, "" where it is."""
    fresh = read_to_ms is not None and (now_ms - read_to_ms) / 1000 <= lag_s
    evidence = f"read to its end of {formats.second(read_to_ms)}" if read_to_ms is not None else "never read to its end"
    return Check(
        name=f"{alias} is read",
        verdict=Verdict.PASS if fresh and not why else Verdict.UNKNOWN,
        evidence=f"{evidence}; {why}" if why else evidence,
    )
