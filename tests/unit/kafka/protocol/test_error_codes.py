"""Error codes: their numbers against another client's, and what a refused batch is answered with."""

from __future__ import annotations

import pytest
from kafka.errors import for_code

from drlib.kafka.protocol import error_codes
from drlib.kafka.protocol.error_codes import BrokerError, raise_for, refusal

RENAMED = {  # by Kafka since, or by the other client
    "NONE": "NO_ERROR",
    "UNKNOWN_SERVER_ERROR": "UNKNOWN",
    "NOT_LEADER_OR_FOLLOWER": "NOT_LEADER_FOR_PARTITION",
    "MESSAGE_TOO_LARGE": "MESSAGE_SIZE_TOO_LARGE",
}
CODES = {name: value for name, value in vars(error_codes).items() if name.isupper() and isinstance(value, int)}


@pytest.mark.parametrize("name", CODES)
def test_error_code_has_kafkas_number(name: str) -> None:
    known = for_code(CODES[name])
    assert known.__name__ != "UnrecognizedBrokerError"
    assert known.message == RENAMED.get(name, name)


@pytest.mark.parametrize(
    ("code", "remedy", "retriable"),
    [
        (error_codes.NOT_CONTROLLER, "Run the command again", True),
        (error_codes.UNKNOWN_TOPIC_OR_PARTITION, "Create the topic", True),
        (error_codes.ILLEGAL_GENERATION, "Read the broker's log", False),
        (error_codes.PRODUCER_FENCED, "Nothing to do", False),
        (error_codes.CLUSTER_AUTHORIZATION_FAILED, "Grant the principal", False),
        (error_codes.SASL_AUTHENTICATION_FAILED, "Correct the credentials", False),
    ],
)
def test_broker_error_remedy_follows_the_code(code: int, remedy: str, retriable: bool) -> None:
    with pytest.raises(BrokerError) as caught:
        raise_for(code, "fetching orders-0")
    assert caught.value.remedy.startswith(remedy)
    assert caught.value.retriable is retriable
    raise_for(0, "fetching orders-0")


@pytest.mark.parametrize(
    ("newest_ms", "why", "setting"),
    [
        (13_000, "of 1970-01-01T00:00:13.000+00:00, which is 3 s after now", "message.timestamp.after.max.ms=6000"),
        (7_000, "of 1970-01-01T00:00:07.000+00:00, which is 3 s before now", "message.timestamp.before.max.ms=6000"),
        (10_001, "which is 0 s after now", "message.timestamp.after.max.ms=2"),
        (10_000, "which is 0 s before now", "message.timestamp.before.max.ms=1"),
    ],
)
def test_refusal_of_timestamps_names_side_and_setting(newest_ms: int, why: str, setting: str) -> None:
    found = refusal(
        error_codes.INVALID_TIMESTAMP, None, topic="t", records=2, size=9, newest_ms=newest_ms, now_ms=10_000
    )
    assert why in found[0]
    assert found[1].endswith(f"--topic t --add-config {setting}")


@pytest.mark.parametrize(("size", "limit"), [(9, 1 << 20), ((1 << 20) + 1, (1 << 20) + 1)])
def test_refusal_of_size_names_a_limit_that_is_enough(size: int, limit: int) -> None:
    for code in (error_codes.MESSAGE_TOO_LARGE, error_codes.RECORD_LIST_TOO_LARGE):
        found = refusal(code, "too big.", topic="t", records=2, size=size, newest_ms=0, now_ms=0)
        assert f"{size} bytes (2 records)" in found[0]
        assert found[1].endswith(f"max.message.bytes={limit}")
