"""The checkers' input and their reports: frozen values.

Rules: a count that cannot be known is None; lists hold at most `EXAMPLES` records, counts are complete. A finding that
cannot be decided is UNKNOWN, never PASS.
Not for: judging (`drlib.lab.checker.lost_and_duplicated`, `round_trip`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from drlib.lab.checker.history import Committed, Consumed, Mirrored, Produced
from drlib.runs.check import Check, Verdict

EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class CheckInput:
    """The evidence of one move. None: that history is missing, or that scan was not made.

    `topic` on `source` was mirrored into `remote_topic` on `target`; after the move the applications work with `topic`
    on `target`. `mirrored` are the records of both topics on the target. `torn`, `open` and `missing` are those of
    `History`. `rpo_records_allowed` is how many acknowledged records the objective allows to lose; None: no objective is set.
    `moved_at`: where both topics are one, under identical names, the end of each of its partitions when the applications moved:
    what lies before it was mirrored. None: they are two.
    """

    source: str
    target: str
    topic: str
    remote_topic: str
    groups: tuple[str, ...]
    produced: tuple[Produced, ...] | None
    consumed: tuple[Consumed, ...] | None
    committed: tuple[Committed, ...] | None
    mirrored: tuple[Mirrored, ...] | None
    torn: int = 0
    open: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    rpo_records_allowed: int | None = 0
    moved_at: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class LostRecord:
    """A record acknowledged on the source at `partition`, `offset`, and not in the remote topic."""

    id: str
    key: str
    partition: int
    offset: int
    acked_ms: int

    def __str__(self) -> str:
        return f"record {self.id} of key {self.key}, partition {self.partition} at {self.offset:,}"


@dataclass(frozen=True, slots=True)
class DuplicatedRecord:
    """An id at more than one offset on the target; `places` as `topic-partition@offset`."""

    id: str
    places: tuple[str, ...]

    def __str__(self) -> str:
        return f"record {self.id}, at {' and '.join(self.places)}"


@dataclass(frozen=True, slots=True)
class OutOfOrderRecord:
    """Record `n` of a key came after its record `after`. `where` is a topic on the target, or a group."""

    where: str
    key: str
    n: int
    after: int
    place: str

    def __str__(self) -> str:
        return f"number {self.n:,} of key {self.key} after number {self.after:,} in {self.where}, at {self.place}"


@dataclass(frozen=True, slots=True)
class AlteredRecord:
    """A record whose key, value, headers, timestamp or partition on the target differs from what was produced."""

    id: str
    place: str
    what: str

    def __str__(self) -> str:
        return f"record {self.id}, at {self.place}: {self.what}"


@dataclass(frozen=True, slots=True)
class GroupReport:
    """How one group moved. Counts that cannot be known are None.

    `re_read`: records processed again after the move. `skipped`: records on the target between its last source commit
    and its final position that it processed on neither cluster. `last_commit`: its last acknowledged source positions as
    (partition, offset). `reached`: it has read the remote topic to its end. `behind`: records on the target that it has
    not read yet. `came`: it has read on the target, or nothing was due there; else its move proves nothing.
    """

    group: str
    re_read: int | None
    skipped: int | None
    out_of_order: int | None
    last_commit: tuple[tuple[int, int], ...]
    reached: bool
    behind: int | None
    evidence: str
    came: bool = True  # not in what earlier versions stored


def decide(name: str, known: bool, holds: bool, evidence: str, price: str = "") -> Check:
    """PASS or FAIL as `holds` says, CONDITIONS where it holds at a `price`, UNKNOWN where `known` is false."""
    if not known:
        return Check(name, Verdict.UNKNOWN, f"the evidence is incomplete; {evidence}")
    if price and holds:
        return Check(name, Verdict.CONDITIONS, f"{evidence}; {price}")
    return Check(name, Verdict.PASS if holds else Verdict.FAIL, evidence)


def histories_complete(gaps: Collection[str]) -> Check:
    """Whether the histories are complete; UNKNOWN with the `gaps` where they are not."""
    return decide("the histories are whole", not gaps, True, "; ".join(gaps) or "every history ends with its end line")


def first_of(rows: Collection[object]) -> str:
    """The end of a sentence that names the first of `rows`; empty where there is none."""
    return f"; the first: {next(iter(rows))}" if rows else ""


def worst(checks: Iterable[Check]) -> Verdict:
    """FAIL before UNKNOWN before PASS; a price does not count."""
    verdicts = {check.verdict for check in checks}
    return next((v for v in (Verdict.FAIL, Verdict.UNKNOWN) if v in verdicts), Verdict.PASS)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """`produced`: distinct ids acknowledged on the source; `mirrored`: records found in the remote topic.

    The tuples hold at most `EXAMPLES` records; the `_count`s are complete, and None when they cannot be known.
    `rpo_seconds` is the most time that lost records span in one partition (`seconds_lost`), 0 if none is lost.
    `rpo_seconds_by_partition`: of each partition that has some.
    """

    produced: int | None
    mirrored: int | None
    lost: tuple[LostRecord, ...]
    lost_count: int | None
    lost_in_tail: bool | None
    duplicated: tuple[DuplicatedRecord, ...]
    duplicated_count: int | None
    out_of_order: tuple[OutOfOrderRecord, ...]
    out_of_order_count: int | None
    altered: tuple[AlteredRecord, ...]
    altered_count: int | None
    invented_count: int | None
    groups: tuple[GroupReport, ...]
    rpo_records: int | None
    rpo_seconds: float | None
    findings: tuple[Check, ...]
    rpo_seconds_by_partition: Mapping[int, float] | None = None  # not in what earlier versions stored

    @property
    def verdict(self) -> Verdict:
        """The worst of the findings."""
        return worst(self.findings)
