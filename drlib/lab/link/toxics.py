"""The toxics of a link as arithmetic: when each chunk arrives, and how many bytes may be in flight.

Rules: no clock, no I/O: time is an argument in seconds of any monotonic clock; order is kept; delay costs no throughput;
bandwidth is shared by all connections of one link and direction. Not for: moving bytes (`link`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_SLICE_S: Final = 0.05  # a capped link delivers in slices of this long, as a wire would, not a whole read at once
_SLICE_BYTES_MINIMUM: Final = 512
_BUFFER_S: Final = 0.25  # what the queue of a capped link holds beyond the delay itself
_IN_FLIGHT_MINIMUM: Final = 64 * 1024
SILENT_BYTES: Final = _IN_FLIGHT_MINIMUM  # what a sender may queue where nothing is delivered
_IN_FLIGHT_MAXIMUM: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Toxics:
    """One direction of one link. `delay_ms` is one way; `bandwidth` is in bytes per second, 0 for no cap.

    `blackhole` holds every byte back, as a lost route does, and delivers them when it ends, as TCP retransmits.
    """

    delay_ms: float = 0.0
    bandwidth: float = 0.0
    blackhole: bool = False

    def __post_init__(self) -> None:
        if self.delay_ms < 0 or self.bandwidth < 0:
            raise ValueError(f"a link cannot have {self}")

    @property
    def in_flight_bytes(self) -> int:
        """Bytes that one connection may queue before the sender has to wait."""
        if self.blackhole:
            return SILENT_BYTES
        if not self.bandwidth:
            return _IN_FLIGHT_MAXIMUM
        wanted = int(self.bandwidth * (self.delay_ms / 1000 + _BUFFER_S))
        return min(max(wanted, _IN_FLIGHT_MINIMUM), _IN_FLIGHT_MAXIMUM)

    def slices(self, data: bytes) -> Iterator[bytes]:
        """`data` in the pieces that a capped link delivers one after the other; whole without a cap."""
        if not self.bandwidth:
            yield data
            return
        size = max(_SLICE_BYTES_MINIMUM, int(self.bandwidth * _SLICE_S))
        for start in range(0, len(data), size):
            yield data[start : start + size]


class Shaper:
    """Arrival times of one direction. One instance for all connections of a link, so that they share its bandwidth."""

    def __init__(self, toxics: Toxics | None = None) -> None:
        self.toxics = toxics or Toxics()
        self._free_at = 0.0

    def change(self, toxics: Toxics) -> None:
        """Use `toxics` from now on; bytes sent under the former bandwidth no longer count."""
        self.toxics = toxics
        self._free_at = 0.0

    def due(self, now: float, size: int) -> float:
        """When `size` bytes sent at `now` have arrived."""
        delay = self.toxics.delay_ms / 1000
        if not self.toxics.bandwidth:
            return now + delay
        self._free_at = max(self._free_at, now) + size / self.toxics.bandwidth
        return self._free_at + delay
