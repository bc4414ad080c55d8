"""When a mirror partition needs a marker of ours, so that its leader does not forget the claim that fences it.

Rules:
- A leader forgets a producer by the *record* timestamp of its last batch or marker (producer.id.expiration.ms), in checks
  that run every producer.id.expiration.check.interval.ms. Then the next append of any producer is accepted unchecked.
- A marker carries the time of its writing. It is due before the next batch of a partition whose last append of ours is
  older than half the expiration, and after old records once nothing follows them. Idle partitions need none.
- While old records are copied, each batch makes the leader's state old again, so a marker before each would gain nothing:
  at most one per half check interval. Between two of them the partition is *guarded*: our own next append renews the
  leader's state, and a foreign append would be detected, not prevented.
- A marker on a partition that has forgotten us starts the sequence again at 0, so that no batch of this claim fits behind
  it: only a new claim can continue. DescribeProducers shows this by the last sequence.
Source: `ProducerStateManager.isProducerExpired`, `ProducerAppendInfo.checkSequence` and `appendEndTxnMarker` of Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drlib import decoding
from drlib.kafka.protocol.batch import SEQUENCE_MODULUS

NO_SEQUENCE = -1
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

PRODUCER_EXPIRATION = "producer.id.expiration.ms"
CHECK_INTERVAL = "producer.id.expiration.check.interval.ms"  # internal: a broker reports it only where it was set
TRANSACTIONAL_EXPIRATION = "transactional.id.expiration.ms"


@dataclass(frozen=True, slots=True)
class Expiry:
    """How long the target remembers producers and transactional IDs, in ms; Kafka's defaults where a broker does not say."""

    producer_ms: int = DAY_MS
    check_interval_ms: int = 10 * 60_000
    transactional_ms: int = 7 * DAY_MS

    @classmethod
    def from_config(cls, config: Mapping[str, str | None]) -> Expiry:
        """From a broker's configuration; a missing value, or one that is no number, becomes Kafka's default."""
        default = cls()

        def number(name: str, default_ms: int) -> int:
            return decoding.integer_or(default_ms, config.get(name) or "")

        return cls(
            number(PRODUCER_EXPIRATION, default.producer_ms),
            number(CHECK_INTERVAL, default.check_interval_ms),
            number(TRANSACTIONAL_EXPIRATION, default.transactional_ms),
        )

    @property
    def interval_ms(self) -> int:
        """Least time between two markers in a stretch of old records: at least one falls between any two checks."""
        return max(1, self.check_interval_ms // 2)

    @property
    def idle_ms(self) -> int:
        """How long nothing must follow old records before a marker follows them."""
        return min(self.interval_ms, max(100, self.interval_ms // 60))

    @property
    def keep_alive_ms(self) -> int:
        """Interval of the journal partition's markers: an hour, or less for a target that forgets sooner."""
        return max(100, min(HOUR_MS, self.transactional_ms // 4, self.producer_ms // 4))


@dataclass(slots=True)
class LastAppend:
    """Our last append to a partition, as its leader knows it. Times in ms since the epoch, by the target's clock."""

    timestamp: int  # of the last record, or of the last marker if that came later
    marked_ms: int
    batch_ms: int = 0  # when the last batch was acknowledged; 0 when nothing came after the last marker

    def batch(self, newest_record: int, now: int) -> None:
        self.timestamp, self.batch_ms = newest_record, now

    def marker(self, now: int) -> None:
        self.timestamp, self.marked_ms, self.batch_ms = now, now, 0


def due_before_batch(last: LastAppend, expiry: Expiry, now: int) -> bool:
    """Whether a marker must be written before the next batch is sent."""
    return _old(last, expiry, now) and now - last.marked_ms >= expiry.interval_ms


def due_when_idle(last: LastAppend, expiry: Expiry, now: int) -> bool:
    """Whether a marker must be written to a partition that has nothing more to send for now."""
    due = idle_due_ms(last, expiry)
    return due is not None and now >= due


def idle_due_ms(last: LastAppend, expiry: Expiry) -> int | None:
    """When `due_when_idle` becomes true if nothing more is sent, ms; None where no batch followed the last marker."""
    if not last.batch_ms:
        return None
    return max(last.batch_ms + expiry.idle_ms, last.timestamp + expiry.producer_ms // 2 + 1)


def fence_may_have_expired(last: LastAppend, expiry: Expiry, now: int) -> bool:
    """Whether the leader may have forgotten us: a foreign append would then be detected, not prevented."""
    return now - last.timestamp >= expiry.producer_ms


def last_sequence(records: int) -> int:
    """The sequence that a leader which has not forgotten us knows after `records` of this claim."""
    return (records - 1) % SEQUENCE_MODULUS if records else NO_SEQUENCE


def _old(last: LastAppend, expiry: Expiry, now: int) -> bool:
    return now - last.timestamp > expiry.producer_ms // 2
