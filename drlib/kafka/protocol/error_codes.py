"""Kafka's error codes: their names, the sets the engine decides by, and `BrokerError` with what, why and remedy.

Rules: `BrokerError` keeps the number, so that callers decide by code and never by text. Every code that drlib compares with is
named here, by Kafka's name; no other module holds a bare number.
Not for: errors of librdkafka (`drlib.kafka.admin.errors`).
Source: Kafka's `org.apache.kafka.common.protocol.Errors`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from kafka.errors import UnknownError, for_code

from drlib.errors import DrlibError

UNKNOWN_SERVER_ERROR: Final = -1
NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
NOT_LEADER_OR_FOLLOWER: Final = 6
REQUEST_TIMED_OUT: Final = 7
BROKER_NOT_AVAILABLE: Final = 8
REPLICA_NOT_AVAILABLE: Final = 9
MESSAGE_TOO_LARGE: Final = 10
NETWORK_EXCEPTION: Final = 13
COORDINATOR_LOAD_IN_PROGRESS: Final = 14
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
RECORD_LIST_TOO_LARGE: Final = 18
NOT_ENOUGH_REPLICAS: Final = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20
ILLEGAL_GENERATION: Final = 22
UNKNOWN_MEMBER_ID: Final = 25
REBALANCE_IN_PROGRESS: Final = 27
TOPIC_AUTHORIZATION_FAILED: Final = 29
GROUP_AUTHORIZATION_FAILED: Final = 30
CLUSTER_AUTHORIZATION_FAILED: Final = 31
INVALID_TIMESTAMP: Final = 32
UNSUPPORTED_VERSION: Final = 35
NOT_CONTROLLER: Final = 41
UNSUPPORTED_FOR_MESSAGE_FORMAT: Final = 43
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
DUPLICATE_SEQUENCE_NUMBER: Final = 46
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
INVALID_PRODUCER_ID_MAPPING: Final = 49
INVALID_TRANSACTION_TIMEOUT: Final = 50
CONCURRENT_TRANSACTIONS: Final = 51
TRANSACTION_COORDINATOR_FENCED: Final = 52
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
ILLEGAL_SASL_STATE: Final = 34
SECURITY_DISABLED: Final = 54
OPERATION_NOT_ATTEMPTED: Final = 55
KAFKA_STORAGE_ERROR: Final = 56
SASL_AUTHENTICATION_FAILED: Final = 58
UNKNOWN_PRODUCER_ID: Final = 59
DELEGATION_TOKEN_AUTHORIZATION_FAILED: Final = 65
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
LISTENER_NOT_FOUND: Final = 72
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
OFFSET_NOT_AVAILABLE: Final = 78
MEMBER_ID_REQUIRED: Final = 79
INVALID_RECORD: Final = 87
UNSTABLE_OFFSET_COMMIT: Final = 88
THROTTLING_QUOTA_EXCEEDED: Final = 89
PRODUCER_FENCED: Final = 90
UNKNOWN_TOPIC_ID: Final = 100
INCONSISTENT_TOPIC_ID: Final = 103
FETCH_SESSION_TOPIC_ID_ERROR: Final = 106
TRANSACTION_ABORTABLE: Final = 120

FENCED: Final = frozenset(
    {
        INVALID_PRODUCER_EPOCH,  # a newer claim wrote to the partition or the coordinator
        INVALID_PRODUCER_ID_MAPPING,  # the transactional ID now has another producer ID
        PRODUCER_FENCED,  # a newer claim called InitProducerId
    }
)
"""A newer claim exists: the fenced worker must not claim again because of it."""

OF_PRODUCER: Final = frozenset(
    {
        *FENCED,
        OUT_OF_ORDER_SEQUENCE_NUMBER,
        DUPLICATE_SEQUENCE_NUMBER,
        INVALID_TXN_STATE,
        TRANSACTION_COORDINATOR_FENCED,
        UNKNOWN_PRODUCER_ID,
        TRANSACTION_ABORTABLE,
    }
)
"""What the log has of this producer is not what the producer believes."""

TOO_LARGE: Final = frozenset({MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE})
_BEFORE: Final = "message.timestamp.before.max.ms"

REFUSED: Final = frozenset(
    {
        MESSAGE_TOO_LARGE,
        RECORD_LIST_TOO_LARGE,
        INVALID_TIMESTAMP,
        UNSUPPORTED_FOR_MESSAGE_FORMAT,
        UNSUPPORTED_COMPRESSION_TYPE,
        INVALID_RECORD,  # no key on a compacted topic, among others
    }
)
"""The target refuses these records however often they are sent: the partition is parked."""

AUTHORIZATION: Final = frozenset(
    {
        TOPIC_AUTHORIZATION_FAILED,
        GROUP_AUTHORIZATION_FAILED,
        CLUSTER_AUTHORIZATION_FAILED,
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
"""A right is missing: topic, group, cluster, transactional ID, delegation token."""

RETRIABLE: Final = frozenset(
    {
        CORRUPT_MESSAGE,  # damaged on the way
        UNKNOWN_TOPIC_OR_PARTITION,  # the metadata has not arrived everywhere
        LEADER_NOT_AVAILABLE,
        NOT_LEADER_OR_FOLLOWER,
        REQUEST_TIMED_OUT,
        BROKER_NOT_AVAILABLE,
        REPLICA_NOT_AVAILABLE,
        NETWORK_EXCEPTION,
        COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE,
        NOT_COORDINATOR,
        NOT_ENOUGH_REPLICAS,
        NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        NOT_CONTROLLER,
        CONCURRENT_TRANSACTIONS,
        KAFKA_STORAGE_ERROR,
        FETCH_SESSION_ID_NOT_FOUND,
        INVALID_FETCH_SESSION_EPOCH,
        LISTENER_NOT_FOUND,
        FENCED_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH,
        OFFSET_NOT_AVAILABLE,
        UNSTABLE_OFFSET_COMMIT,
        THROTTLING_QUOTA_EXCEEDED,
        UNKNOWN_TOPIC_ID,
        INCONSISTENT_TOPIC_ID,
        FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""The same request may succeed later without any change (Kafka's `RetriableException`)."""

