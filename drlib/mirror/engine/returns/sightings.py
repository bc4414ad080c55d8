"""Remember a sample of the records that a lane reads, and notice those that are read again after they were copied.

Rules:
- A batch is chosen by its newest timestamp, so that the same records are chosen again however batches were cut on their way:
  one of each 2^level stretches of `STRETCH_MS`. The level rises where more is chosen than `RECORDS_PER_S` pays for, or than
  `MOST` records remember for `KEPT_S`, and falls while there is room. While records return, `ALERT` times as much is paid for.
- Of a batch the `PER_BATCH` records with the smallest digests are remembered.
- A record counts as seen again only where the copy of the time before was acknowledged: what clients write twice in a row, or
  retry at once, does not count.
- A suspicion needs `SUSPECT` such returns, at intervals that a trial can wait for.
- Timestamps that a cluster sets (LogAppendTime) are no part of a record's content.
Not for: what a suspicion means (`rules`).
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import CorruptBatch, OutgoingBatch
from drlib.mirror.engine.returns.rules import SLOWEST_INTERVAL_S
from drlib.model import TopicPartition

MOST: Final = 2048
"""Records that a lane remembers: about 1 MB."""
PER_BATCH: Final = 8
KEPT_S: Final = 60.0
STRETCH_MS: Final = 64
RECORDS_PER_S, MOST_CREDIT = 100.0, 2000.0
"""Records that may be decoded: per second of a lane, and at once after a quiet time. One takes about 5 microseconds."""
ALERT, ALERT_S = 20, 30.0
LARGE_BYTES: Final = 1 << 20
"""A batch above this is not decoded."""
HIGHEST_LEVEL: Final = 20
RAISE_S, LOWER_S = 1.0, 5.0
SUSPECT: Final = 3
MOST_REFUTED: Final = 4096


@dataclass(slots=True)
class Seen:
    """A record that was read. Offsets of the source; `at`: when last, in seconds; `returns`: how often after its copy was
    acknowledged, at `intervals` of seconds, the last ones."""

    first: int
    last: int
    at: float
    returns: int = 0
    intervals: tuple[float, ...] = ()

    @property
    def interval_s(self) -> float:
        """The longest of the last intervals."""
        return max(self.intervals, default=0.0)


class Sampler:
    """Chooses the batches to look into. Times are seconds of the caller's clock."""

    def __init__(self, now: float) -> None:
        self.level = 0
        self.frozen = False  # during a trial: what it is about has to be chosen again
        self._origin = 0
        self._credit = MOST_CREDIT
        self._alert_until = -1.0
        self._at = self._raised = self._lowered = now

    def chooses(self, newest_ms: int) -> bool:
        """May a batch whose newest record has this timestamp be looked into?"""
        return (newest_ms - self._origin) & ((STRETCH_MS << self.level) - 1) < STRETCH_MS or newest_ms <= 0

    def pays(self, records: int, newest_ms: int, now: float) -> bool:
        """Is a chosen batch of so many records decoded now? Then it is paid for."""
        rate = RECORDS_PER_S * ALERT if now < self._alert_until else RECORDS_PER_S
        self._credit = min(MOST_CREDIT, self._credit + (now - self._at) * rate)
        self._at = now
        if self._credit <= 0:
            self.rise(newest_ms, now)
            return False
        self._credit -= records
        return True

    def alert(self, now: float) -> None:
        """A record returned."""
        if now >= self._alert_until:
            self._credit = MOST_CREDIT
        self._alert_until = now + ALERT_S

    def rise(self, newest_ms: int, now: float) -> None:
        """Choose half as much, at most once in a while; a batch with this timestamp, which was chosen, is still."""
        if now - self._raised >= RAISE_S and self.level < HIGHEST_LEVEL and not self.frozen:
            self.level += 1
            self._origin = newest_ms - (newest_ms - self._origin) % STRETCH_MS
            self._raised = self._lowered = now

    def settle(self, now: float) -> None:
        """Choose twice as much where there was room for a while."""
        if self.level and now - self._lowered >= LOWER_S:
            self._lowered = now
            self.level -= 1


class Sightings:
    """What a lane remembers of its partitions."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[TopicPartition, bytes], Seen] = OrderedDict()
        self._refuted: OrderedDict[tuple[TopicPartition, bytes], float] = OrderedDict()  # until when

    def take(self, source: TopicPartition, content: bytes, offset: int, mirrored: int, now: float) -> Seen | None:
        """Take a record at a source offset; what is known of it, where it returned after its copy was acknowledged.

        `mirrored`: the first source offset of the partition that is not known to be on the target.
        """
        key = (source, content)
        seen = self._seen.get(key)
        if seen is None:
            self._seen[key] = Seen(offset, offset, now)
            return None
        if offset <= seen.last:
            return None  # read again after a park, or by the next claim
        self._seen.move_to_end(key)
        copied = seen.last < mirrored
        if copied:
            seen.returns += 1
            seen.intervals = (*seen.intervals[1 - SUSPECT :], now - seen.at)
        seen.last, seen.at = offset, now
        return seen if copied else None

    def forget_oldest(self, now: float) -> bool:
        """Forget what is too much; True where that was seen a short time ago: less has to be remembered."""
        young = False
        while len(self._seen) > MOST:
            _, oldest = self._seen.popitem(last=False)
            young = young or now - oldest.at < KEPT_S
        return young

    @property
    def has_room(self) -> bool:
        """Would twice as much still be remembered?"""
        return len(self._seen) < MOST // 2

    def is_suspect(self, source: TopicPartition, content: bytes, seen: Seen) -> bool:
        """Did a record return so often, and so soon, that a trial has to decide?"""
        often = seen.returns >= SUSPECT and seen.interval_s <= SLOWEST_INTERVAL_S
        return often and self._refuted.get((source, content), seen.at) <= seen.at

    def suspects(self, source: TopicPartition) -> frozenset[bytes]:
        """The contents of all records of a partition that have returned, but for those that return by themselves."""
        return frozenset(
            content
            for (where, content), seen in self._seen.items()
            if where == source and seen.returns and self._refuted.get((where, content), seen.at) <= seen.at
        )

    def refute(self, source: TopicPartition, contents: Iterable[bytes], until: float) -> None:
        """These records return by themselves: until then they are no reason for a trial, and prove nothing in one."""
        for content in contents:
            self._refuted[source, content] = until
            self._refuted.move_to_end((source, content))
        while len(self._refuted) > MOST_REFUTED:
            self._refuted.popitem(last=False)


def contents(
    batch: OutgoingBatch, pieces: Sequence[tuple[int, int]], *, timed: bool, most: int = PER_BATCH
) -> list[tuple[int, bytes]]:
    """Source offset and digest of the records to remember of a batch, in order; none of one that is too large to decode.

    `pieces`: (source offset, count) of each stretch in it; `timed`: whether timestamps are part of the content.
    """
    if batch.size > LARGE_BYTES:
        return []
    offsets = (first + number for first, count in pieces for number in range(count))
    try:
        records = recode.records(b"".join((batch.head, batch.body)))
    except CorruptBatch:
        return []  # the target refuses it, or its readers find out
    found = (
        (recode.digest(r.key, r.value, r.headers, r.timestamp if timed else None), offset)
        for r, offset in zip(records, offsets, strict=False)
    )
    chosen = heapq.nsmallest(most, found) if len(records) > most else list(found)
    return sorted((offset, content) for content, offset in chosen)
