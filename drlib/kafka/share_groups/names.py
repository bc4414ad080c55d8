"""Names that Kafka has for share groups."""

from typing import Final

STATE_TOPIC: Final = "__share_group_state"
RESET: Final = "share.auto.offset.reset"
EARLIEST: Final = "earliest"
PROTOCOL: Final = "share"
SETTINGS: Final = {
    RESET: "where a partition without a start offset begins",
    "share.isolation.level": "whether records of open and aborted transactions are delivered",
    "share.record.lock.duration.ms": "after what time a record that is not acknowledged is delivered again",
    "share.delivery.count.limit": "after how many deliveries a record is given up",
    "share.partition.max.record.locks": "how many records of a partition may be in delivery at once",
    "share.renew.acknowledge.enable": "whether a consumer may ask for more time",
    "share.session.timeout.ms": "when a silent member is removed",
    "share.heartbeat.interval.ms": "how often members send heartbeats",
}
"""Settings of a share group, and what each decides: those of `GroupConfig` of Kafka 4.3, of which earlier brokers have some."""
