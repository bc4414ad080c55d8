"""Whether a stretch of time of a partition came over whole, decided from sums of both sides.

A bucket is what a partition holds with timestamps of one stretch: how many records, how many bytes, and two sums of 64-bit
hashes of what is in them. Sums do not ask for order and do notice a second copy.
Rules:
- Equal sums say that the same records were read on both sides, whatever is still to come.
- Unequal sums are a fault only behind a *cut*: a position on either side such that what the mirror copied from before the one
  stands before the other. The mirror's offset map gives it; a wrong map can accuse, and cannot make unequal sums equal.
- Without a cut, or beyond it, a bucket is *not yet* comparable, for `lag_s` at most after it last changed and provided that
  both sides were read to their ends since; then it is overdue, which is as bad.
- Where the two sides were not read from one beginning, or a cleaner runs, a difference proves nothing and is unknown.
- A record with an altered timestamp moves to another bucket: one has a record less, another one more.
Not for: which record it is; the exact audit says that of the offsets named here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import TopicPartition, Translation, TranslationKind

_CUTS: Final = (TranslationKind.EXACT, TranslationKind.LOST)


@dataclass(frozen=True, slots=True)
class Sums:
    """One side of a bucket. `content` and `check` are sums of independent hashes, modulo 2^64; `first` and `last` offsets.

    `changed_ms`: when its last record was read, by this machine's clock. `late`: records that came after a batch which had
    reached a later bucket already.
    """

    records: int
    bytes: int
    content: int
    check: int
    first: int
    last: int
    changed_ms: int
    late: int = 0


@dataclass(frozen=True, slots=True)
class Bucket:
    """`partition` as the source calls it; a side that holds nothing of it is None."""

    partition: TopicPartition
    start_ms: int
    source: Sums | None
    target: Sums | None


@dataclass(frozen=True, slots=True)
class Cut:
    """What was mirrored from before the position `source` stands before the position `target`."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Reading:
    """Until when each side was read to its end, in milliseconds since the epoch; None: it never was."""

    source_ms: int | None = None
    target_ms: int | None = None


class State(StrEnum):
    EQUAL = "equal"
    NOT_YET = "not yet"
    DIFFERS = "differs"
    OVERDUE = "overdue"
    UNKNOWN = "unknown"


class Difference(StrEnum):
    FEWER = "fewer records"
    MORE = "more records"
    BYTES = "other sizes"
    CONTENT = "other contents"


@dataclass(frozen=True, slots=True)
class Finding:
    """What is said of one bucket; `what` is of the target, None where nothing differs."""

    bucket: Bucket
    state: State
    what: Difference | None = None
    why: str = ""


def difference(bucket: Bucket) -> Difference | None:
    """What sets the target's side apart, the coarsest first: of a count that is off, sizes and contents say nothing more."""
    here, there = bucket.source, bucket.target
    count, copied = here.records if here else 0, there.records if there else 0
    if count != copied:
        return Difference.FEWER if copied < count else Difference.MORE
    if here is None or there is None:
        return None
    if here.bytes != there.bytes:
        return Difference.BYTES
    return Difference.CONTENT if (here.content, here.check) != (there.content, there.check) else None


def judge(bucket: Bucket, cut: Cut | None, reading: Reading, *, lag_s: float, doubt: str = "") -> Finding:
    """`doubt` is why a difference in this partition would prove nothing, where it would not."""
    what = difference(bucket)
    if what is None:
        return Finding(bucket, State.EQUAL)
    if doubt:
        return Finding(bucket, State.UNKNOWN, what, doubt)
    if cut is not None and _behind(bucket, cut):
        return Finding(bucket, State.DIFFERS, what, "both sides were read past it")
    if reading.source_ms is None or reading.target_ms is None:
        return Finding(bucket, State.NOT_YET, what, "a side was never read to its end")
    changed_ms = max(side.changed_ms for side in (bucket.source, bucket.target) if side is not None)
    waited_s = (min(reading.source_ms, reading.target_ms) - changed_ms) / 1000
    if waited_s > lag_s:
        return Finding(bucket, State.OVERDUE, what, f"it was read {waited_s:,.0f} s before both sides' ends were")
    return Finding(bucket, State.NOT_YET, what, "the mirror has yet to pass it")


def _behind(bucket: Bucket, cut: Cut) -> bool:
    here, there = bucket.source, bucket.target
    return (here is None or here.last < cut.source) and (there is None or there.last < cut.target)


def cut_at(offsets: PartitionMap | None, source_read: int, target_read: int) -> Cut | None:
    """The furthest cut that lies behind both positions read to; None where the map cannot say."""
    there = offsets.forward(source_read) if offsets is not None else None
    if offsets is None or there is None or there.offset is None:
        return None
    if there.kind is TranslationKind.BEHIND:
        cut = Cut(source_read - there.records, there.offset)
    elif there.kind in _CUTS:
        cut = Cut(source_read, there.offset)
    else:
        return None
    if cut.target <= target_read:
        return cut
    found = _on_target(offsets.backward(target_read), target_read)
    # Between the two there may be a gap; nothing of it was copied, and not all of it was read.
    return Cut(min(found.source, cut.source), target_read) if found is not None else None


def beginning(offsets: PartitionMap | None, source_start: int, target_start: int) -> Cut | None:
    """Where to begin reading, so that both sides begin with the same record; None where nobody can tell.

    `source_start` and `target_start` are the first offsets that are still there. Without a map, both logs have to begin at 0.
    """
    if offsets is None or not offsets.segments():
        return Cut(0, 0) if source_start == target_start == 0 else None
    there = offsets.forward(source_start)
    if there.kind is TranslationKind.NEVER_MIRRORED:  # records of before the mirror began are not wanted over there
        first = offsets.segments()[0]
        cut = Cut(first.source, first.target)
    elif there.offset is not None and there.kind in (*_CUTS, TranslationKind.BEHIND):
        cut = Cut(source_start, there.offset)
    else:
        return None
    if cut.target >= target_start:
        return cut
    found = _on_target(offsets.backward(target_start), target_start)
    return found if found is not None and found.source >= source_start else None


def _on_target(back: Translation, target: int) -> Cut | None:
    return Cut(back.offset, target) if back.offset is not None and back.kind in _CUTS else None
