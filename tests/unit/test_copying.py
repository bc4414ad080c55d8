"""A copy before any cluster is asked: names, what is left to do, and command lines that cannot be meant."""

import pytest
from test_cli import drlib, told

from drlib.cli.copy import cluster
from drlib.config.settings import ClusterSettings
from drlib.errors import UsageError
from drlib.mirror.copying import CopyRequest, settings_for
from drlib.model import TopicPartition
from drlib.rules.copying import to_go

A, B = ClusterSettings("west", ("127.0.0.1:1",)), ClusterSettings("east", ("127.0.0.1:2",))


def test_a_copy_is_known_by_the_cluster_ids_and_keeps_names():
    settings = settings_for(CopyRequest(A, B, ("orders.*",)), "idA", "idB")
    (flow,) = settings.enabled_flows
    assert str(flow.flow) == "idA->idB"
    assert settings.clusters["idA"].bootstrap_servers == A.bootstrap_servers
    assert flow.policy.remote_topic("idA", "orders") == "orders"
    assert flow.policy.journal_topic("idA") == "__drlib-journal.idA.internal"
    assert [t for t in ("orders", "orders.v1", "payments") if flow.mirrors_topic(t)] == ["orders", "orders.v1"]
    assert not flow.mirrors_group("any")


def test_a_prefix_changes_names_and_nothing_else():
    (flow,) = settings_for(CopyRequest(A, B, (".*",), prefix="old"), "idA", "idB").flows
    assert flow.policy.remote_topic("idA", "orders") == "old.orders"
    assert flow.policy.journal_topic("idA") == "__drlib-journal.idA.internal"


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "mm2-configs.A.internal", "heartbeats", "A.heartbeats", "A.checkpoints.internal"]
)
@pytest.mark.parametrize("prefix", [None, "old"])
def test_what_belongs_to_brokers_and_replicators_stays_behind(topic: str, prefix: str | None):
    (flow,) = settings_for(CopyRequest(A, B, (".*",), prefix=prefix), "idA", "idB").flows
    assert not flow.mirrors_topic(topic)


def test_what_is_left_counts_from_the_log_start():
    full, empty, begun = (TopicPartition("t", number) for number in range(3))
    starts, ends = {full: 10, empty: 50, begun: 0}, {full: 30, empty: 50, begun: 8}
    assert to_go(starts, ends, {}) == {full: 20, begun: 8}
    assert to_go(starts, ends, {full: 30, begun: 5}) == {begun: 3}
    assert to_go(starts, ends, {full: 31, begun: 9}) == {}


def test_addresses_and_aliases():
    assert cluster("h:1, g:2", "--from", None) == ClusterSettings("h:1, g:2", ("h:1", "g:2"))
    for text in ("west", "h:", ":1", "h:0", "h:1,g", ""):
        with pytest.raises(UsageError, match="--from"):
            cluster(text, "--from", None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from", "west", "--to", "127.0.0.1:1", "--topics", "a"], "--from west names no cluster"),
        (["--from", "127.0.0.1:1", "--to", "127.0.0.1:2", "--topics", " "], "--topics is empty"),
        (["--from", "127.0.0.1:1", "--to", "127.0.0.1:2", "--topics", "("], "never closed"),
        (["--from", "127.0.0.1:1", "--to", "127.0.0.1:2", "--topics", "a", "--prefix", "a b"], "--prefix 'a b'"),
    ],
)
def test_a_command_line_that_cannot_be_meant(arguments: list[str], words: str):
    assert words in told(drlib("copy", *arguments), 2)


def test_clusters_nobody_reaches_are_both_named():
    line = told(drlib("copy", "--from", "127.0.0.1:1", "--to", "127.0.0.1:2", "--topics", "a"), 11)
    assert "127.0.0.1:1 and 127.0.0.1:2 cannot be reached" in line
