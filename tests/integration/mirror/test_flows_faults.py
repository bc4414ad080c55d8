"""Flows that share a process: one cluster is down, the process is killed, and names are kept both ways."""

from __future__ import annotations

import signal

import pytest
from fix_engine import produce, wait_for
from fix_flows import Replicator

from drlib.lab.lab import Lab
from drlib.mirror.status import worker_status as status


@pytest.mark.long
def test_flow_with_cluster_down_starts_when_it_comes_up(ours: Replicator, three: Lab) -> None:
    r = ours
    r.make("A")
    r.make("B")
    (broker,) = three.clusters["C"].brokers
    broker.kill()
    try:
        r.start(("AB", "CB", "AC"))
        r.wait_same(("A", r.topic()), ("B", r.remote("A")))
        wait_for(
            "it is reported", lambda: {f"{r.alias('C')}->{r.alias('B')}", f"{r.alias('A')}->{r.alias('C')}"} == down(r)
        )
    finally:
        broker.restart()
    r.wait_same(("A", r.topic()), ("C", r.remote("A")))
    r.make("C", "late")
    r.wait_same(("C", r.topic("late")), ("B", r.remote("C", "late")))
    wait_for("both flows are up", lambda: not down(r))
    r.stop()


def test_identity_policy_both_ways_for_disjoint_topics(ours: Replicator) -> None:
    r = ours
    r.make("A", "east")
    r.make("B", "west")
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    each = {f"{r.alias('A')}->{r.alias('B')}__topics": f"{r.topic('east')}"}
    each[f"{r.alias('B')}->{r.alias('A')}__topics"] = f"{r.topic('west')}"
    r.start(("AB", "BA"), replication__policy__class=identity, **each)
    r.wait_same(("A", r.topic("east")), ("B", r.topic("east")))
    r.wait_same(("B", r.topic("west")), ("A", r.topic("west")))
    produce(r.bootstraps["A"], r.topic("east"), 100, partitions=2, first=9_000_000)
    r.wait_same(("A", r.topic("east")), ("B", r.topic("east")))
    r.stop()
    assert r.names("A") == r.names("B") == {r.topic("east"), r.topic("west")}


def test_flows_sharing_a_process_continue_after_kill(ours: Replicator) -> None:
    r = ours
    r.make("A", records=3000)
    r.make("B", records=3000)
    r.start(("AB", "BA", "BC"))
    r.wait_same(("A", r.topic()), ("B", r.remote("A")))
    assert r.worker is not None
    produce(r.bootstraps["A"], r.topic(), 3000, partitions=2, first=500_000)
    r.worker.send_signal(signal.SIGKILL)
    r.worker.wait(10)
    r.start(("AB", "BA", "BC"))
    r.wait_same(("A", r.topic()), ("C", r.remote("BA")))
    r.wait_same(("B", r.topic()), ("A", r.remote("B")))
    r.stop()


def down(r: Replicator) -> set[str]:
    try:
        events = status.read(r.root / "status.json").events
    except Exception:  # not written yet
        return set()
    return {e.entity for e in events if e.name == "FlowUnreachable" and e.resolved_ms is None}
