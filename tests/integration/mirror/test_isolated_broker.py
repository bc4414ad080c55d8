"""A broker that is cut off from its controllers and continues to answer clients: it does not know that others lead by now."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import Engine, produce, wait_for
from repository_root import ROOT

from drlib.lab.lab import Lab
from drlib.lab.link.remote import LinkProxy
from drlib.lab.processes import ProcessRegistry

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture
def links(tmp_path: Path) -> Iterator[LinkProxy]:
    """Links before the controllers of two brokers, which can be cut."""
    registry, state = ProcessRegistry(tmp_path), tmp_path / "proxy.json"
    argv = [sys.executable, "-m", "drlib.lab.link.proxy", "--state", str(state), "one", "two"]
    registry.start("proxy", argv, log=tmp_path / "proxy.log", cwd=ROOT)
    proxy = LinkProxy(state)
    proxy.wait_ready()
    yield proxy
    registry.stop_all()


def test_leader_that_lost_its_controllers_is_left_for_the_one_that_was_elected(
    engine: Engine, links: LinkProxy, tmp_path: Path
) -> None:
    topic = engine.topics
    with Lab(tmp_path / "source", ("SOURCE",), brokers=3) as lab:
        first, second, _ = brokers = lab.clusters["SOURCE"].brokers
        voters = {b.spec.node_id: b.spec.controller_port for b in brokers}
        mine = first.spec.node_id
        reached = dict(voters)
        for node, (link, port) in zip(voters.keys() - {mine}, links.ports.items(), strict=True):
            links.target(link, voters[node])
            reached[node] = port
        first.stop()
        first.prepare({"controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{p}" for n, p in reached.items())})
        first.launch()
        first.wait_ready(60)
        engine.left = ",".join(broker.bootstrap for broker in brokers)  # the first one is asked who leads
        admin = AdminClient({"bootstrap.servers": second.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(topic, num_partitions=1, replica_assignment=[[*voters]])])[topic].result(30)
        produce(engine.left, topic, 100, partitions=1)
        worker = engine.start()
        engine.wait_caught_up(topic, 1)
        for link in links.ports:
            links.set(link, cut=True)

        def moved() -> bool:
            found = AdminClient({"bootstrap.servers": second.bootstrap, "log_level": 0}).list_topics(topic, timeout=5)
            return found.topics[topic].partitions[0].leader not in (mine, -1)

        wait_for("another broker leads", moved)
        produce(second.bootstrap, topic, 100, partitions=1, first=100)
        engine.left = second.bootstrap
        engine.wait_caught_up(topic, 1, deadline_s=90)
        assert engine.stop(worker) == 0, engine.log()
        engine.assert_same(topic, 1)
