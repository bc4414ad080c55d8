"""What a failover loses, by partition: records, and the seconds they span, each with bounds. Pure.

Rules: the records that are missing lie behind the last mirrored one and before the fault, so they span at most the time between
both. Where the source reported its log end, and all of it was mirrored, they are younger than that report, which bounds them
more closely. Where it reported more than was mirrored, that many are missing at least. What is not known is None with the
reason, never 0; a difference that is negative says that the clocks differ, and bounds nothing.
Not for: asking the clusters (`observe_flow`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from drlib.formats import second


@dataclass(frozen=True, slots=True)
class PartitionEvidence:
    """A mirrored partition. `source_end` is the log end that the source reported last, at `as_of_ms` (None where it never did),
    `mirrored_to` the source offset up to which the target has all, `last_mirrored_ms` the timestamp of the last record there.

    Times are by this machine's clock, as far as `as_of_ms` could be corrected: None where it could not.
    """

    topic: str
    partition: int
    source_end: int | None
    mirrored_to: int
    target_end: int
    as_of_ms: int | None = None
    last_mirrored_ms: int | None = None
    oldest_missing_s: float | None = None  # the age of the oldest missing record when the log end was reported


@dataclass(frozen=True, slots=True)
class PartitionLoss:
    """`records`: missing at least, None where it is unknown. The seconds they span: at least, at most; None is unknown."""

    evidence: PartitionEvidence
    records: int | None
    at_least_s: float | None
    at_most_s: float | None
    basis: str


def loss(evidence: PartitionEvidence, fault_ms: int, *, exact: bool = False) -> PartitionLoss:
    """What is missing of one partition if its source stopped at `fault_ms`. `exact`: the source answers, with its log end."""
    end, as_of = evidence.source_end, evidence.as_of_ms
    missing = None if end is None else max(0, end - evidence.mirrored_to)
    if exact and missing == 0:
        return PartitionLoss(evidence, 0, 0.0, 0.0, "the source answers, and all of it is mirrored")
    bounds = []
    last = evidence.last_mirrored_ms
    if last is not None and last <= fault_ms:
        bounds.append((fault_ms - last, f"the last mirrored record is of {second(last)} UTC"))
    if missing == 0 and as_of is not None:
        bounds.append((max(0, fault_ms - as_of), f"all was mirrored of what the source had at {second(as_of)} UTC"))
    most, basis = min(bounds, default=(None, _unbounded(evidence, fault_ms)))
    least = None if missing is None else 0.0
    if missing and evidence.oldest_missing_s is not None:
        least = evidence.oldest_missing_s
        if most is not None:
            least = min(least, most / 1000)
    if missing is None:
        basis += "; how many records the source had is not known"
    return PartitionLoss(evidence, missing, least, None if most is None else round(most / 1000, 3), basis)


def _unbounded(evidence: PartitionEvidence, fault_ms: int) -> str:
    if evidence.last_mirrored_ms is not None and evidence.last_mirrored_ms > fault_ms:
        ahead = (evidence.last_mirrored_ms - fault_ms) / 1000
        return f"not bounded: the last mirrored record is {ahead:.1f} s after the fault, so clocks differ"
    return "not bounded: no record of it is on the target" if evidence.last_mirrored_ms is None else "not bounded"


def worst_s(losses: Sequence[PartitionLoss]) -> tuple[float | None, float | None, str]:
    """The least and the most seconds of all partitions, and what the most rests on. None where one partition is unknown."""
    if not losses:
        return None, None, "no partition of the flow is known"
    unbounded = next((each for each in losses if each.at_most_s is None), None)
    if unbounded is not None:
        e = unbounded.evidence
        return None, None, f"{e.topic}-{e.partition}: {unbounded.basis}"
    widest = max(losses, key=lambda each: each.at_most_s or 0.0)
    least = max(each.at_least_s or 0.0 for each in losses)
    e = widest.evidence
    return round(least, 3), widest.at_most_s, f"{e.topic}-{e.partition}: {widest.basis}"
