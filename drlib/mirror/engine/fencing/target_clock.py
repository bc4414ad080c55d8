"""The target's clock, as the markers of our claims show it: this machine's own wall clock may be wrong, or be set.

Rules: a leader writes a marker with its own time, and that is what it compares timestamps of the journal with
(message.timestamp.after.max.ms and before.max.ms), and from what it counts until it forgets a producer. The newest marker of
each claim sets the clock; in between the monotonic clock counts. It is never behind the leaders as they were then, by a
request's time at most ahead: markers are due rather early than late. Before the first claim the wall clock is all there is.
Source: `Partition.appendRecordsToLeader` and `KafkaApis.handleWriteTxnMarkersRequest` of Kafka (the leader's
`System.currentTimeMillis`), `ProducerAppendInfo.appendEndTxnMarker`.
Not for: durations on this machine, nor how far its clock is off (`drlib.kafka.net.authorized_operations`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from drlib import clock


@dataclass(slots=True)
class TargetClock:
    """`ahead_ms`: the target's time minus the monotonic clock; None before the first marker."""

    ahead_ms: float | None = None

    def marked(self, asked_s: float, timestamps_ms: Iterable[int]) -> None:
        """Set it by markers that leaders wrote with `timestamps_ms` after `asked_s`, monotonic seconds."""
        newest = max(timestamps_ms, default=-1)
        if newest > 0:
            self.ahead_ms = newest - asked_s * 1000

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return clock.now_ms() if self.ahead_ms is None else int(self.ahead_ms + time.monotonic() * 1000)
