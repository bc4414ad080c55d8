"""Topic names across clusters, against the rules of Kafka's two replication policies."""

import pytest

from drlib.config.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy, should_mirror
from drlib.errors import UsageError
from drlib.model import Flow

DEFAULT = DefaultReplicationPolicy()
UNDERSCORE = DefaultReplicationPolicy(separator="_")
TWO = DefaultReplicationPolicy(separator="__")
TWO_DOTTED = DefaultReplicationPolicy(separator="__", internal_separator_enabled=False)
IDENTITY = IdentityReplicationPolicy(source_alias="A")
FLOW = Flow("A", "B")


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("orders", None, None, "orders"),
        ("A.orders", "A", "orders", "orders"),
        ("B.A.orders", "B", "A.orders", "orders"),
        ("orders.v1", "orders", "v1", "v1"),
        # Java's String.split drops empty strings at the end and keeps them in front.
        ("A.", None, None, "A."),
        ("A..", None, None, "A.."),
        ("A..x", "A", ".x", "x"),
        (".x", "", "x", "x"),
    ],
)
def test_default_policy_matches_java(topic: str, source: str | None, upstream: str | None, original: str) -> None:
    assert DEFAULT.source_of(topic) == source
    assert DEFAULT.upstream_topic(topic) == upstream
    assert DEFAULT.original_topic(topic) == original


def test_remote_topic_uses_the_separator() -> None:
    assert DEFAULT.remote_topic("A", "orders") == "A.orders"
    assert TWO.remote_topic("A", "orders") == "A__orders"
    assert TWO.source_of("A__orders.v1") == "A"
    assert TWO.source_of("A_orders") is None


@pytest.mark.parametrize(
    ("policy", "checkpoints", "syncs", "journal"),
    [
        (DEFAULT, "A.checkpoints.internal", "mm2-offset-syncs.B.internal", "__drlib-journal.A.internal"),
        (UNDERSCORE, "A_checkpoints_internal", "mm2-offset-syncs_B_internal", "__drlib-journal_A_internal"),
        (TWO, "A__checkpoints__internal", "mm2-offset-syncs__B__internal", "__drlib-journal__A__internal"),
        (TWO_DOTTED, "A.checkpoints.internal", "mm2-offset-syncs.B.internal", "__drlib-journal.A.internal"),
        (IDENTITY, "A.checkpoints.internal", "mm2-offset-syncs.B.internal", "__drlib-journal.A.internal"),
    ],
)
def test_internal_names_follow_the_separator_unless_switched_off(
    policy: DefaultReplicationPolicy, checkpoints: str, syncs: str, journal: str
) -> None:
    assert policy.heartbeats_topic == "heartbeats"
    assert policy.checkpoints_topic("A") == checkpoints
    assert policy.offset_syncs_topic("B") == syncs
    assert policy.journal_topic("A") == journal
    assert policy.is_checkpoints(checkpoints)
    assert all(policy.is_internal(topic) for topic in (checkpoints, syncs, journal))


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("__consumer_offsets", True),
        (".hidden", True),
        ("mm2-offsets.CLUSTER.internal", True),
        ("A.checkpoints.internal", True),
        ("mm2-offsets-CLUSTER-internal", False),
        ("mm2-offsets_CLUSTER_internal", False),
        ("audit.internal", False),
        ("audit-internal", False),
        ("internal", False),
    ],
)
def test_is_internal_topics_of_brokers_and_replicators(topic: str, internal: bool) -> None:
    assert DEFAULT.is_internal(topic) is internal


def test_is_internal_follows_the_separator() -> None:
    assert UNDERSCORE.is_internal("mm2-offsets_CLUSTER_internal")
    assert not UNDERSCORE.is_internal("mm2-offsets.CLUSTER.internal")
    assert not TWO_DOTTED.is_internal("mm2-offsets__CLUSTER__internal")


def test_is_cycle_any_number_of_hops_away() -> None:
    assert DEFAULT.is_cycle("B.orders", "B")
    assert DEFAULT.is_cycle("C.B.orders", "B")
    assert not DEFAULT.is_cycle("C.orders", "B")
    assert not DEFAULT.is_cycle("orders", "B")


def test_is_cycle_name_with_the_flows_own_source() -> None:
    assert DEFAULT.is_cycle("A.orders", "B", "A")
    assert not DEFAULT.is_cycle("A.orders", "B")


def test_alias_that_contains_the_separator_is_one_alias() -> None:
    dotted = DefaultReplicationPolicy(aliases=("fra.a", "fra.a.b"))
    for alias in ("fra.a", "fra.a.b", "rome"):
        for topic in ("orders", "orders.v1"):
            remote = dotted.remote_topic(alias, topic)
            assert (dotted.source_of(remote), dotted.upstream_topic(remote)) == (alias, topic)
    assert dotted.original_topic("rome.fra.a.orders") == "orders"
    assert dotted.is_cycle("rome.fra.a.orders", "fra.a")
    assert not dotted.is_cycle("fra.orders", "fra.a")
    assert (dotted.source_of("fra.a"), dotted.source_of("fra.a..")) == ("fra", "fra")  # no topic is left
    assert IdentityReplicationPolicy(source_alias="fra.a", aliases=("fra.a",)).source_of("fra.a.heartbeats") == "fra.a"


def test_identity_policy_keeps_names_except_heartbeats() -> None:
    assert IDENTITY.remote_topic("A", "orders") == "orders"
    assert IDENTITY.source_of("orders") == "A"
    assert IDENTITY.upstream_topic("B.orders") == "B.orders"
    assert IDENTITY.original_topic("B.orders") == "B.orders"
    assert IDENTITY.remote_topic("A", "heartbeats") == "A.heartbeats"
    assert IDENTITY.source_of("heartbeats") is None
    assert IDENTITY.source_of("A.heartbeats") == "A"
    assert IDENTITY.is_heartbeats("B.A.heartbeats")


def test_identity_policy_detects_cycles_of_heartbeats_only() -> None:
    assert IDENTITY.is_cycle("B.heartbeats", "B")
    assert not IDENTITY.is_cycle("B.orders", "B")


def test_should_mirror_selected_or_heartbeats_and_not_internal_or_cycle() -> None:
    def mirrors(topic: str, chosen: bool, heartbeats: bool = True) -> bool:
        return should_mirror(DEFAULT, FLOW, topic, lambda _: chosen, heartbeats_replication=heartbeats)

    assert mirrors("orders", True)
    assert not mirrors("orders", False)
    assert mirrors("heartbeats", False)
    assert mirrors("C.heartbeats", False)
    assert not mirrors("heartbeats", False, heartbeats=False)
    assert not mirrors("B.heartbeats", True)
    assert not mirrors("B.orders", True)
    assert not mirrors("__consumer_offsets", True)
    assert not mirrors("__drlib-journal.C.internal", True)


def test_downstream_topic_from_the_target_gets_the_name_that_it_has_there() -> None:
    assert DEFAULT.downstream_topic(FLOW, "B.orders") == "orders"
    assert DEFAULT.downstream_topic(FLOW, "B.orders.v1") == "orders.v1"
    assert DEFAULT.downstream_topic(FLOW, "B.C.orders") == "C.orders"
    assert UNDERSCORE.downstream_topic(FLOW, "B_page_views") == "page_views"
    assert DEFAULT.downstream_topic(FLOW, "orders") == "A.orders"
    assert IDENTITY.downstream_topic(FLOW, "orders") == "orders"


def test_empty_separator_is_refused() -> None:
    with pytest.raises(UsageError, match="separator is empty"):
        DefaultReplicationPolicy(separator="")
