"""Broker error codes as errors a person can act on: the one place where a number becomes what, why and remedy.

Rules: `BrokerError` keeps the number, so that callers decide by code and never by text. The sets below are what
the engine decides by; each name is Kafka's.
Source: Kafka's `org.apache.kafka.common.protocol.Errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from kafka.errors import UnknownError, for_code

from drlib.errors import DrlibError

NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
NOT_LEADER_OR_FOLLOWER: Final = 6
REQUEST_TIMED_OUT: Final = 7
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
ILLEGAL_GENERATION: Final = 22
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
CONCURRENT_TRANSACTIONS: Final = 51
SECURITY_DISABLED: Final = 54
KAFKA_STORAGE_ERROR: Final = 56
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
MEMBER_ID_REQUIRED: Final = 79
UNKNOWN_TOPIC_ID: Final = 100
INCONSISTENT_TOPIC_ID: Final = 103

FENCED: Final = frozenset(
    {
        47,  # INVALID_PRODUCER_EPOCH: a newer claim wrote to the partition or the coordinator
        49,  # INVALID_PRODUCER_ID_MAPPING: the transactional ID now has another producer ID
        90,  # PRODUCER_FENCED: a newer claim called InitProducerId
    }
)
"""Somebody else claimed: never to be answered with another claim by the one who was fenced."""

TOO_LARGE: Final = frozenset({10, 18})
INVALID_TIMESTAMP: Final = 32
TOPIC_AUTHORIZATION_FAILED: Final = 29
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
_BEFORE: Final = "message.timestamp.before.max.ms"

REFUSED: Final = frozenset(
    {
        10,  # MESSAGE_TOO_LARGE
        18,  # RECORD_LIST_TOO_LARGE
        32,  # INVALID_TIMESTAMP
        43,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
        76,  # UNSUPPORTED_COMPRESSION_TYPE
        87,  # INVALID_RECORD: no key on a compacted topic, among others
    }
)
"""The target does not take these records, whenever they are sent: the partition is parked."""

AUTHORIZATION: Final = frozenset({29, 30, 31, 53, 58, 65})
"""A right or a credential is missing: topic, group, cluster, transactional ID, SASL, delegation token."""

RETRIABLE: Final = frozenset(
    {
        2,  # CORRUPT_MESSAGE: damaged on the way
        3,  # UNKNOWN_TOPIC_OR_PARTITION: the metadata has not arrived everywhere
        5,  # LEADER_NOT_AVAILABLE
        6,  # NOT_LEADER_OR_FOLLOWER
        7,  # REQUEST_TIMED_OUT
        8,  # BROKER_NOT_AVAILABLE
        9,  # REPLICA_NOT_AVAILABLE
        13,  # NETWORK_EXCEPTION
        14,  # COORDINATOR_LOAD_IN_PROGRESS
        15,  # COORDINATOR_NOT_AVAILABLE
        16,  # NOT_COORDINATOR
        19,  # NOT_ENOUGH_REPLICAS
        20,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
        41,  # NOT_CONTROLLER
        51,  # CONCURRENT_TRANSACTIONS
        56,  # KAFKA_STORAGE_ERROR
        70,  # FETCH_SESSION_ID_NOT_FOUND
        71,  # INVALID_FETCH_SESSION_EPOCH
        72,  # LISTENER_NOT_FOUND
        74,  # FENCED_LEADER_EPOCH
        75,  # UNKNOWN_LEADER_EPOCH
        78,  # OFFSET_NOT_AVAILABLE
        88,  # UNSTABLE_OFFSET_COMMIT
        89,  # THROTTLING_QUOTA_EXCEEDED
        100,  # UNKNOWN_TOPIC_ID
        103,  # INCONSISTENT_TOPIC_ID
        106,  # FETCH_SESSION_TOPIC_ID_ERROR
    }
)
"""The same request may succeed later without anybody changing anything (Kafka's `RetriableException`)."""

_REMEDIES: Final = {
    1: "Ask for the log's start and end offsets; what lies before the start was deleted by retention.",
    3: "Create the topic, or look for a misspelt name with 'drlib doctor'.",
    10: "Raise max.message.bytes of the topic on the target, or leave the topic out of the flow.",
    18: "Raise segment.bytes or max.message.bytes of the topic on the target, or leave the topic out of the flow.",
    32: "Raise message.timestamp.after.max.ms and message.timestamp.before.max.ms of the topic on the target.",
    54: "Set authorizer.class.name on its brokers, or sync.topic.acls.enabled = false in the file.",
    35: "Use a broker of Kafka 3.1 or newer.",
    76: "Use inter.broker.protocol.version 2.1 or newer on the target, or another compression.type on the source.",
    87: "Give the records keys, or set cleanup.policy=delete on the target's topic.",
}
_AUTHORIZATION_REMEDY: Final = "Grant the principal the missing right with kafka-acls, then run the command again."
_RETRIABLE_REMEDY: Final = "Run the command again; if it stays so, look at the brokers with 'drlib doctor'."
_FENCED_REMEDY: Final = "Nothing to do: another worker holds the newer claim."
_OTHER_REMEDY: Final = "Look at the broker's log for this request."


def name_of(code: int) -> str:
    """Kafka's name of an error code, such as NOT_LEADER_OR_FOLLOWER; UNKNOWN_CODE_n for one newer than this table."""
    return _known(code)[0]


def _known(code: int) -> tuple[str, str]:
    """Name and description."""
    found = for_code(code)
    if code != -1 and issubclass(found, UnknownError):
        return f"UNKNOWN_CODE_{code}", ""
    return str(found.message), str(found.description or "")


class BrokerError(DrlibError):
    """A broker answered with an error code. `detail` is the broker's own message, where it sent one."""

    def __init__(self, code: int, context: str, detail: str | None = None, *, topics: Sequence[str] = ()) -> None:
        self.code = code
        self.topics = tuple(topics)  # those that were answered with it, where the question was of several
        self.name = name_of(code)
        self.context = context
        about = detail or _known(code)[1]
        why = f"the broker answered {self.name} ({code})" + (f", {about.rstrip('. ')}" if about else "")
        super().__init__(f"{context} failed", why, _remedy(code), retriable=code in RETRIABLE)


def _remedy(code: int) -> str:
    if code in _REMEDIES:
        return _REMEDIES[code]
    if code in AUTHORIZATION:
        return _AUTHORIZATION_REMEDY
    if code in FENCED:
        return _FENCED_REMEDY
    return _RETRIABLE_REMEDY if code in RETRIABLE else _OTHER_REMEDY


def raise_for(code: int, context: str, detail: str | None = None, *, topics: Sequence[str] = ()) -> None:
    """Raises `BrokerError` unless `code` is 0. `context` says what was done, such as "fetching orders-0"."""
    if code:
        raise BrokerError(code, context, detail, topics=topics)


def refusal(
    code: int, message: str | None, *, topic: str, records: int, size: int, newest_ms: int, now_ms: int
) -> tuple[str, str]:
    """Why the target does not take a batch of `records` for `topic` (one of `REFUSED`), and what makes it take it.

    `size` in bytes as sent, `newest_ms` the time of its newest record.
    """
    told = f"{name_of(code)} (code {code})" + (f", {message.rstrip('. ')}" if message else "")
    configs = f"kafka-configs.sh --bootstrap-server TARGET --alter --topic {topic} --add-config "
    if code in TOO_LARGE:
        return (
            f"{topic} does not take a batch of {size} bytes ({records} records): {told}",
            f"{configs}max.message.bytes={max(size, 1 << 20)}",
        )
    if code == INVALID_TIMESTAMP:
        away = newest_ms - now_ms
        when = datetime.fromtimestamp(newest_ms / 1000, UTC).isoformat(timespec="milliseconds")
        side, key = ("after", "message.timestamp.after.max.ms") if away > 0 else ("before", _BEFORE)
        return (
            f"{topic} does not take records of {when}, which is {abs(away) / 1000:.0f} s {side} now: {told}",
            f"{configs}{key}={max(2 * abs(away), 1)}",
        )
    return f"{topic} refuses {records} records: {told}", _REMEDIES.get(code, _OTHER_REMEDY)
