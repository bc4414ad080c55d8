"""Numbers the committed transactions of each producer in one source partition, where its epoch does not tell them apart.

Rules:
- Counting begins with the first record of a producer ID and epoch (sequence 0 in this partition), and is by commit markers.
- Whatever may have hidden a marker ends it: offsets that are missing in the log (the cleaner, an expired stretch), or a marker
  of which no record was read. Numbers of that epoch are then not known, which is never taken for a number.
- What is read again, because the target refused it or a connection ended, gets the numbers that it had. What is kept for that
  is bounded by what is in flight.
- A later claim continues with the numbers that its journal has of before its first offset.
- With transaction version 2 each transaction has its own epoch, and no number is needed.
Source: sequences begin with 0 for each producer ID, epoch and partition (KIP-98). Seen with librdkafka 2 and Java 3.9 on 4.3.1.
Not for: the coordinator's side of it (`drlib.mirror.transactions.recorder`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from drlib.kafka.protocol.batch import BatchHeader
from drlib.mirror.journal.transactions import Transactions

MOST_PRODUCERS: Final = 10_000
"""Of a partition; the one that began first is forgotten, and its numbers are not known."""
_NOT_KNOWN: Final = -1


class TransactionNumbers:
    """`at`: the source offset below which everything was read."""

    __slots__ = ("_at", "_before", "_changes", "_ended")

    def __init__(self, at: int) -> None:
        self._at = self._before = at  # `_before`: from there on changes can be taken back
        self._changes: deque[tuple[int, int, tuple[int, int] | None]] = deque()  # offset, producer ID, what was there
        self._ended: dict[int, tuple[int, int]] = {}  # producer ID -> its epoch, and how many of its transactions ended

    @classmethod
    def resumed(cls, at: int, slots: Iterable[Transactions]) -> TransactionNumbers:
        """Continue at source offset `at`. `slots`: what is recorded of the partition, oldest first."""
        numbers = cls(at)
        for slot in slots:
            for event in slot.events:
                if event.first >= at:
                    break  # it is read again
                ended = _NOT_KNOWN if not event.nth else event.nth if event.is_marker else event.nth - 1
                numbers._keep(event.producer_id, (event.epoch, ended))
        return numbers

    def settle(self, offset: int) -> None:
        """What is below `offset` is not read again: this bounds what is kept by what is in flight."""
        while self._changes and self._changes[0][0] < offset:
            self._changes.popleft()
        self._before = max(self._before, min(offset, self._at))

    def read(self, first: int, end: int) -> None:
        """Offsets [`first`, `end`) of the log were read next, or again."""
        if first > self._at or first < self._before:
            self._ended.clear()
            self._changes.clear()
            self._before = first
        while self._changes and self._changes[-1][0] >= first:
            _, producer, was = self._changes.pop()
            if was is None:
                self._ended.pop(producer, None)
            else:
                self._ended[producer] = was
        self._at = end

    def of_records(self, header: BatchHeader) -> int:
        """The number of the transaction that a batch of records belongs to, aborted or not; 0 where it is not known."""
        producer, epoch = header.producer_id, header.producer_epoch
        known = self._ended.get(producer)
        if known is None or known[0] != epoch:
            ended = 0 if header.base_sequence == 0 else _NOT_KNOWN
            self._change(header.base_offset, producer, (epoch, ended))
        else:
            ended = known[1]
        return ended + 1

    def of_marker(self, header: BatchHeader) -> int:
        """The number of the transaction that a commit marker ends; 0 where it is not known or the epoch says it."""
        producer, epoch = header.producer_id, header.producer_epoch
        known = self._ended.get(producer)
        if known is None or known[0] != epoch or known[1] == _NOT_KNOWN:
            self._change(header.base_offset, producer, (epoch, _NOT_KNOWN))
            return 0
        self._change(header.base_offset, producer, (epoch, known[1] + 1))
        return known[1] + 1

    def _change(self, offset: int, producer: int, ended: tuple[int, int]) -> None:
        self._changes.append((offset, producer, self._ended.get(producer)))
        self._keep(producer, ended)

    def _keep(self, producer: int, ended: tuple[int, int]) -> None:
        self._ended[producer] = ended
        if len(self._ended) > MOST_PRODUCERS:
            del self._ended[next(iter(self._ended))]
