"""A broker of the target is down that held one lane of the journal alone: only that lane's partitions are not known."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import wait_for
from testbed_moves import Place, one_way_file

from drlib import translate_offsets
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failover.observe_flow import observe_flow
from drlib.errors import Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.lab.lab import Lab
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions, translate_groups
from drlib.model import Flow, TranslationKind

FLOW = Flow("LEFT", "RIGHT")
KNOWN, LOST = sorted(range(2), key=lambda number: lane_of("t", number, 2))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    left = Lab(tmp_path_factory.mktemp("left"), ("LEFT",))
    three = {"default.replication.factor": "3", "offsets.topic.replication.factor": "3"}
    right = Lab(tmp_path_factory.mktemp("right"), ("RIGHT",), brokers=3, extra=three)
    with left, right:
        source, target = left.clusters["LEFT"], right.clusters["RIGHT"]
        more = {"checkpoints.topic.replication.factor": "3", "drlib.lanes": "2"}
        file = one_way_file(left, right, "t", more)
        settings = load_mirror_settings(file)
        nodes = [broker.spec.node_id for broker in target.brokers]
        journal = settings.flow("LEFT", "RIGHT").policy.journal_topic("LEFT")
        lanes = NewTopic(journal, 2, replica_assignment=[[nodes[0]], [nodes[2]]], config={"cleanup.policy": "compact"})
        wanted = (
            (source.bootstrap, NewTopic("t", 2, 1)),
            (target.bootstrap, NewTopic("LEFT.t", 2, 3)),
            (target.bootstrap, lanes),
        )
        for bootstrap, topic in wanted:
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_topics([topic])[topic.topic].result(20)
        producer = Producer({"bootstrap.servers": source.bootstrap})
        for number in range(200):
            producer.produce("t", str(number), partition=number % 2)
        assert producer.flush(30) == 0
        with contextlib.closing(Consumer({"bootstrap.servers": source.bootstrap, "group.id": "g"})) as consumer:
            consumer.commit(offsets=[At("t", 0, 40), At("t", 1, 40)], asynchronous=False)
        left.start_module("mirror", "drlib.cli", "mirror", str(file))
        wait_for("checkpoints", lambda: len(checkpointed_positions(settings, FLOW)) == 2, 60)
        left.registry.kill("mirror")
        target.brokers[2].kill()

        def offline() -> bool:
            with contextlib.suppress(Unreachable), Cluster(settings.clusters["RIGHT"]) as cluster:
                return cluster.topics([journal])[journal].offline == {1}
            return False  # a controller is being elected

        wait_for("a lane of the journal has no leader", offline, 60)
        yield file


@pytest.mark.parametrize("source_alive", [True, False])
def test_translation_without_a_lane_of_the_journal_is_exact_for_the_other_lane(file: Path, source_alive: bool) -> None:
    found = translate_groups(load_mirror_settings(file), FLOW, source_alive=source_alive)
    by_partition = {each.source.partition: each for each in found}
    assert by_partition[KNOWN].translation.kind is TranslationKind.EXACT
    assert by_partition[LOST].translation.kind is TranslationKind.UNKNOWN
    assert "it has no leader on RIGHT" in by_partition[LOST].why


def test_position_kept_elsewhere_without_a_lane_of_the_journal_is_exact_for_the_other_lane(file: Path) -> None:
    found = translate_offsets(file, "LEFT", "RIGHT", [("t", KNOWN, 70), ("t", LOST, 70)])
    assert [each.translation.kind for each in found] == [TranslationKind.EXACT, TranslationKind.UNKNOWN]
    assert "it has no leader on RIGHT" in found[1].why


def test_status_without_a_lane_of_the_journal_knows_the_other_lane_and_names_it(file: Path, tmp_path: Path) -> None:
    state = observe_flow(Place(properties=str(file)).workplace(tmp_path), FLOW)
    assert {p.partition: p.known for p in state.view.partitions} == {KNOWN: True, LOST: False}
    assert "1 of 2 lanes, whose part of the journal has no leader" in state.survey.target_partly
    assert [e.detail for e in state.view.open_events if e.name == "TargetUnreachable"] == [state.survey.target_partly]


def test_planned_work_without_a_lane_of_the_journal_is_refused(file: Path) -> None:
    with pytest.raises(BrokerError, match="leader"):
        read_flow_maps(load_mirror_settings(file), FLOW)
