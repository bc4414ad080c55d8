"""How many topics are created in one request, and how long calls have."""

from __future__ import annotations

import time
import weakref
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from drlib.errors import DrlibError, NoBrokersYet
from drlib.kafka.admin import cluster
from drlib.kafka.admin.descriptions import NewTopicSpec
from drlib.kafka.admin.errors import LEADER_MOVES
from drlib.kafka.net.cluster_client import NO_BROKERS_S
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition


@pytest.mark.parametrize(
    ("partitions", "portions"),
    [
        ([], []),
        ([3], [[3]]),
        ([2, 2], [[2, 2]]),
        ([2, 2, 1], [[2, 2], [1]]),
        ([9, 1, 9], [[9], [1], [9]]),  # a topic is never divided
    ],
)
def test_portions_have_at_most_the_partitions_of_one_request(
    partitions: list[int], portions: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "AT_ONCE", 4)
    topics = [NewTopicSpec(f"t{n}", count, -1, {}) for n, count in enumerate(partitions)]
    divided = list(cluster._portions(topics))
    assert [[topic.partitions for topic in some] for some in divided] == portions
    assert [topic for some in divided for topic in some] == topics


@pytest.mark.parametrize(
    ("together", "left_s"), [(False, [5.0, 5.0, 5.0]), (True, [5.0, 2.0, cluster._LEAST_S])], ids=["each", "together"]
)
def test_deadline_is_of_each_call_or_of_all_together(
    together: bool, left_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with cluster.Cluster(ClusterSettings("A", ("127.0.0.1:1",)), timeout_s=5.0, together=together) as handle:
        found = []
        for passed_s in (0.0, 3.0, 4.0):
            now += passed_s
            found.append(handle._timeout_s)
    assert found == pytest.approx(left_s)


def test_handle_of_librdkafka_is_freed_at_the_end_of_the_block_although_a_copy_of_the_cluster_remains() -> None:
    with cluster.Cluster(ClusterSettings("A", ("127.0.0.1:1",))) as whole:
        copy = whole.within(1.0)
        handle = weakref.ref(copy._admin)
        assert handle() is whole._admin
    assert handle() is None
    assert copy.settings is whole.settings


@pytest.mark.parametrize(
    "code", sorted({*LEADER_MOVES, KafkaError.OFFSET_NOT_AVAILABLE}), ids=lambda code: KafkaError(code).name()
)
def test_log_ends_are_asked_again_while_a_new_leader_does_not_know_them(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Future[SimpleNamespace](), Future[SimpleNamespace]()
    first.set_exception(KafkaException(KafkaError(code)))
    second.set_result(SimpleNamespace(offset=7))
    answers = [first, second]
    monkeypatch.setattr(cluster, "_RETRY_S", 0.0)
    monkeypatch.setattr(
        cluster.Cluster, "_call", lambda _, doing, method, wanted, **__: dict.fromkeys(wanted, answers.pop(0))
    )
    with cluster.Cluster(ClusterSettings("A", ("127.0.0.1:1",)), timeout_s=5.0) as handle:
        assert handle.log_ends([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 7}


@pytest.mark.parametrize("listed", [True, False], ids=["was-just-created", "does-not-exist"])
def test_log_ends_of_a_topic_that_its_leader_does_not_know_yet_are_asked_again(
    listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Future[SimpleNamespace](), Future[SimpleNamespace]()
    first.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
    second.set_result(SimpleNamespace(offset=7))
    answers = [first, second]
    monkeypatch.setattr(cluster, "_RETRY_S", 0.0)
    monkeypatch.setattr(
        cluster.Cluster, "_call", lambda _, doing, method, wanted, **__: dict.fromkeys(wanted, answers.pop(0))
    )
    monkeypatch.setattr(cluster.Cluster, "topics", lambda _, names: dict.fromkeys(names) if listed else {})
    with cluster.Cluster(ClusterSettings("A", ("127.0.0.1:1",)), timeout_s=5.0) as handle:
        if listed:
            assert handle.log_ends([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 7}
        else:
            with pytest.raises(DrlibError, match="UNKNOWN_TOPIC"):
                handle.log_ends([TopicPartition("t", 0)])


def describe_without_brokers(answers: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The cluster names no broker in so many answers, which take a tenth of a second; the deadlines of the requests."""
    now, deadlines = 100.0, list[float]()

    def passes(seconds: float) -> None:
        nonlocal now
        now += seconds

    def call(handle: cluster.Cluster, *_: object) -> Future[SimpleNamespace]:
        deadlines.append(handle._timeout_s)
        answer = Future[SimpleNamespace]()
        answer.set_result(SimpleNamespace(cluster_id="id", nodes=[] if len(deadlines) <= answers else [object()]))
        passes(0.1)
        return answer

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", passes)
    monkeypatch.setattr(cluster.Cluster, "_call", call)
    return deadlines


def test_cluster_that_names_no_broker_yet_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines = describe_without_brokers(2, monkeypatch)
    with cluster.Cluster(ClusterSettings("A", ("127.0.0.1:1",)), timeout_s=15.0) as handle:
        assert handle.cluster_id() == "id"
    assert deadlines == pytest.approx([15.0, 14.8, 14.6]), "the time of a call includes what was asked before"


@pytest.mark.parametrize(("timeout_s", "asked_s"), [(15.0, NO_BROKERS_S), (1.0, 1.0)])
def test_cluster_that_goes_on_naming_no_broker_is_an_error_within_the_deadline(
    timeout_s: float, asked_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines = describe_without_brokers(1000, monkeypatch)
    with cluster.Cluster(ClusterSettings("A", ("127.0.0.1:1",)), timeout_s=timeout_s) as handle:
        before = time.monotonic()
        with pytest.raises(NoBrokersYet, match="the brokers of A are not known"):
            handle.cluster_id()
    assert asked_s - 0.2 <= time.monotonic() - before <= asked_s + cluster._LEAST_S
    assert len(deadlines) == pytest.approx(asked_s / 0.2, abs=1)
