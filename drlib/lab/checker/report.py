"""What the checker is given and what it answers: frozen values.

Rules: a count is None when it cannot be known; lists hold at most `EXAMPLES` records, counts are whole.
Not for: judging (`drlib.lab.checker.failover`).
"""

from __future__ import annotations

from dataclasses import dataclass

from drlib.lab.checker.history import Committed, Consumed, Mirrored, Produced
from drlib.runs.check import Check, Verdict

EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class CheckInput:
    """What is judged. None means: that history is missing, or that scan was not made.

    `topic` on `source` was mirrored into `remote_topic` on `target`; after the move the applications go on in `topic`
    on `target`. `mirrored` are the records of both topics on the target. `torn`, `open` and `missing` are what the
    history reader said. `rpo_records_allowed` is how many acknowledged records the objective lets be lost.
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
    rpo_records_allowed: int = 0


@dataclass(frozen=True, slots=True)
class LostRecord:
    """Acknowledged on the source at `partition`, `offset`, and not in the remote topic."""

    id: str
    key: str
    partition: int
    offset: int
    acked_ms: int

    def __str__(self) -> str:
        return f"record {self.id} of key {self.key}, partition {self.partition} at {self.offset:,}"


@dataclass(frozen=True, slots=True)
class DuplicatedRecord:
    """More than one place on the target holds this id; `places` as `topic-partition@offset`."""

    id: str
    places: tuple[str, ...]

    def __str__(self) -> str:
        return f"record {self.id}, at {' and '.join(self.places)}"


@dataclass(frozen=True, slots=True)
class OutOfOrderRecord:
    """`n` came after `after` of the same key. `where` is a topic on the target, or a group."""

    where: str
    key: str
    n: int
    after: int
    place: str

    def __str__(self) -> str:
        return f"number {self.n:,} of key {self.key} after number {self.after:,} in {self.where}, at {self.place}"


@dataclass(frozen=True, slots=True)
class AlteredRecord:
    """Its key, value, headers, timestamp or partition on the target is not what was produced."""

    id: str
    place: str
    what: str

    def __str__(self) -> str:
        return f"record {self.id}, at {self.place}: {self.what}"


@dataclass(frozen=True, slots=True)
class GroupReport:
    """How one group came over. Counts are None when they cannot be known.

    `re_read`: records it processed again after the move. `skipped`: records on the target from its last source commit
    up to its final position that it processed on neither side. `last_commit` is the last acknowledged source position
    as (partition, offset). `reached`: it has read the remote topic to its end. `behind`: records on the target it has
    yet to read.
    """

    group: str
    re_read: int | None
    skipped: int | None
    out_of_order: int | None
    last_commit: tuple[tuple[int, int], ...]
    reached: bool
    behind: int | None
    evidence: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """`produced`: distinct ids acknowledged on the source; `mirrored`: records found in the remote topic.

    The tuples hold at most `EXAMPLES` records; the `_count`s are whole, and None when they cannot be known.
    `rpo_seconds` is the send time of the newest lost record minus that of the last mirrored one, 0 if none is lost.
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

    @property
    def verdict(self) -> Verdict:
        """The worst of the findings: fail, else unknown, else pass."""
        verdicts = {finding.verdict for finding in self.findings}
        return next((v for v in (Verdict.FAIL, Verdict.UNKNOWN) if v in verdicts), Verdict.PASS)
