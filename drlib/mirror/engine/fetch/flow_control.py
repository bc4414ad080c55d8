"""How many bytes may be in flight on one connection: enough to fill the link, no more than memory allows.

Rules: the window is `least` plus twice bandwidth x round trip. Bandwidth is the best delivery rate of the last ten seconds,
measured from sending a request to its response. The round trip is the shortest of the last few, measured on another
connection, because pipelined responses would only measure their own queue. While the link is not full, every round trip
delivers a whole window and the window doubles; on a full link it stays at two bandwidth-delay products. Before the first
measurement only `start` is sent, and never more than the link moves in `PATIENCE_S`: on a slow link the requests queued
behind one would otherwise exceed their deadline.
Source: BBR (Cardwell et al., "BBR: Congestion-Based Congestion Control", 2016), without its pacing and its probing phases.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

RATE_MEMORY_S: Final = 10.0
ROUND_TRIPS: Final = 5
PATIENCE_S: Final = 4.0
START: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class Flight:
    """One request in flight. `at` in seconds on a monotonic clock, `delivered`: bytes answered on the connection by then."""

    at: float
    delivered: int
    expected: int


@dataclass(slots=True)
class InFlightWindow:
    """State of one connection. All sizes in bytes, times in seconds."""

    least: int
    most: int
    start: int = START
    outstanding: int = 0
    delivered: int = 0
    _rates: deque[tuple[float, float]] = field(default_factory=deque)
    _trips: deque[float] = field(default_factory=lambda: deque(maxlen=ROUND_TRIPS))

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self._rates[0][1] if self._rates else 0.0

    @property
    def round_trip_s(self) -> float:
        return min(self._trips, default=0.0)

    @property
    def in_transit(self) -> int:
        """Bytes that a full link keeps in flight."""
        return int(2 * self.rate * self.round_trip_s)

    @property
    def size(self) -> int:
        if not self._rates:
            return self.start
        patience = max(self.start, int(PATIENCE_S * self.rate))
        return min(self.most, self.least + self.in_transit, patience)

    @property
    def open(self) -> bool:
        """True when one more request may be sent."""
        return self.outstanding < self.size

    def measured(self, round_trip_s: float) -> None:
        """Record the round-trip time of a request without data."""
        self._trips.append(round_trip_s)

    def sent(self, now: float, expected: int) -> Flight:
        """Count a request for, or of, `expected` bytes as in flight."""
        self.outstanding += expected
        return Flight(now, self.delivered, expected)

    def answered(self, flight: Flight, now: float, size: int) -> None:
        """Count the response to `flight`, which moved `size` bytes."""
        self.outstanding -= flight.expected
        self.delivered += size
        elapsed = now - flight.at
        if elapsed <= 0:
            return
        rate = (self.delivered - flight.delivered) / elapsed
        while self._rates and (self._rates[-1][1] <= rate):
            self._rates.pop()
        self._rates.append((now, rate))
        while self._rates[0][0] < now - RATE_MEMORY_S:
            self._rates.popleft()
