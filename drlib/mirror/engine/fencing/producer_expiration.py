"""When a mirror partition needs a marker of ours, so that its leader does not forget the claim that fences it.

Rules:
- A leader forgets a producer by the *record* timestamp of its last batch or marker (producer.id.expiration.ms), at looks
  that are producer.id.expiration.check.interval.ms apart. Forgotten, anybody's next append is taken unchecked.
- A marker carries the time of its writing: before the next batch of a partition whose last word of ours is older than
  half the expiration, and behind old records once nothing follows them. Idle partitions are left alone.
- While old records go on, each batch makes the leader's memory old again, so a marker before each would buy nothing:
  at most one in half a look. Between two of them the partition is *guarded*: our own next append is what re-arms it, and
  a foreign one would be detected, not prevented.
- A marker on a partition that has forgotten us begins the sequence anew, and no batch of this claim fits behind it: then
  only a new claim goes on. DescribeProducers tells by the last sequence.
Source: `ProducerStateManager.isProducerExpired`, `ProducerAppendInfo.checkSequence` and `appendEndTxnMarker` of Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drlib.kafka.protocol.batch import SEQUENCE_MODULUS

NO_SEQUENCE = -1
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

PRODUCER_EXPIRATION = "producer.id.expiration.ms"
LOOK_INTERVAL = "producer.id.expiration.check.interval.ms"  # internal: a broker tells it only where it was set
TRANSACTIONAL_EXPIRATION = "transactional.id.expiration.ms"


@dataclass(frozen=True, slots=True)
class Expiry:
    """How long the target remembers, in ms; Kafka's defaults where a broker does not say."""

    producer_ms: int = DAY_MS
    look_ms: int = 10 * 60_000
    transactional_ms: int = 7 * DAY_MS

    @classmethod
    def of(cls, config: Mapping[str, str | None]) -> Expiry:
        """From a broker's configuration; what it does not tell, or tells as no number, is Kafka's default."""
        default = cls()

        def number(name: str, otherwise: int) -> int:
            value = config.get(name)
            return int(value) if value is not None and value.isdecimal() else otherwise

        return cls(
            number(PRODUCER_EXPIRATION, default.producer_ms),
            number(LOOK_INTERVAL, default.look_ms),
            number(TRANSACTIONAL_EXPIRATION, default.transactional_ms),
        )

    @property
    def interval_ms(self) -> int:
        """Least time between two markers in a stretch of old records: one at least falls between any two looks."""
        return max(1, self.look_ms // 2)

    @property
    def lull_ms(self) -> int:
        """How long nothing must follow old records before a marker closes them."""
        return min(self.interval_ms, max(100, self.interval_ms // 60))

    @property
    def keep_alive_ms(self) -> int:
        """How often the journal partition gets a marker: hourly, or often enough for a target that forgets sooner."""
        return max(100, min(HOUR_MS, self.transactional_ms // 4, self.producer_ms // 4))


@dataclass(slots=True)
class LastAppend:
    """What a partition's leader last heard of our claim. Times in ms since the epoch, here by our own clock."""

    timestamp: int  # of the last record, or of the last marker if that came later
    marked_ms: int
    batch_ms: int = 0  # when the last batch was acknowledged; 0 when nothing came after the last marker

    def batch(self, newest_record: int, now: int) -> None:
        self.timestamp, self.batch_ms = newest_record, now

    def marker(self, now: int) -> None:
        self.timestamp, self.marked_ms, self.batch_ms = now, now, 0


def due_before_batch(last: LastAppend, expiry: Expiry, now: int) -> bool:
    """Whether a marker must stand before the next batch is sent."""
    return _old(last, expiry, now) and now - last.marked_ms >= expiry.interval_ms


def due_in_lull(last: LastAppend, expiry: Expiry, now: int) -> bool:
    """Whether a marker must close a partition to which nothing more is to be sent for now."""
    due = lull_due_ms(last, expiry)
    return due is not None and now >= due


def lull_due_ms(last: LastAppend, expiry: Expiry) -> int | None:
    """When that will be, if nothing more comes; None where nothing came after the last marker."""
    if not last.batch_ms:
        return None
    return max(last.batch_ms + expiry.lull_ms, last.timestamp + expiry.producer_ms // 2 + 1)


def fence_may_have_expired(last: LastAppend, expiry: Expiry, now: int) -> bool:
    """Whether the leader may have forgotten us: a foreign append would then be detected, not prevented."""
    return now - last.timestamp >= expiry.producer_ms


def last_sequence(records: int) -> int:
    """The sequence a leader that has not forgotten us must know after `records` of this claim."""
    return (records - 1) % SEQUENCE_MODULUS if records else NO_SEQUENCE


def _old(last: LastAppend, expiry: Expiry, now: int) -> bool:
    return now - last.timestamp > expiry.producer_ms // 2
