"""Numbers the committed transactions of each producer in one source partition, where its epoch does not tell them apart.

Rules:
- Counting begins with the first record of a producer ID and epoch (sequence 0 in this partition), and is by commit markers.
- Whatever may have hidden a marker, or doubled one, ends the count of that epoch: offsets that are missing in the log (the
  cleaner, an expired stretch), a marker that cannot be read, and a commit marker behind which no record was read: coordinators
  write a marker again after they moved, or when its answer was lost. Unknown is never taken for a number.
- Offsets that are read again, because the target refused them or a connection ended, get the numbers that they had. What is
  needed for that is dropped once it cannot be read again, so that it is bounded by what is in flight.
- A later claim continues from the numbers journaled for offsets below its start. A gap is journaled too, as an event of no
  producer (`GAP`), behind which earlier numbers do not count.
- With transaction version 2 each transaction has its own epoch, and no number is needed.
Source: sequences begin with 0 for each producer ID, epoch and partition (KIP-98); `ProducerAppendInfo.checkProducerEpoch` has
the cases of a repeated marker. Seen with librdkafka 2.16 and Java 3.9 on 4.3.1.
Not for: the coordinator's side of it (`drlib.mirror.transactions.recorder`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from drlib.kafka.protocol.batch import BatchHeader
from drlib.mirror.journal.transactions import GAP, Transactions

MOST_PRODUCERS: Final = 10_000
"""Of a partition; the one that began first is forgotten, and its numbers are not known."""
_NOT_KNOWN: Final = -1  # in place of a count; a number that is not known is 0


class _Known(NamedTuple):
    """Of one producer: its epoch, how many of its transactions ended, and were records read since the last marker?"""

    epoch: int
    ended: int
    is_open: bool


class TransactionNumbers:
    """`at`: the source offset below which everything was read."""

    __slots__ = ("_at", "_before", "_changes", "_known")

    def __init__(self, at: int) -> None:
        self._at = self._before = at  # `_before`: from there on changes can be taken back
        self._changes: deque[tuple[int, int, _Known | None]] = deque()  # offset, producer ID, what was there
        self._known: dict[int, _Known] = {}

    @classmethod
    def resumed(cls, at: int, slots: Iterable[Transactions]) -> TransactionNumbers:
        """Continue at source offset `at`. `slots`: what is recorded of the partition, oldest first."""
        numbers = cls(at)
        for slot in slots:
            for event in slot.events:
                if event.first >= at:
                    break  # it is read again
                if event.producer_id == GAP:
                    numbers._forget()
                    continue
                ended = _NOT_KNOWN if not event.nth else event.nth if event.is_marker else event.nth - 1
                numbers._keep(event.producer_id, _Known(event.epoch, ended, not event.is_marker))
        return numbers

    def settle(self, offset: int) -> None:
        """What is below `offset` is not read again."""
        while self._changes and self._changes[0][0] < offset:
            self._changes.popleft()
        self._before = max(self._before, min(offset, self._at))

    def read(self, first: int, end: int) -> bool:
        """Offsets [`first`, `end`) of the log were read next, or again. Did that end counts, so that a gap is to be noted?"""
        ends = False
        if first > self._at or first < self._before:
            ends = self._forget()
            self._changes.clear()
            self._before = first
        while self._changes and self._changes[-1][0] >= first:
            _, producer, was = self._changes.pop()
            if was is None:
                self._known.pop(producer, None)
            else:
                self._known[producer] = was
        self._at = end
        return ends

    def lost(self) -> bool:
        """A marker could not be read. As `read`."""
        self._changes.clear()
        self._before = self._at
        return self._forget()

    def of_records(self, header: BatchHeader) -> int:
        """The number of the transaction that a batch of records belongs to, aborted or not; 0 where it is not known."""
        known = self._known.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            known = _Known(header.producer_epoch, 0 if header.base_sequence == 0 else _NOT_KNOWN, False)
        if not known.is_open:
            known = known._replace(is_open=True)
            self._change(header.base_offset, header.producer_id, known)
        return known.ended + 1

    def of_marker(self, header: BatchHeader, *, commit: bool) -> int:
        """The number of the transaction that a commit marker ends; 0 where it is not known or needed, and of an abort."""
        known = self._known.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            if not commit:
                return 0
            known = _Known(header.producer_epoch, _NOT_KNOWN, False)
        elif not commit:
            known = known._replace(is_open=False)
        elif known.ended == _NOT_KNOWN or not known.is_open:
            known = known._replace(ended=_NOT_KNOWN, is_open=False)
        else:
            known = known._replace(ended=known.ended + 1, is_open=False)
        self._change(header.base_offset, header.producer_id, known)
        return max(0, known.ended) if commit else 0

    def _forget(self) -> bool:
        """No count continues: sequences may begin again with 0 in the same epoch. Was there one?"""
        ends = any(known.ended != _NOT_KNOWN for known in self._known.values())
        self._known = {producer: known._replace(ended=_NOT_KNOWN) for producer, known in self._known.items()}
        return ends

    def _change(self, offset: int, producer: int, known: _Known) -> None:
        self._changes.append((offset, producer, self._known.get(producer)))
        self._keep(producer, known)

    def _keep(self, producer: int, known: _Known) -> None:
        self._known[producer] = known
        if len(self._known) > MOST_PRODUCERS:
            del self._known[next(iter(self._known))]
