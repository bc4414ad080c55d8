"""The steady state of a cluster that goes on listing a broker that does not answer any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import wait_for

from drlib.drill.actions.probes import ClusterServes
from drlib.drill.step.context import DrillContext
from drlib.errors import Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import who_answers
from drlib.kafka.admin.descriptions import GroupState
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.lab.lab import Lab
from drlib.model import Flow
from drlib.runs.abort import Abort


@pytest.mark.long
@pytest.mark.timeout(180)
def test_cluster_with_a_leader_that_does_not_answer_does_not_serve(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", ("east",), brokers=3) as lab:
        cluster = lab.clusters["east"]
        settings = cluster.settings()
        nodes = [broker.spec.node_id for broker in cluster.brokers]
        placed = NewTopic("orders", num_partitions=3, replica_assignment=[[node] for node in nodes])
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([placed])["orders"].result(20)
        place = DrillContext(clusters={"east": settings}, flow=Flow("west", "east"), run_dir=tmp_path)
        serves = ClusterServes().bind(place)

        def listed() -> list[int]:
            answer = who_answers([settings])["east"]
            assert isinstance(answer, ClusterMetadata)
            return (
                [each.leader for each in answer.topics["orders"].partitions.values()]
                if "orders" in answer.topics
                else []
            )

        wait_for("every partition has its leader", lambda: sorted(listed()) == sorted(nodes))
        answer = serves(Abort(tmp_path))
        assert (answer.holds, answer.evidence) == (True, f"east: 3 brokers, {answer.evidence.split(', ')[1]}")
        frozen = cluster.brokers[2]
        frozen.pause()  # it accepts connections, and its controller takes 9 s to notice
        answer = serves(Abort(tmp_path))
        states: list[set[object] | Unreachable] = []
        for surely in (False, True):
            with Cluster(settings, timeout_s=5) as admin_of:
                try:
                    states.append(set(admin_of.group_states([str(n) for n in range(9)], surely=surely).values()))
                except Unreachable as error:
                    states.append(error)
        frozen.resume()
        # of a group that a broker which answers coordinates nothing is known, as Kafka Streams (KIP-1071) may have it there
        assert isinstance(states[0], set)
        assert GroupState.ABSENT in states[0]
        assert isinstance(states[1], Unreachable)
        assert answer.holds is False
        assert f"no answer of 127.0.0.1:{frozen.spec.client_port}: no answer" in answer.evidence
        assert f"without a leader that answers: orders-{nodes.index(frozen.spec.node_id)}" in answer.evidence
