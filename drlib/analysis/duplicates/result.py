"""What a search for duplicates found, as frozen values, and the verdict they lead to. Pure: no Spark, no broker.

Rules: a duplicate is a record, not a pair: of five alike, four. Each has one cause. What has no provable cause is
`unknown` and never blamed on anybody. A number that could not be counted is None. Whatever is found fails unless the
caller allows its cause; what could not be looked at is unknown, never pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from drlib.runs.check import Verdict

MOST_STEPS: Final = 60
WIDTHS_MS: Final = (100, 1000, 10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000)


class Cause(StrEnum):
    """Why a record is there, or was read, once more."""

    REPLICATOR = "replicator"  # one source record is twice on the target
    PRODUCER = "producer"  # the source itself holds it twice, as after retries without idempotence
    FAILOVER = "failover"  # a group's position went back, so it read records again
    UNKNOWN = "unknown"  # alike, and what would tell why is not there (any more)


@dataclass(frozen=True, slots=True)
class DuplicateExample:
    """One duplicate. Offsets are None where the record is not; `first` is the offset of the record it repeats, on the
    target, or on the source where the target has none."""

    cause: Cause
    partition: int
    source_offset: int | None
    target_offset: int | None
    first: int
    record_id: int | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class SkipRange:
    """Nothing but duplicates of one cause at `first` <= offset < `next_offset` of the target's partition."""

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
class Reread:
    """`group` went back in a partition: `records` of them, from `first` up to `next_offset`, were read again.

    `cluster` and `topic` are where the records are that were read again; `how` says what showed it. `pending`: the
    position stands there, and the records are still to be read again.
    """

    group: str
    cluster: str
    topic: str
    partition: int
    first: int
    next_offset: int
    records: int
    at_ms: int
    how: str
    pending: bool = False


@dataclass(frozen=True, slots=True)
class DuplicateReport:
    """Duplicates of a mirror topic, or of a topic alone. Counts are records and None where nothing could be read.

    `exact`: which copy is whose was told by the replicator's own offset map, not by counting like records.
    `step_ms`: how much time a cell of `heat` spans. `skip` and `examples` are bounded; `skip_ranges` counts all of them.
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

    @property
    def total(self) -> int | None:
        return None if self.counts is None else sum(self.counts.values())

    @property
    def rate(self) -> float | None:
        """Duplicates for each record of the target (of the source where the target is not the larger)."""
        most = max(self.source_records or 0, self.target_records or 0)
        return None if self.total is None or not most else self.total / most


def step_for(span_ms: int) -> int:
    """How much time one column of a picture of `span_ms` should stand for: at most 60 of them, of a length with a name."""
    return next((width for width in WIDTHS_MS if span_ms < width * MOST_STEPS), -(-span_ms // MOST_STEPS))


def unreadable(topic: str, reason: str) -> DuplicateReport:
    """The report on a topic that could not be read."""
    return DuplicateReport(topic, Verdict.UNKNOWN, (reason,))


def judge(
    counts: Mapping[Cause, int], doubts: Iterable[str] = (), allowed: Collection[Cause] = ()
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict and its reasons: any cause found and not allowed fails, else anything in doubt is unknown."""
    words = {
        Cause.REPLICATOR: "records are on the target more often than on the source",
        Cause.PRODUCER: "records were written to the source again, alike in every byte and their timestamp",
        Cause.FAILOVER: "records were read again by a group",
    }
    failures = [f"{counts[c]} {what}" for c, what in words.items() if counts.get(c) and c not in allowed]
    open_questions = [*doubts]
    if counts.get(Cause.UNKNOWN) and Cause.UNKNOWN not in allowed:
        open_questions.append(f"{counts[Cause.UNKNOWN]} records have a like one, and what would tell why is gone")
    verdict = Verdict.FAIL if failures else Verdict.UNKNOWN if open_questions else Verdict.PASS
    return verdict, (*failures, *open_questions)
