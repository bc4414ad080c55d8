"""Counts how many of a claim's records were appended to a mirror partition, in the log itself after the claim was fenced.

Rules:
- Every batch from the last Ack (or the claim's first placement) to the claimant's marker is examined. A batch with the
  claim's producer ID and epoch advances the count by the offsets it spans (a cleaned batch keeps its span); control
  batches and other producers' batches shift the placement of what follows. Batches of the lane's other claims are not foreign:
  they are of the topic that has the source topic's name since, where that was re-created.
- A sequence number tells how many of our records precede the batch, including those that the log cleaner removed.
- Offsets missing after our last batch may have been ours or not: then there are two bounds, and only equal ones are exact.
  Missing below the placement of the next record, they were not ours: markers and records of others that expired.
- No more records of a claim can be missing than the source had for it (`bounded`).
- An impossible log (a sequence that decreases, an end below what was acknowledged) is a `RecoveryContradiction`.
- A log that lost records ends below the journaled end, or holds another batch where the last mirrored record was, whatever
  was written behind it: logs lose their ends. A journal that lost entries knows less than the log holds: records of a
  claim that promised none.
Not for: reading the log or journaling the result (`load_maps`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from drlib.errors import DrlibError
from drlib.kafka.protocol.batch import SEQUENCE_MODULUS
from drlib.mirror.journal.entries import Ack, ClaimId, Placement


class RecoveryContradiction(DrlibError):
    """The mirror partition and the journal cannot both be right."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "The mirror partition contradicts the lane's journal",
            why,
            "Nothing was written: find out whether the mirror topic was truncated, re-created or written to by others.",
        )


@dataclass(frozen=True, slots=True)
class TailBatch:
    """The header of one batch in the mirror partition, offsets inclusive. `count` may be less than the span."""

    base_offset: int
    last_offset: int
    count: int
    producer_id: int
    epoch: int
    base_sequence: int
    control: bool


@dataclass(frozen=True, slots=True)
class ForeignRange:
    """`count` target offsets from `target_offset` on that another producer wrote."""

    target_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """How much of a claim was appended. `q` = `low` is where to continue; `exact` means `low` = `high`.

    `placements` are those the journal lacks; `target_end` is one past the target offset of the last record in `q`.
    """

    q: int
    low: int
    high: int
    exact: bool
    placements: tuple[Placement, ...]
    target_end: int
    foreign: tuple[ForeignRange, ...]


def recover(
    *,
    claim: ClaimId,
    placements: Sequence[Placement],
    ack: Ack | None,
    tail: Iterable[TailBatch],
    tail_from: int,
    marker: int,
    producers: Collection[int],
) -> Recovered:
    """Count the records of `claim` in a mirror partition, given the batches of [`tail_from`, `marker`) in offset order.

    `placements` are the journaled ones of this claim and partition, at least that of q = 0; `ack` its newest Ack.
    `producers`: the lane's producer IDs. `tail_from` is the Ack's target offset, or the first placement's. A batch that only
    overlaps the range is allowed, and so is the one right before an Ack's: the last acknowledged record must be ours.
    Raises `RecoveryContradiction`.
    """
    known = {p.q: p.target_offset for p in placements}  # of one q the newest counts
    if 0 not in known:
        raise RecoveryContradiction(f"claim {claim} has no placement for its first record")
    if tail_from > marker:
        raise RecoveryContradiction(
            f"records up to target offset {tail_from} were acknowledged, the log ends at {marker}"
        )
    starts = sorted(known)
    added: list[Placement] = []
    foreign: list[ForeignRange] = []
    q = ack.q if ack is not None else 0
    end = ack.target_offset if ack is not None else known[0]
    cursor = tail_from
    missing = 0  # offsets since our last batch (or the Ack) that no batch accounts for

    def expected(number: int) -> int:
        start = starts[bisect_right(starts, number) - 1]
        return known[start] + number - start

    for batch in tail:
        if ack is not None and batch.base_offset < tail_from <= batch.last_offset + 1:
            _check_still_ours(batch, claim, tail_from)
        if batch.last_offset < cursor:
            continue
        if batch.base_offset >= marker:
            break
        base = max(batch.base_offset, cursor)
        span = min(batch.last_offset + 1, marker) - base
        missing += max(0, base - max(cursor, expected(q)))
        cursor = base + span
        if batch.control:
            continue
        if (batch.producer_id, batch.epoch) != (claim.producer_id, claim.epoch):
            if batch.producer_id not in producers:
                _add_foreign(foreign, base, span)
            continue
        ahead = (batch.base_sequence + base - batch.base_offset - q) % SEQUENCE_MODULUS
        if ahead > missing or missing >= SEQUENCE_MODULUS:
            raise RecoveryContradiction(
                f"the batch at target offset {batch.base_offset} has sequence {batch.base_sequence} "
                f"where {q % SEQUENCE_MODULUS} was due and {missing} offsets are missing"
            )
        q += ahead
        due = expected(q)
        if base < due:
            raise RecoveryContradiction(
                f"record {q} of {claim} is at target offset {base}, the journal placed it at {due}"
            )
        if base > due:
            added.append(Placement(placements[0].partition, claim, q, base))
            known[q] = base
            starts = sorted(known)
        q += span
        end = base + span
        missing = 0
    missing += max(0, marker - max(cursor, expected(q)))
    return Recovered(q, q, q + missing, missing == 0, tuple(added), end, tuple(foreign))


