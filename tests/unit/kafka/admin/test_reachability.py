"""How far a cluster serves, by its metadata and by which of its brokers answer; and how long silence is waited for."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Iterator

import pytest

from drlib.errors import Unreachable
from drlib.kafka.admin import connect
from drlib.kafka.admin.connect import who_answers
from drlib.kafka.admin.reachability import GROUPS_TOPIC, Askable, ClusterService, examine
from drlib.kafka.net.cluster_client import Broker, ClusterMetadata, PartitionMetadata, TopicMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition


def topic(name: str, *leaders: int, isr: tuple[int, ...] = (1, 2, 3)) -> TopicMetadata:
    partitions = {n: PartitionMetadata(n, leader, 0, (1, 2, 3), isr, 0) for n, leader in enumerate(leaders)}
    return TopicMetadata(name, uuid.UUID(int=1), 0, partitions, name == GROUPS_TOPIC)


def service(*topics: TopicMetadata, silent: tuple[int, ...] = (), min_isr: int = 2) -> ClusterService:
    brokers = {n: Broker(n, "h", n) for n in (1, 2, 3)}
    metadata = ClusterMetadata("id", 1, brokers, {each.name: each for each in topics})
    return ClusterService(metadata, dict.fromkeys(silent, "no answer"), {each.name: min_isr for each in topics})


@pytest.mark.parametrize(
    ("found", "not_led", "not_writable"),
    [
        (service(topic("t", 1, 2, 3)), [], []),
        (service(topic("t", 1, -1)), [1], []),
        (service(topic("t", 1, 2, 3), silent=(2, 3)), [1, 2], [0]),  # listed as leaders and in sync, and dead
        (service(topic("t", 1, 1), silent=(3,)), [], []),
        (service(topic("t", 1, isr=(1, 3)), silent=(3,)), [], [0]),
        (service(topic("t", 1, isr=(1,)), min_isr=1), [], []),
        (service(topic("t", 1), min_isr=4), [], []),  # all of its copies are in sync, and they never were more
        (service(topic("t", 1, isr=(1, 2)), min_isr=4), [], [0]),
        (service(topic("other", -1)), [], []),
    ],
)
def test_service_counts_a_leader_or_copy_only_where_its_broker_answers(
    found: ClusterService, not_led: list[int], not_writable: list[int]
) -> None:
    assert found.not_led(["t"]) == [TopicPartition("t", n) for n in not_led]
    assert found.not_writable(["t"]) == [TopicPartition("t", n) for n in not_writable]


def test_coordinators_missing_counts_partitions_of_the_groups_topic_without_an_answering_leader() -> None:
    assert service().coordinators_missing == (0, 0)
    assert service(topic(GROUPS_TOPIC, 1, 2, -1)).coordinators_missing == (1, 3)
    assert service(topic(GROUPS_TOPIC, 1, 2, -1), silent=(1, 3)).coordinators_missing == (2, 3)
    assert service(silent=(1, 3)).answering == 1


@pytest.fixture
def mute() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_who_answers_addresses_that_accept_and_never_answer_share_one_deadline(mute: str) -> None:
    clusters = [ClusterSettings("A", (mute, mute, mute)), ClusterSettings("B", (closed_port(), mute))]
    began = time.monotonic()
    answers = who_answers(clusters, 0.5)
    assert (
        time.monotonic() - began < 5
    )  # one after the other they would take 0.5 s each, and the probe of the listener more
    for alias in "AB":
        answer = answers[alias]
        assert isinstance(answer, Unreachable)
        assert "no answer within 0.5 s" in answer.why
    assert isinstance(examine(clusters, {}, 0.5)["A"], Unreachable)


def test_who_answers_refused_connection_is_known_at_once() -> None:
    answer = who_answers([ClusterSettings("A", (closed_port(),))], 60)["A"]
    assert isinstance(answer, Unreachable)
    assert "refused" in answer.why


def test_who_answers_name_that_is_never_resolved_is_given_up_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    real, waited = socket.getaddrinfo, []

    def never(host: object, *arguments: object, **options: object) -> object:
        if host == "broker.invalid":
            waited.append(host)
            time.sleep(4)
        return real(host, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", never)
    monkeypatch.setattr(connect, "_END_S", 0.2)
    began = time.monotonic()
    answer = who_answers([ClusterSettings("A", ("broker.invalid:9092",))], 0.3)["A"]
    assert time.monotonic() - began < 3.5
    assert waited
    assert isinstance(answer, Unreachable)
    assert "no answer within 0.3 s" in answer.why


def test_who_answers_unknown_name_is_named() -> None:
    answer = who_answers([ClusterSettings("A", ("broker.invalid:9092",))], 20)["A"]
    assert isinstance(answer, Unreachable)
    assert "broker.invalid" in answer.why


@pytest.mark.parametrize(
    ("leaders", "silent", "askable"),
    [
        ((1, 2, 3), (), Askable.EVERY_GROUP),
        ((1, -1, 3), (), Askable.KNOWN_GROUPS),
        ((1, 2, 3), (2,), Askable.KNOWN_GROUPS),
        (
            (1, 1, 1),
            (2,),
            Askable.KNOWN_GROUPS,
        ),  # every coordinator answers, and yet a list waits for the silent broker
        ((2, -1, 3), (2, 3), Askable.NO_GROUP),
        ((), (2, 3), Askable.KNOWN_GROUPS),  # a user who may not describe the topic sees no partition
        ((), (), Askable.EVERY_GROUP),
    ],
)
def test_groups_of_a_cluster_are_listed_only_where_every_broker_answers(
    leaders: tuple[int, ...], silent: tuple[int, ...], askable: Askable
) -> None:
    topics = [topic(GROUPS_TOPIC, *leaders)] if leaders else []
    assert service(*topics, silent=silent).groups_askable is askable
