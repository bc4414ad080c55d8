"""Select the batches that a read_committed reader keeps.

Rule (Kafka's `CompletedFetch.consumeAbortedTransactionsUpTo`): aborted transactions, sorted by first offset, become
active when a batch reaches that offset; an abort marker ends the one of its producer; a transactional batch of a
producer with an active aborted transaction is not data. Control batches are never data. Every batch of an answer must
pass through `keep` in order, including those already read, as one of them may be a marker.
"""

from collections import deque
from collections.abc import Iterable

from drlib.kafka.protocol.batch import BatchHeader, ControlType, control_type


class AbortedFilter:
    """State of one partition over one fetch answer. `aborted`: (producer ID, first offset) pairs from that answer."""

    __slots__ = ("_active", "_waiting")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._waiting = deque(sorted(((first, producer) for producer, first in aborted)))
        self._active: set[int] = set()

    def keep(self, header: BatchHeader, batch: memoryview) -> bool:
        """True when the batch is data to keep. Raises `CorruptBatch` on an unreadable control batch."""
        while self._waiting and self._waiting[0][0] <= header.last_offset:
            self._active.add(self._waiting.popleft()[1])
        if header.is_control:
            # Markers are decoded only where transactions were aborted: most partitions have none.
            if header.producer_id in self._active and control_type(batch) is ControlType.ABORT:
                self._active.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._active)