def bounded(found: Recovered, waiting: int) -> Recovered:
    """`found`, where the source had at most `waiting` records beyond the first `found.q`, and so the claim sent no more."""
    high = min(found.high, found.q + max(0, waiting))
    return replace(found, high=high, exact=high == found.low)


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """What a journal says of the end of a mirror partition's log.

    `record`: target offset of the last mirrored record, None without one; `claim`: who wrote it, None where that was folded.
    `promised`: has a claim promised records of this partition? `producers`: the producer IDs of the lane.
    """

    log_end: int
    record: int | None
    claim: ClaimId | None
    promised: Callable[[ClaimId], bool]
    producers: Collection[int]


def check_end(known: KnownEnd, log_end: int, tail: Iterable[TailBatch]) -> None:
    """Raise `RecoveryContradiction` unless the log has the last mirrored record, and no record that was never promised.

    `tail`: the batches from the last mirrored record on, or from the first journaled offset where there is none.
    """
    if log_end < known.log_end:
        raise RecoveryContradiction(
            f"its log was written up to target offset {known.log_end}, it ends at {log_end}: {known.log_end - log_end} offsets "
            "are lost"
        )
    for batch in tail:
        writer = ClaimId(batch.producer_id, batch.epoch)
        ours = not batch.control and batch.producer_id in known.producers
        if known.record is not None and batch.base_offset <= known.record <= batch.last_offset:
            if not ours or known.claim not in (None, writer):
                raise RecoveryContradiction(
                    f"at target offset {known.record}, where the last mirrored record was, the log now holds another batch: it "
                    "was truncated and has grown again, the records that it held are lost"
                )
        elif ours and not known.promised(writer):
            raise RecoveryContradiction(
                f"at target offset {batch.base_offset} are records of {writer}, which promised none in the journal: it lost "
                "entries, and which records of the source these are is unknown"
            )


def _check_still_ours(batch: TailBatch, claim: ClaimId, acked: int) -> None:
    """Raise unless the batch with the last acknowledged record is ours: a truncated log that grew again holds another."""
    if batch.control or (batch.producer_id, batch.epoch) != (claim.producer_id, claim.epoch):
        raise RecoveryContradiction(
            f"records up to target offset {acked} were acknowledged, but at {acked - 1} the log now holds another batch: it "
            "was truncated below that offset and has grown again"
        )


def _add_foreign(foreign: list[ForeignRange], base: int, span: int) -> None:
    if foreign and foreign[-1].target_offset + foreign[-1].count == base:
        foreign[-1] = ForeignRange(foreign[-1].target_offset, foreign[-1].count + span)
    else:
        foreign.append(ForeignRange(base, span))
