"""Was a bucket of time of a partition mirrored completely? Decided from sums of both sides. Pure.

A bucket is what a partition holds with timestamps of one interval: number of records, bytes, and two sums of 64-bit hashes of
their contents. Sums do not depend on order and do notice a second copy.
Rules:
- Equal sums say that the same records were read on both sides, whatever is still to come.
- Unequal sums are a fault only behind a *cut*: a pair of positions such that the copies of all records before the source
  position are before the target position. The mirror's offset map gives it; a wrong map can report a false fault, but cannot
  make unequal sums equal.
- Without a cut, or beyond it, a bucket is *not yet* comparable, for `lag_s` at most after it last changed and provided that
  both sides were read to their ends since; then it is overdue, which counts as a fault.
- Where the two sides were not read from a common start, or a log cleaner runs, a difference proves nothing and is unknown.
- A record with an altered timestamp moves to another bucket: one has a record less, another one more.
Not for: which record differs; the record-by-record comparison finds it at the offsets given here.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import TopicPartition, Translation, TranslationKind

_CUTS: Final = (TranslationKind.EXACT, TranslationKind.LOST)


@dataclass(frozen=True, slots=True)
class BucketSums:
    """One side of a bucket. `content` and `check` are sums of independent hashes, modulo 2^64; `first` and `last` offsets.

    `changed_ms`: when its last record was read, by the local clock. `late`: records read after a batch that had reached a later
    bucket.
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
    """`partition` is named as on the source; a side without records is None."""

    partition: TopicPartition
    start_ms: int
    source: BucketSums | None
    target: BucketSums | None


@dataclass(frozen=True, slots=True)
class Cut:
    """Copies of all records before `source` are before `target`."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class ReadEnds:
    """Until when each side was read to its end offsets, in epoch milliseconds; None: never."""

    source_ms: int | None = None
    target_ms: int | None = None


class BucketState(StrEnum):
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
class BucketFinding:
    """The judgement on one bucket; `what` is how the target differs, None where it does not."""

    bucket: Bucket
    state: BucketState
    what: Difference | None = None
    why: str = ""


def difference(bucket: Bucket) -> Difference | None:
    """How the target's side differs, the coarsest first: with another record count, sizes and contents say nothing more."""
    source, target = bucket.source, bucket.target
    count, copied = source.records if source else 0, target.records if target else 0
    if count != copied:
        return Difference.FEWER if copied < count else Difference.MORE
    if source is None or target is None:
        return None
    if source.bytes != target.bytes:
        return Difference.BYTES
    return Difference.CONTENT if (source.content, source.check) != (target.content, target.check) else None


def judge_bucket(
    bucket: Bucket, cut: Cut | None, read_ends: ReadEnds, *, lag_s: float, doubt: str = ""
) -> BucketFinding:
    """`doubt` is why a difference in this partition would prove nothing; empty where it would prove a fault."""
    what = difference(bucket)
    if what is None:
        return BucketFinding(bucket, BucketState.EQUAL)
    if doubt:
        return BucketFinding(bucket, BucketState.UNKNOWN, what, doubt)
    if cut is not None and _behind(bucket, cut):
        return BucketFinding(bucket, BucketState.DIFFERS, what, "both sides were read past it")
    if read_ends.source_ms is None or read_ends.target_ms is None:
        return BucketFinding(bucket, BucketState.NOT_YET, what, "one side was never read to its end")
    changed_ms = max(side.changed_ms for side in (bucket.source, bucket.target) if side is not None)
    waited_s = (min(read_ends.source_ms, read_ends.target_ms) - changed_ms) / 1000
    if waited_s > lag_s:
        return BucketFinding(bucket, BucketState.OVERDUE, what, f"it has been unequal for {waited_s:,.0f} s")
    return BucketFinding(bucket, BucketState.NOT_YET, what, "the mirror has not passed it yet")


def _behind(bucket: Bucket, cut: Cut) -> bool:
    source, target = bucket.source, bucket.target
    return (source is None or source.last < cut.source) and (target is None or target.last < cut.target)


def cut_at(offsets: PartitionMap | None, source_read: int, target_read: int) -> Cut | None:
    """The furthest cut that both sides were read past; None where the offset map does not give one."""
    translation = offsets.forward(source_read) if offsets is not None else None
    if offsets is None or translation is None or translation.offset is None:
        return None
    if translation.kind is TranslationKind.BEHIND:
        cut = Cut(source_read - translation.records, translation.offset)
    elif translation.kind in _CUTS:
        cut = Cut(source_read, translation.offset)
    else:
        return None
    if cut.target <= target_read:
        return cut
    on_target = _on_target(offsets.backward(target_read), target_read)
    # Between the two there may be a gap of records that were not copied.
    return Cut(min(on_target.source, cut.source), target_read) if on_target is not None else None


def aligned_start(offsets: PartitionMap | None, source_start: int, target_start: int) -> Cut | None:
    """Where to start reading so that both sides start with the same record; None where that is unknown.

    `source_start` and `target_start` are the log start offsets. Without a map, both logs have to start at 0.
    """
    if offsets is None or not offsets.segments():
        return Cut(0, 0) if source_start == target_start == 0 else None
    translation = offsets.forward(source_start)
    if translation.kind is TranslationKind.NEVER_MIRRORED:  # older records are not expected on the target
        first = offsets.first_stretch
        cut = Cut(first.source, first.target)
    elif translation.offset is not None and translation.kind in (*_CUTS, TranslationKind.BEHIND):
        cut = Cut(source_start, translation.offset)
    else:
        return None
    if cut.target >= target_start:
        return cut
    return _on_target(offsets.backward(target_start), target_start)


def _on_target(back: Translation, target: int) -> Cut | None:
    return Cut(back.offset, target) if back.offset is not None and back.kind in _CUTS else None
