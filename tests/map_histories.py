"""Histories of a partition's claims, drawn by hypothesis, and the offset map they lead to."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import strategies as st

from drlib.mirror.journal.entries import (
    Ack,
    ClaimId,
    Covered,
    Entry,
    Foreign,
    Parked,
    Placement,
    Run,
    Sealed,
    SourceLoss,
    SourcePartition,
)
from drlib.mirror.offsets.map.offset_map import PartitionMap

P = SourcePartition(UUID(int=1), 0)


def built(*entries: Entry) -> PartitionMap:
    offsets = PartitionMap()
    for entry in entries:
        offsets.apply(entry)
    return offsets


@dataclass
class History:
    """What really happened, offset by offset, and the journal that was written meanwhile."""

    source: int = 0  # next source offset
    first: int | None = None  # where mirroring began to account for offsets
    pairs: list[tuple[int, int]] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    target: int = 0  # next target offset
    foreign: set[int] = field(default_factory=set)
    read: int | None = None  # source read through to
    placed: int | None = None  # where the newest claim would put its next record
    journal: list[Entry] = field(default_factory=list)
    live: PartitionMap = field(default_factory=PartitionMap)

    def tell(self, *entries: Entry) -> None:
        self.journal += entries
        for entry in entries:
            self.live.apply(entry)


counts = st.integers(1, 4)


@st.composite
def histories(draw: st.DrawFn) -> History:
    h = History(source=draw(st.integers(0, 5)))
    for epoch in range(draw(st.integers(1, 4))):
        _claim(draw, h, ClaimId(7, epoch))
    return h


def _claim(draw: st.DrawFn, h: History, claim: ClaimId) -> None:
    h.target += draw(counts)  # markers
    q = 0
    h.tell(Placement(P, claim, 0, h.target))
    h.placed = h.target
    run_end: int | None = None
    h.source = h.live.position if h.live.position is not None else h.source
    acked = 0
    steps = draw(st.lists(st.sampled_from(["data", "data", "marker", "loss", "park", "foreign", "rearm", "crash"])))
    for step in steps:
        n = draw(counts)
        if step == "data":
            if run_end != h.source:
                h.tell(Run(P, claim, q, h.source))
            h.pairs += [(h.source + i, h.target + i) for i in range(n)]
            h.first = h.source if h.first is None else h.first
            h.source, h.target, q = h.source + n, h.target + n, q + n
            h.placed, h.read, run_end = h.target, h.source, h.source
            if draw(st.booleans()):
                acked = draw(st.integers(acked, q))
                h.live.ack(claim, acked)
            if acked == q and draw(st.booleans()):
                h.tell(Ack(P, claim, q, h.target), Covered(P, h.source))
        elif step == "marker" and h.read is not None:
            h.live.ack(claim, acked := q)
            h.source += n
            h.read = h.source
            if draw(st.booleans()):
                h.tell(Ack(P, claim, q, h.target))
            h.tell(Covered(P, h.read))
        elif step == "loss":
            h.live.ack(claim, acked := q)
            h.lost.update(range(h.source, h.source + n))
            h.first = h.source if h.first is None else h.first
            h.tell(SourceLoss(P, h.source, h.source + n, 0))
            h.source += n
            h.read = h.source if h.read is not None else None
        elif step == "park" and h.read is not None:
            # Parked, and resumed some records later in the same stretch: what lies between is lost.
            h.live.ack(claim, acked := q)
            h.tell(Parked(P, h.source, "refused", 0), Run(P, claim, q, h.source + n))
            h.lost.update(range(h.source, h.source + n))
            h.pairs.append((h.source + n, h.target))
            h.source, h.target, q = h.source + n + 1, h.target + 1, q + 1
            h.placed, h.read, run_end = h.target, h.source, h.source
        elif step in ("foreign", "rearm"):
            if step == "foreign":
                h.foreign.update(range(h.target, h.target + n))
                h.tell(Foreign(P, h.target, n, 0))
            h.target += n
            h.live.ack(claim, acked := q)
            h.tell(Placement(P, claim, q, h.target))
            h.placed = h.target
        elif step == "crash":
            break
    if draw(st.booleans()):
        h.tell(Run(P, claim, q, h.source + 1))  # promised, never sent
    h.tell(Sealed(P, claim, q, True))
