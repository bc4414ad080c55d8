"""What lanes of this worker appended last, so that the flow back need not fetch it to see that it is a copy.

Rules:
- Of each partition of a target the newest offsets are known that one claim appended without a gap, as acknowledged.
- The flow back, which reads that partition, continues behind them with a request that names the leader epoch of the record it
  read last as the current one. Epochs only grow, so an answer shows that all from there on was appended in that epoch, by its
  one leader, whose log has what was acknowledged. A refusal shows nothing: it continues where it was, until it has read a
  record of another epoch (KIP-320, `Partition.checkCurrentLeaderEpoch` and `DelayedFetch` of Kafka).
- A worker knows its own lanes only: what another one appends is fetched and recognised by its producer ID.
Not for: whose records are copies (`engine.reverse.rules`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from drlib.mirror.journal.entries import ClaimId, SourcePartition

MOST: Final = 100_000
"""Partitions that are kept; of one that is forgotten everything is fetched."""


class Appended(NamedTuple):
    """Offsets [`first`, `end`) of a partition, all of which `claim` appended."""

    claim: ClaimId
    first: int
    end: int


class Appends:
    """By partition of the target, which is a source of the flow back."""

    def __init__(self) -> None:
        self._newest: dict[SourcePartition, Appended] = {}

    def acknowledged(self, at: SourcePartition, claim: ClaimId, base_offset: int, count: int) -> None:
        """Note that a batch of `count` records of `claim` was appended at `base_offset`."""
        first, before = base_offset, self._newest.get(at)
        if before is not None and before.claim == claim and before.end == base_offset:
            first = before.first
        self._newest[at] = Appended(claim, first, base_offset + count)
        if len(self._newest) > MOST:
            del self._newest[next(iter(self._newest))]

    def newest(self, at: SourcePartition, offset: int) -> Appended | None:
        """What was appended last, if it begins at `offset` or before."""
        found = self._newest.get(at)
        return found if found is not None and found.first <= offset else None
