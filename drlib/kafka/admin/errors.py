"""Turn librdkafka's errors into errors that a user can act on.

Rules: every error names the cluster's alias. Where no broker answered it is `Unreachable`, which callers may retry, and names
the addresses.
Not for: what drlib's own requests are answered with (`drlib.kafka.protocol.error_codes`); `refused` says on which cluster.
"""

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin import connect
from drlib.kafka.protocol.error_codes import AUTHORIZATION_REMEDY, UNAUTHORIZED
from drlib.kafka.security.cluster_settings import ClusterSettings

EXPLAIN_S: Final = 1.0  # the most time to find out why a call failed
AGAIN_S: Final = 2.0
"""For so long that is not asked once more: where no group is answered, thousands of calls fail at once."""

NO_ANSWER: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._AUTHENTICATION,
        KafkaError._DESTROY_BROKER,  # the connection was replaced by another one while the request waited
        KafkaError._FAIL,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._NOENT,  # no partition that was asked for has a leader that is known
        KafkaError._RESOLVE,
        KafkaError._SSL,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    }
)


# A broker answers and the coordinator is not available yet: __consumer_offsets is being created, loaded or moved.
COORDINATOR_MOVES: Final = frozenset(
    {
        KafkaError._WAIT_COORD,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
# Answers of a broker that has just started or handed a partition over; admin clients do not retry them.
LEADER_MOVES = frozenset(
    {
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,  # a new leader does not know yet what is replicated (KIP-207)
    }
)


class ClusterRefused(DrlibError):
    """A broker refused the request. `code` is Kafka's error name, such as `INVALID_REPLICATION_FACTOR`."""

    def __init__(self, what: str, why: str, remedy: str, *, code: str) -> None:
        super().__init__(what, why, remedy)
        self.code = code

    @property
    def unauthorized(self) -> bool:
        """Whether a right is missing."""
        return self.code.endswith(UNAUTHORIZED)

    @property
    def by_rule(self) -> bool:
        """Whether a rule of the cluster refuses it: a setting that it does not take, or a policy of its operator."""
        return self.code in ("INVALID_CONFIG", "POLICY_VIOLATION")


class GroupNotEmpty(DrlibError):
    """The group has members on this cluster, which own its offsets."""


class OffsetsGone(DrlibError):
    """The wanted offsets are not in the log: deleted by retention, or never written."""


def code_of(error: BaseException) -> int | None:
    """The librdkafka code inside `error`; None when it is not one of its exceptions."""
    inner = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return inner.code() if isinstance(inner, KafkaError) else None


def as_drlib_error(error: BaseException, cluster: ClusterSettings, doing: str) -> DrlibError:
    """The `DrlibError` for `error`, raised on `cluster` while `doing` (such as "listing topics")."""
    inner = error.args[0] if isinstance(error, KafkaException) and error.args else error
    if isinstance(error, TimeoutError):
        return unreachable(cluster, doing, "no answer within the deadline")
    if not isinstance(inner, KafkaError):
        return ClusterRefused(
            f"{doing} on {cluster.alias} failed",
            str(error),
            "Correct the call; nothing was sent to the cluster.",
            code="LOCAL",
        )
    if inner.code() in NO_ANSWER:
        return unreachable(cluster, doing, inner.str().rstrip("."))
    if inner.code() in COORDINATOR_MOVES:
        return Unreachable(
            f"{doing} on {cluster.alias} has no answer yet",
            f"brokers answer, but the group coordinator is not available ({inner.name()}), as on a cluster that just started",
            "Wait a few seconds; if that does not help, check that every partition of __consumer_offsets has a leader.",
        )
    if inner.code() in LEADER_MOVES:
        return Unreachable(
            f"{doing} on {cluster.alias} has no answer yet",
            f"brokers answer, but a partition is between two leaders ({inner.name()}), as where a broker has just started",
            "Wait a few seconds; if that does not help, check that every partition of these topics has a leader.",
        )
    return refused(cluster, doing, f"{inner.name()}: {inner.str().rstrip('.')}", inner.name())


def refused(cluster: ClusterSettings, doing: str, why: str, code: str) -> ClusterRefused:
    """The error of a request that a broker of `cluster` answered with Kafka's error name `code`."""
    remedy = f"Read the broker's log at {', '.join(cluster.bootstrap_servers)}, or change the request."
    if code.endswith(UNAUTHORIZED):
        remedy = AUTHORIZATION_REMEDY
    return ClusterRefused(f"{doing} on {cluster.alias} was refused", why, remedy, code=code)


def unreachable(cluster: ClusterSettings, doing: str, why: str) -> DrlibError:
    """`Unreachable`, or what is behind it: a plain client on a port that requires TLS or a login, or a login or certificate
    that is refused by now, although it was checked when the client was made."""
    try:
        refusal = (
            connect.refused_login(cluster, EXPLAIN_S, AGAIN_S)
            if cluster.secured
            else connect.explain_refusal(cluster, EXPLAIN_S)
        )
    except UsageError as error:  # a secret that is not here any more
        return error
    if refusal is not None:
        return refusal
    addresses = ", ".join(cluster.bootstrap_servers)
    return Unreachable(
        f"{doing} on {cluster.alias} got no answer",
        f"{why} ({addresses})",
        f"Check that the brokers of {cluster.alias} run and listen at {addresses}.",
    )