_REMEDIES: Final = {
    OFFSET_OUT_OF_RANGE: "Ask for the log's start and end offsets; retention deleted the records before the log start.",
    UNKNOWN_TOPIC_OR_PARTITION: "Create the topic, or look for a misspelt name with 'drlib doctor'.",
    MESSAGE_TOO_LARGE: "Raise max.message.bytes of the topic on the target, or leave the topic out of the flow.",
    RECORD_LIST_TOO_LARGE: (
        "Raise segment.bytes or max.message.bytes of the topic on the target, or leave the topic out of the flow."
    ),
    INVALID_TIMESTAMP: (
        "Raise message.timestamp.after.max.ms and message.timestamp.before.max.ms of the topic on the target."
    ),
    SECURITY_DISABLED: "Set authorizer.class.name on its brokers, or sync.topic.acls.enabled = false in the file.",
    UNSUPPORTED_VERSION: "Use a source of Kafka 2.4 or newer and a target of Kafka 3.1 or newer.",
    UNSUPPORTED_COMPRESSION_TYPE: (
        "Use inter.broker.protocol.version 2.1 or newer on the target, or another compression.type on the source."
    ),
    SASL_AUTHENTICATION_FAILED: (
        "Correct the credentials of that cluster in the file (sasl.jaas.config), or create the user there; no right helps."
    ),
    INVALID_RECORD: "Give the records keys, or set cleanup.policy=delete on the target's topic.",
}
UNAUTHORIZED: Final = "_AUTHORIZATION_FAILED"
"""The end of the names of errors that a missing right has: also in a text it says that the cluster answers."""
AUTHORIZATION_REMEDY: Final = (
    "Grant the principal the missing right (drlib doctor FILE --rights prints it), then run the command again."
)
_RETRIABLE_REMEDY: Final = "Run the command again; if it fails again, check the brokers with 'drlib doctor'."
_FENCED_REMEDY: Final = "Nothing to do: another worker holds the newer claim."
_OTHER_REMEDY: Final = "Read the broker's log about this request."


def name_of(code: int) -> str:
    """Kafka's name of an error code, such as NOT_LEADER_OR_FOLLOWER; UNKNOWN_CODE_n for one newer than this table."""
    return _known(code)[0]


def _known(code: int) -> tuple[str, str]:
    """Name and description."""
    error_class = for_code(code)
    if code != UNKNOWN_SERVER_ERROR and issubclass(error_class, UnknownError):
        return f"UNKNOWN_CODE_{code}", ""
    return str(error_class.message), str(error_class.description or "")


class BrokerError(DrlibError):
    """A broker answered with an error code. `detail` is the broker's own message, where it sent one."""

    def __init__(self, code: int, context: str, detail: str | None = None, *, topics: Sequence[str] = ()) -> None:
        self.code = code
        self.topics = tuple(topics)  # the topics answered with this code, where the request named several
        self.name = name_of(code)
        self.context = context
        about = detail or _known(code)[1]
        why = f"the broker answered {self.name} ({code})" + (f", {about.rstrip('. ')}" if about else "")
        super().__init__(f"{context} failed", why, _remedy(code), retriable=code in RETRIABLE)


def _remedy(code: int) -> str:
    if code in _REMEDIES:
        return _REMEDIES[code]
    if code in AUTHORIZATION:
        return AUTHORIZATION_REMEDY
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
    """Why the target refuses a batch of `records` for `topic` (`code` is one of `REFUSED`), and the command that helps.

    `size` is in bytes as sent, `newest_ms` the timestamp of its newest record.
    """
    answer = f"{name_of(code)} (code {code})" + (f", {message.rstrip('. ')}" if message else "")
    configs = f"kafka-configs.sh --bootstrap-server TARGET --alter --topic {topic} --add-config "
    if code in TOO_LARGE:
        return (
            f"{topic} refuses a batch of {size} bytes ({records} records): {answer}",
            f"{configs}max.message.bytes={max(size, 1 << 20)}",
        )
    if code == INVALID_TIMESTAMP:
        away = newest_ms - now_ms
        when = datetime.fromtimestamp(newest_ms / 1000, UTC).isoformat(timespec="milliseconds")
        side, key = ("after", "message.timestamp.after.max.ms") if away > 0 else ("before", _BEFORE)
        return (
            f"{topic} refuses records of {when}, which is {abs(away) / 1000:.0f} s {side} now: {answer}",
            f"{configs}{key}={max(2 * abs(away), 1)}",
        )
    return f"{topic} refuses {records} records: {answer}", _REMEDIES.get(code, _OTHER_REMEDY)
