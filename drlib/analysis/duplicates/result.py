"""The result of a search for duplicates as frozen values, and its verdict. Pure: no Spark, no broker.

Rules: a duplicate is a record, not a pair: of five equal records, four are duplicates. Each has one cause; without proof it is
`unknown`. A number that could not be counted is None. Any duplicate fails unless the caller allows its cause, or planted
exactly as many; what could not be read is unknown, never pass.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from drlib.lab.checker.rereads import RereadRange
from drlib.runs.check import Verdict

MOST_STEPS: Final = 60
WIDTHS_MS: Final = (100, 1000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000)


class Cause(StrEnum):
    """Why a record exists, or was read, once more."""

    REPLICATOR = "replicator"  # one source record is twice on the target
    PRODUCER = "producer"  # the source itself holds it twice, as after retries without idempotence
    FAILOVER = "failover"  # a group's position went back, so it read records again
    UNKNOWN = "unknown"  # equal records, and the evidence for a cause is gone


NONE_PLANTED: Final[Mapping[Cause, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DuplicateExample:
    """One duplicate. Offsets are None on the side where the record is not.

    `first` is the offset of the record it repeats, on the target, or on the source where the target has none.
    """

    cause: Cause
    partition: int
    source_offset: int | None
    target_offset: int | None
    first: int
    record_id: int | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class SkipRange:
    """Only duplicates of one cause at `first` <= offset < `next_offset` of the target's partition."""

    partition: int
    first: int
    next_offset: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class Heat:
    """Duplicates of one partition with a timestamp from `at_ms` on, for one step of time."""

    partition: int
    at_ms: int
    records: int


@dataclass(frozen=True, slots=True)
class Reread(RereadRange):
    """`group` went back in a partition. `how` is the evidence. `pending`: the committed offset is still there, so the records
    are yet to be read again. `unsure`: why it may have read none of them again.
    """

    how: str
    pending: bool = False
    unsure: str = ""


def doubts_of(rereads: Iterable[Reread], allowed: Collection[Cause] = ()) -> tuple[str, ...]:
    """Why it is unknown what groups read again, where that matters."""
    unsure = (each.unsure for each in rereads if each.unsure and each.records)
    return () if Cause.FAILOVER in allowed else tuple(dict.fromkeys(unsure))


@dataclass(frozen=True, slots=True)
class DuplicateReport:
    """Duplicates of a mirror topic, or of a topic alone. Counts are records and None where nothing could be read.

    `compared`: could a duplicate have been found? `exact`: copies were attributed by the replicator's own offset map, not by
    counting equal records. `step_ms`: the time a cell of `heat` spans. `skip` and `examples` are bounded; `skip_ranges` counts
    all ranges.
    """

    topic: str
    verdict: Verdict
    reasons: tuple[str, ...]
    exact: bool = False
    source_records: int | None = None
    target_records: int | None = None
    counts: Mapping[Cause, int] | None = None
    per_partition: Mapping[int, int] = field(default_factory=dict)
    examples: tuple[DuplicateExample, ...] = ()
    skip: tuple[SkipRange, ...] = ()
    skip_ranges: int = 0
    heat: tuple[Heat, ...] = ()
    step_ms: int = 0
    rereads: tuple[Reread, ...] = ()
    compared: bool = True

    @property
    def searched(self) -> bool:
        """Would duplicates in both logs have been found?"""
        return self.compared and self.counts is not None

    @property
    def total(self) -> int | None:
        return None if self.counts is None else sum(self.counts.values())

    @property
    def rate(self) -> float | None:
        """Duplicates per record of the target, or of the source where that has more."""
        most = max(self.source_records or 0, self.target_records or 0)
        return None if self.total is None or not most else self.total / most


def step_for(span_ms: int) -> int:
    """The time one column of a heat map of `span_ms` stands for: at most 60 columns, of a round length."""
    return next((width for width in WIDTHS_MS if span_ms < width * MOST_STEPS), -(-span_ms // MOST_STEPS))


def unreadable(topic: str, reason: str) -> DuplicateReport:
    """The report on a topic that could not be read."""
    return DuplicateReport(topic, Verdict.UNKNOWN, (reason,))


def is_expected(
    cause: Cause, count: int, allowed: Collection[Cause] = (), planted: Mapping[Cause, int] = NONE_PLANTED
) -> bool:
    """Whether `count` duplicates of `cause` are no failure: as many as were planted, or more where `cause` is allowed."""
    wanted = planted.get(cause, 0)
    return count == wanted or (count > wanted and cause in allowed)


def judge(
    counts: Mapping[Cause, int],
    doubts: Iterable[str] = (),
    allowed: Collection[Cause] = (),
    planted: Mapping[Cause, int] = NONE_PLANTED,
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict and its reasons: any cause found and not allowed fails, else any doubt is unknown.

    `planted`: as many duplicates of a cause were planted, so that many have to be found, no more and no fewer.
    """
    meanings = {
        Cause.REPLICATOR: "records are on the target more often than on the source",
        Cause.PRODUCER: "records were written to the source again, with the same bytes and timestamp",
        Cause.FAILOVER: "records were read again by a group",
    }
    failures = [
        f"{counts.get(c, 0)} {what}" + (f", and {planted[c]} were planted" if c in planted else "")
        for c, what in meanings.items()
        if not is_expected(c, counts.get(c, 0), allowed, planted)
    ]
    open_questions = [*doubts]
    if counts.get(Cause.UNKNOWN) and Cause.UNKNOWN not in allowed:
        open_questions.append(
            f"{counts[Cause.UNKNOWN]} records equal another one, and the evidence for the cause is gone"
        )
    verdict = Verdict.FAIL if failures else Verdict.UNKNOWN if open_questions else Verdict.PASS
    return verdict, (*failures, *open_questions)
