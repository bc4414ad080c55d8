"""librdkafka's errors as errors of drlib: retriable without an answer, refused with Kafka's name of the code."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin import connect, errors
from drlib.kafka.admin.errors import ClusterRefused, as_drlib_error, code_of
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import Fault, fault

SECURED = ClusterSettings("LEFT", ("h:1", "h:2"), {"security.protocol": "SSL"})


@pytest.fixture(autouse=True)
def nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here opens a connection."""
    monkeypatch.setattr(connect, "explain_refusal", lambda *_: None)
    monkeypatch.setattr(connect, "_logins", {})


def test_code_of_exception_and_error_is_the_same() -> None:
    error = KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)
    assert code_of(error) == code_of(KafkaException(error)) == KafkaError.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("error", [TimeoutError(), ValueError("x"), KafkaException(), KafkaException("x")])
def test_code_of_other_errors_is_none(error: Exception) -> None:
    assert code_of(error) is None


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY_BROKER,
        KafkaError._FAIL,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._NOENT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
    ],
)
def test_as_drlib_error_without_an_answer_is_unreachable_with_the_addresses(code: int) -> None:
    found = as_drlib_error(KafkaException(KafkaError(code)), SECURED, "listing topics")
    assert isinstance(found, Unreachable)
    assert found.retriable
    assert found.what == "listing topics on LEFT got no answer"
    assert found.why.endswith("(h:1, h:2)")
    assert found.remedy == "Check that the brokers of LEFT run and listen at h:1, h:2."


def test_as_drlib_error_of_a_deadline_is_unreachable() -> None:
    found = as_drlib_error(TimeoutError(), SECURED, "listing topics")
    assert isinstance(found, Unreachable)
    assert found.why == "no answer within the deadline (h:1, h:2)"


@pytest.mark.parametrize("code", sorted(errors.COORDINATOR_MOVES))
def test_as_drlib_error_of_an_unavailable_coordinator_is_retriable_and_names_its_topic(code: int) -> None:
    found = as_drlib_error(KafkaException(KafkaError(code)), SECURED, "listing groups")
    assert isinstance(found, Unreachable)
    assert found.what == "listing groups on LEFT has no answer yet"
    assert KafkaError(code).name() in found.why
    assert "__consumer_offsets" in found.remedy


@pytest.mark.parametrize("code", [KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.TOPIC_AUTHORIZATION_FAILED])
def test_as_drlib_error_of_another_code_is_refused_with_its_name(code: int) -> None:
    error = KafkaError(code, "no.")
    found = as_drlib_error(KafkaException(error), SECURED, "creating topic t")
    assert isinstance(found, ClusterRefused)
    assert not isinstance(found, Unreachable)
    assert (found.what, found.code) == ("creating topic t on LEFT was refused", error.name())
    assert found.why == f"{error.name()}: no"
    assert found.unauthorized == (code == KafkaError.TOPIC_AUTHORIZATION_FAILED)


def test_missing_right_is_remedied_by_the_rights_that_are_printed() -> None:
    found = as_drlib_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), SECURED, "describing topics")
    assert isinstance(found, ClusterRefused)
    assert found.unauthorized
    assert "drlib doctor FILE --rights" in found.remedy


def test_as_drlib_error_of_a_wrong_call_says_that_nothing_was_sent() -> None:
    found = as_drlib_error(ValueError("topics must be a list"), SECURED, "creating topics")
    assert isinstance(found, ClusterRefused)
    assert (found.why, found.code) == ("topics must be a list", "LOCAL")
    assert "nothing was sent" in found.remedy


def test_unreachable_client_asks_for_the_refusal_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def explain(cluster: ClusterSettings, timeout_s: float) -> None:
        asked.append(cluster.alias)

    monkeypatch.setattr(connect, "explain_refusal", explain)
    assert isinstance(errors.unreachable(ClusterSettings("RIGHT", ("h:3",)), "reading", "x"), Unreachable)
    assert isinstance(errors.unreachable(SECURED, "reading", "x"), Unreachable)
    assert asked == ["RIGHT", SECURED.alias]  # a login that was checked before may be revoked by now
    for _ in range(100):  # of as many groups that are not answered
        errors.unreachable(SECURED, "reading", "x")
    assert asked == ["RIGHT", SECURED.alias]
    monkeypatch.setattr(errors, "AGAIN_S", 0.0)
    errors.unreachable(SECURED, "reading", "x")
    assert asked == ["RIGHT", SECURED.alias, SECURED.alias]


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._AUTHENTICATION, KafkaError._SSL])
def test_password_that_was_changed_after_the_login_is_named(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """librdkafka says that the broker cannot be reached."""
    login = fault(Fault.WRONG_CREDENTIALS, "h:1", mechanism="SCRAM-SHA-512", detail="invalid credentials")
    monkeypatch.setattr(connect, "explain_refusal", lambda *_: login)
    assert as_drlib_error(KafkaException(KafkaError(code)), SECURED, "describing topics") is login


def test_secret_that_is_not_here_any_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise UsageError("secret.properties cannot be read", "no such file", "Write it.")

    monkeypatch.setattr(connect, "explain_refusal", gone)
    assert isinstance(as_drlib_error(TimeoutError(), SECURED, "describing topics"), UsageError)
