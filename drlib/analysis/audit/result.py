"""The result of an audit as frozen values, and its verdict. Pure: no Spark, no broker.

Rules: missing data is unknown, never pass. A number that could not be counted is None, never 0. A fault that was found stays a
fault, whatever else could not be read. Records that LEFT acknowledged and the mirror had not reached yet are the price of
a failover (RPO), measured and no fault of the copy; a hole before them is a fault.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from drlib.model import TopicPartition
from drlib.runs.check import Verdict


class Fault(StrEnum):
    """What can be wrong with one record of a mirrored topic."""

    MISSING = "missing"  # on LEFT and not on RIGHT
    INVENTED = "invented"  # on RIGHT and not on LEFT
    DUPLICATED = "duplicated"  # once more on RIGHT than on LEFT
    OUT_OF_ORDER = "out-of-order"  # behind a record of the same key that follows it on LEFT
    ALTERED = "altered"  # the same record with another key, value, headers or timestamp


@dataclass(frozen=True, slots=True)
class AuditExample:
    """One record as evidence. Offsets are None on the side where the record is not."""

    fault: Fault
    partition: int
    source_offset: int | None
    target_offset: int | None
    record_id: int | None
    timestamp_ms: int
    detail: str


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """Counts of one partition in records.

    `rpo_seconds` is the time its missing records span, 0.0 without any. `holes` are missing records with a mirrored one after
    them. `unseen` are records whose counterpart is before the other side's pinned start, so undecidable. `compacted` are
    records that a log cleaner removed from one side because a later one of their key exists.
    """

    partition: int
    source_records: int
    target_records: int
    missing: int
    invented: int
    duplicated: int
    out_of_order: int
    altered: int
    holes: int
    unseen: int
    rpo_seconds: float
    compacted: int = 0


@dataclass(frozen=True, slots=True)
class CheckpointAudit:
    """One checkpoint: a group that resumes there reads `re_read` records again and skips `skipped`; None: unknown.

    `partition` is named as on the target.
    """

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    re_read: int | None
    skipped: int | None

    @property
    def verdict(self) -> Verdict:
        if self.re_read is None or self.skipped is None:
            return Verdict.UNKNOWN
        return Verdict.FAIL if self.re_read or self.skipped else Verdict.PASS


@dataclass(frozen=True, slots=True)
class AuditResult:
    """A mirrored topic against its source. Counts are records and None where the topics could not be read.

    `rpo_records` counts the records on LEFT that are not on RIGHT; `rpo_seconds` is the newest record timestamp on LEFT
    minus that of the last mirrored record, the largest of the partitions that miss any. `missing_in_tail`: every
    missing record follows the last mirrored one of its partition (true when none is missing).
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    source_records: int | None = None
    target_records: int | None = None
    missing: int | None = None
    invented: int | None = None
    duplicated: int | None = None
    out_of_order: int | None = None
    altered: int | None = None
    rpo_records: int | None = None
    rpo_seconds: float | None = None
    missing_in_tail: bool | None = None
    examples: tuple[AuditExample, ...] = ()
    per_partition: tuple[PartitionAudit, ...] = ()
    compacted: int | None = None
    checkpoints: tuple[CheckpointAudit, ...] = ()


def unreadable(reason: str) -> AuditResult:
    """The result of an audit that could not read its topics."""
    return AuditResult(Verdict.UNKNOWN, (reason,))


def conclude(partitions: Iterable[PartitionAudit], examples: Iterable[AuditExample] = ()) -> AuditResult:
    """Add the partitions up and decide: fail with any fault, else unknown with anything undecidable, else pass."""
    rows = tuple(sorted(partitions, key=lambda row: row.partition))
    source = sum(row.source_records for row in rows)
    missing, holes = sum(row.missing for row in rows), sum(row.holes for row in rows)
    invented, duplicated = sum(row.invented for row in rows), sum(row.duplicated for row in rows)
    out_of_order, altered = sum(row.out_of_order for row in rows), sum(row.altered for row in rows)
    unseen = sum(row.unseen for row in rows)
    faults = (
        (holes, "missing on the target before the last mirrored record"),
        (invented, "on the target and not on the source"),
        (duplicated, "on the target once more than on the source"),
        (out_of_order, "out of order within their key"),
        (altered, "on the target with other content"),
    )
    failures = tuple(f"{count} records {what}" for count, what in faults if count)
    doubts = []
    if source == 0:
        doubts.append("the source holds no record to compare with")
    elif not any(row.target_records for row in rows):
        doubts.append("the target holds no record to compare")
    if unseen:
        doubts.append(f"{unseen} records have no counterpart in the ranges that could still be read")
    verdict = Verdict.FAIL if failures else Verdict.UNKNOWN if doubts else Verdict.PASS
    return AuditResult(
        verdict=verdict,
        reasons=(*failures, *doubts),
        source_records=source,
        target_records=sum(row.target_records for row in rows),
        missing=missing,
        invented=invented,
        duplicated=duplicated,
        out_of_order=out_of_order,
        altered=altered,
        rpo_records=missing,
        rpo_seconds=max((row.rpo_seconds for row in rows), default=0.0),
        missing_in_tail=holes == 0,
        examples=tuple(examples),
        per_partition=rows,
        compacted=sum(row.compacted for row in rows),
    )
