"""What librdkafka gets to log in with, and which servers it is kept from."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer
from testbed_scram import ScramServer, scram_server

from drlib.kafka.admin import connect
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.security import java_keys
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import Fault, SecurityFault

MODULE = "org.apache.kafka.common.security"


def cluster(server: ScramServer | str, mechanism: str = "SCRAM-SHA-256", password: str = "secret") -> ClusterSettings:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    keys = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{MODULE}.{module} required username="u" password="{password}";',
    }
    return ClusterSettings("LEFT", (server if isinstance(server, str) else server.address,), keys)


@pytest.fixture(autouse=True)
def _nothing_checked() -> Iterator[None]:
    connect._logins.clear()
    yield
    connect._logins.clear()


def test_librdkafka_itself_proves_its_password_to_a_server_with_one_iteration() -> None:
    """Why it has to be kept from such servers; where this fails, librdkafka has learnt it."""
    with scram_server(1) as server:
        settings = cluster(server)
        producer = Producer(
            {"bootstrap.servers": server.address, "log_level": 0, **java_keys.librdkafka(settings.connection())}
        )
        producer.poll(0)
        assert server.proven.wait(20)
        assert b",p=" in server.proofs[0]


@pytest.mark.parametrize("iterations", [1, 4095])
def test_librdkafka_is_kept_from_a_server_with_few_iterations(iterations: int) -> None:
    with scram_server(iterations) as server:
        for _ in range(2):  # a refusal is not remembered
            with pytest.raises(SecurityFault, match=f"{iterations} iterations") as refused:
                librdkafka(cluster(server))
            assert refused.value.fault is Fault.WRONG_SERVER_SIGNATURE
        with pytest.raises(SecurityFault), Cluster(cluster(server)):
            pass
        assert server.proofs == []


def test_librdkafka_login_that_went_well_is_not_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(connect, "explain_refusal", lambda settings, _: asked.append(settings.bootstrap_servers))
    first = cluster("127.0.0.1:1")
    for settings in (first, first, cluster("127.0.0.1:2"), cluster("127.0.0.1:1", password="other")):
        assert librdkafka(settings)["sasl.username"] == "u"
    assert asked == [("127.0.0.1:1",), ("127.0.0.1:2",), ("127.0.0.1:1",)]
    later = time.monotonic() + connect.CHECKED_S + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    librdkafka(first)
    assert len(asked) == 4
    assert len(connect._logins) == 1


def test_handles_of_a_secured_cluster_log_in_once_and_threads_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, begun, go = [], threading.Event(), threading.Event()

    def explain(settings: ClusterSettings, _: float) -> None:
        asked.append(settings.alias)
        begun.set()
        assert go.wait(10)

    monkeypatch.setattr(connect, "explain_refusal", explain)
    settings = cluster("127.0.0.1:1", "PLAIN")

    def enter() -> str:
        with Cluster(settings) as handle:
            return handle.settings.alias

    with ThreadPoolExecutor(3) as pool:
        entered = [pool.submit(enter) for _ in range(3)]
        assert begun.wait(10)
        assert not any(each.done() for each in entered)
        go.set()
        assert [each.result(10) for each in entered] == ["LEFT"] * 3
    assert enter() == "LEFT"
    assert asked == ["LEFT"]


@pytest.mark.parametrize(
    "keys",
    [
        {"security.protocol": "SSL"},
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f'{MODULE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="u";',
        },
    ],
    ids=lambda keys: keys["security.protocol"],
)
def test_login_of_every_kind_is_remembered(keys: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(connect, "explain_refusal", lambda settings, _: asked.append(settings.alias))
    for _ in range(2):
        assert connect.refused_login(ClusterSettings("LEFT", ("127.0.0.1:1",), keys), 1.0) is None
    assert asked == ["LEFT"]


def test_refused_login_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = SecurityFault(Fault.WRONG_CREDENTIALS, "LEFT", "wrong password", "Correct it.")
    answers: list[SecurityFault | None] = [fault, fault, None]
    monkeypatch.setattr(connect, "explain_refusal", lambda *_: answers.pop(0))
    settings = cluster("127.0.0.1:1", "PLAIN")
    assert [connect.refused_login(settings, 1.0) for _ in range(4)] == [fault, fault, None, None]


def test_librdkafka_of_a_cluster_that_does_not_answer_waits_for_it_itself() -> None:
    assert librdkafka(cluster("127.0.0.1:1"))["bootstrap.servers"] == "127.0.0.1:1"


def test_librdkafka_other_mechanisms_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "explain_refusal", lambda *_: pytest.fail("it was asked"))
    assert librdkafka(cluster("127.0.0.1:1", "PLAIN"))["sasl.mechanism"] == "PLAIN"
    assert librdkafka(ClusterSettings("LEFT", ("127.0.0.1:1",))) == {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "PLAINTEXT",
    }
