"""Where a source's logs end, of partitions without a leader and of ones that their leaders refuse."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from drlib.errors import Unreachable
from drlib.kafka.admin.reachability import ClusterService
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import Broker, ClusterMetadata, PartitionMetadata, TopicMetadata
from drlib.kafka.protocol.error_codes import (
    LEADER_NOT_AVAILABLE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_NOT_AVAILABLE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
)
from drlib.kafka.security.errors import CANNOT_USE
from drlib.mirror.monitor import source_ends
from drlib.mirror.monitor.source_ends import SourceState, partly, read_source
from drlib.model import TopicPartition

ORDERS = tuple(TopicPartition("orders", number) for number in range(3))


def topic(name: str, *leaders: int, code: int = 0) -> TopicMetadata:
    partitions = {n: PartitionMetadata(n, leader, 1, (1,), (1,), 0) for n, leader in enumerate(leaders)}
    return TopicMetadata(name, uuid.uuid5(uuid.NAMESPACE_DNS, name), code, partitions, internal=False)


def cluster(*topics: TopicMetadata, brokers: int = 3) -> ClusterMetadata:
    listed = {node: Broker(node, "127.0.0.1", 9000 + node) for node in range(1, brokers + 1)}
    return ClusterMetadata("c", 1, listed, {each.name: each for each in topics})


@dataclass
class Source:
    """Leaders that refuse a partition with each of its `codes`, one request after the other, then say 10."""

    metadata_now: ClusterMetadata
    codes: dict[TopicPartition, list[int]] = field(default_factory=dict)
    dead: frozenset[int] = frozenset()
    asked: list[tuple[int, tuple[TopicPartition, ...]]] = field(default_factory=list)

    async def connection(self, node: int) -> Leader:
        if node in self.dead:
            raise Unreachable(f"node {node} can't be reached", "no answer", "Start it.")
        return Leader(self, node)

    async def metadata(self, topics: Sequence[str]) -> ClusterMetadata:
        missing = {name: topic(name, code=UNKNOWN_TOPIC_OR_PARTITION) for name in topics}
        return replace(self.metadata_now, topics={**missing, **self.metadata_now.topics})

    def list_offsets(
        self, node: int, wanted: tuple[TopicPartition, ...], timestamp: int, isolation: str
    ) -> tuple[dict[TopicPartition, tuple[int, int]], dict[TopicPartition, int]]:
        if isolation == "read_committed":
            return dict.fromkeys(wanted, (10, 1)), {}
        if timestamp == requests.EARLIEST:
            return dict.fromkeys(wanted, (0, 1)), {}
        self.asked.append((node, wanted))
        refused = {at: self.codes[at].pop(0) for at in wanted if self.codes.get(at)}
        return {at: (10, 1) for at in wanted if at not in refused}, refused

    async def read(self, metadata: ClusterMetadata, silent: Iterable[int] = ()) -> SourceState:
        service = ClusterService(metadata, dict.fromkeys(silent, "no answer"))
        return await read_source(self, service, lambda name: not name.startswith("_"), 5.0)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Leader:
    source: Source
    node: int


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_offsets(
        leader: Leader, partitions: Iterable[TopicPartition], timestamp: int, isolation: str = "read_uncommitted"
    ) -> tuple[dict[TopicPartition, tuple[int, int]], dict[TopicPartition, int]]:
        return leader.source.list_offsets(leader.node, tuple(partitions), timestamp, isolation)

    monkeypatch.setattr(requests, "list_offsets_or_codes", list_offsets)
    monkeypatch.setattr(source_ends, "PAUSES_S", (0.0, 0.0, 0.0))


pytestmark = pytest.mark.usefixtures("ask")


async def test_source_that_answers_wholly_leaves_nothing_unknown() -> None:
    now = cluster(topic("orders", 1, 2, 3), topic("_internal", -1))
    found = await Source(now).read(now)
    assert found.ends == dict.fromkeys(ORDERS, 10)
    assert (found.partly, found.unknown, found.silent) == ("", frozenset(), False)


async def test_partition_without_leader_is_unknown_and_named() -> None:
    now = cluster(topic("orders", 1, -1, 2), brokers=2)
    found = await Source(now).read(now)
    assert found.ends.keys() == {ORDERS[0], ORDERS[2]}
    assert found.unknown == {ORDERS[1]}
    assert found.partly == "mirrored partitions without a leader, whose ends are unknown: 1, orders-1"
    assert not found.silent


async def test_source_of_which_no_partition_has_a_leader_answers_with_all_unknown() -> None:
    now = cluster(topic("orders", -1, -1, -1))
    found = await Source(now).read(now)
    assert found.unknown == set(ORDERS)
    assert "3, orders-0, orders-1, orders-2" in found.partly


@pytest.mark.parametrize("code", [NOT_LEADER_OR_FOLLOWER, LEADER_NOT_AVAILABLE, OFFSET_NOT_AVAILABLE])
async def test_partition_that_is_refused_for_a_while_is_asked_of_its_new_leader(code: int) -> None:
    source = Source(cluster(topic("orders", 1, 3, 3)), {ORDERS[1]: [code, code]})
    found = await source.read(cluster(topic("orders", 1, 2, 3)))
    assert found.ends == dict.fromkeys(ORDERS, 10)
    assert found.partly == ""
    assert source.asked[3:] == [(3, (ORDERS[1],)), (3, (ORDERS[1],))]  # the others are not asked again
    assert found.metadata.topics["orders"].partitions[1].leader == 3


async def test_partition_that_stays_refused_leaves_the_others_known() -> None:
    now = cluster(topic("orders", 1, 2, 3))
    found = await Source(now, {ORDERS[1]: [OFFSET_NOT_AVAILABLE] * 9}).read(now)
    assert found.ends.keys() == {ORDERS[0], ORDERS[2]}
    assert found.partly == (
        "mirrored partitions whose leaders do not say where they end: 1, orders-1 (OFFSET_NOT_AVAILABLE)"
    )


async def test_only_partition_that_stays_refused_is_no_source_that_does_not_answer() -> None:
    now = cluster(topic("orders", 1))
    found = await Source(now, {ORDERS[0]: [NOT_LEADER_OR_FOLLOWER] * 9}).read(now)
    assert found.unknown == {ORDERS[0]}


async def test_topic_that_is_deleted_meanwhile_is_left_out() -> None:
    now = cluster(topic("orders", 1, 2, 3), topic("gone", 1, 2))
    gone = TopicPartition("gone", 0)
    found = await Source(cluster(topic("orders", 1, 2, 3)), {gone: [UNKNOWN_TOPIC_OR_PARTITION] * 9}).read(now)
    assert found.ends == dict.fromkeys(ORDERS, 10)
    assert (found.partly, found.unknown) == ("", frozenset())
    assert "gone" not in found.metadata.topics


async def test_partition_whose_new_leader_is_none_has_no_leader() -> None:
    source = Source(cluster(topic("orders", 1, -1, 3)), {ORDERS[1]: [NOT_LEADER_OR_FOLLOWER] * 9})
    found = await source.read(cluster(topic("orders", 1, 2, 3)))
    assert found.partly == "mirrored partitions without a leader, whose ends are unknown: 1, orders-1"


async def test_refusal_that_does_not_pass_is_one_partitions_and_an_error_where_it_is_all() -> None:
    now = cluster(topic("orders", 1, 2, 3))
    found = await Source(now, {ORDERS[0]: [TOPIC_AUTHORIZATION_FAILED]}).read(now)
    assert found.partly.endswith("1, orders-0 (TOPIC_AUTHORIZATION_FAILED)")
    with pytest.raises(BrokerError, match="listing the offsets of orders-"):
        await Source(now, {at: [TOPIC_AUTHORIZATION_FAILED] for at in ORDERS}).read(now)


async def test_leader_that_turns_out_silent_is_named_and_the_only_one_is_an_error() -> None:
    now = cluster(topic("orders", 1, 2, 3))
    found = await Source(now, dead=frozenset({2})).read(now)
    assert found.ends.keys() == {ORDERS[0], ORDERS[2]}
    assert found.silent
    assert found.partly.startswith("1 of 3 brokers do not answer (broker 2); they lead 1 mirrored partitions")
    with pytest.raises(Unreachable):
        await Source(now, dead=frozenset({1})).read(cluster(topic("orders", 1)))


def test_partly_names_every_reason_and_is_empty_without_unknown_partitions() -> None:
    leaders = dict(zip(ORDERS, (-1, 2, 3), strict=True))
    text = partly(3, {2: "no answer"}, leaders, {ORDERS[2]: OFFSET_NOT_AVAILABLE})
    assert text == (
        "1 of 3 brokers do not answer (broker 2); they lead 1 mirrored partitions, whose ends are unknown; "
        "mirrored partitions without a leader, whose ends are unknown: 1, orders-0; "
        "mirrored partitions whose leaders do not say where they end: 1, orders-2 (OFFSET_NOT_AVAILABLE)"
    )
    assert partly(3, {2: "no answer"}, {}, {}) == ""
    refused = partly(3, {1: "no answer", 2: f"h:2: {CANNOT_USE}: its certificate has expired"}, leaders, {})
    assert "(broker 1, broker 2, h:2: this host cannot use it: its certificate has expired); they" in refused
