"""Names that Kafka has for share groups."""

from typing import Final

STATE_TOPIC: Final = "__share_group_state"
RESET: Final = "share.auto.offset.reset"
EARLIEST: Final = "earliest"
PROTOCOL: Final = "share"
