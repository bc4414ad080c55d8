"""librdkafka's errors as errors a user can act on.

Rules: every error names the cluster's alias; one that means nobody answered also names the addresses that were tried
and is `Unreachable`, which callers may retry.
Not for: the engine's own requests, whose codes are mapped by `drlib.kafka.protocol.error_codes`.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin import login_check as preflight
from drlib.kafka.security.cluster_settings import ClusterSettings

EXPLAIN_S: Final = 1.0  # how long a failed call looks for a reason that has a name

_NOBODY_ANSWERED: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)


# A broker answers, and the coordinator is not there yet: __consumer_offsets is being made or loaded, or just moved.
COORDINATOR_MOVES: Final = frozenset(
    {
        KafkaError._WAIT_COORD,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
# What a broker answers that has just come up, or handed a partition over; an admin client does not ask again by itself.
LEADER_MOVES = frozenset(
    {
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)


class ClusterRefused(DrlibError):
    """A broker answered, and the answer was no. `code` is Kafka's error name, such as `INVALID_REPLICATION_FACTOR`."""

    def __init__(self, what: str, why: str, remedy: str, *, code: str) -> None:
        super().__init__(what, why, remedy)
        self.code = code


class GroupNotEmpty(DrlibError):
    """The group has members on this cluster, so its positions are theirs to move."""


class OffsetsGone(DrlibError):
    """The wanted offsets are not in the log: deleted by retention, or never written."""


def code_of(error: BaseException) -> int | None:
    """The librdkafka code inside `error`; None when it is not one of its exceptions."""
    inner = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return inner.code() if isinstance(inner, KafkaError) else None


def as_drlib_error(error: BaseException, cluster: ClusterSettings, doing: str) -> DrlibError:
    """`error`, met on `cluster` while `doing` (such as "listing topics"), in words."""
    inner = error.args[0] if isinstance(error, KafkaException) and error.args else error
    if isinstance(error, TimeoutError):
        return unreachable(cluster, doing, "no answer within the deadline")
    if not isinstance(inner, KafkaError):
        return ClusterRefused(
            f"{doing} on {cluster.alias} failed",
            str(error),
            "Correct the call; the cluster was not asked.",
            code="LOCAL",
        )
    if inner.code() in _NOBODY_ANSWERED:
        return unreachable(cluster, doing, inner.str().rstrip("."))
    if inner.code() in COORDINATOR_MOVES:
        return Unreachable(
            f"{doing} on {cluster.alias} has no answer yet",
            f"brokers answer, and the group coordinator is not there ({inner.name()}), as on a cluster that just started",
            "Wait a few seconds; where it stays so, see whether every partition of __consumer_offsets has a leader.",
        )
    return ClusterRefused(
        f"{doing} on {cluster.alias} was refused",
        f"{inner.name()}: {inner.str().rstrip('.')}",
        f"Look at the broker's log at {', '.join(cluster.bootstrap_servers)}, or ask for something it allows.",
        code=inner.name(),
    )


def unreachable(cluster: ClusterSettings, doing: str, why: str) -> DrlibError:
    """`Unreachable`, or the `SecurityFault` that looks like it: a plain client on a port that wants TLS or a login."""
    if not cluster.secured and (found := preflight.explain_refusal(cluster, EXPLAIN_S)) is not None:
        return found
    addresses = ", ".join(cluster.bootstrap_servers)
    return Unreachable(
        f"{doing} on {cluster.alias} got no answer",
        f"{why} ({addresses})",
        f"Check that a broker of {cluster.alias} runs and listens at {addresses}.",
    )
