"""What kind of application a group or producer is, how it moves, and in which order rows are."""

from __future__ import annotations

import pytest

from drlib.drill.inventory.rules import (
    WAYS,
    Application,
    Kind,
    SeenGroup,
    Way,
    connect_topics,
    in_order,
    kind_of,
    may_be_streams,
    of_group,
    of_producers,
    streams_topics,
)
from drlib.kafka.net.requests import ProducerState

TOPICS = (
    "orders",
    "app-KSTREAM-STORE-1-changelog",
    "app-by-key-repartition",
    "application-changelog",
    "connect-configs",
)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (SeenGroup("billing", "consumer", "STABLE", assignor="range"), Kind.GROUP),
        (SeenGroup("billing", "", "EMPTY"), Kind.GROUP),
        (SeenGroup("billing", "consumer", "STABLE", new_protocol=True, assignor="uniform"), Kind.NEW_GROUP),
        (SeenGroup("jobs", "share", "STABLE"), Kind.SHARE),
        (SeenGroup("sums", "consumer", "STABLE", assignor="stream"), Kind.STREAMS),
        (SeenGroup("app", "consumer", "EMPTY"), Kind.STREAMS),
        (SeenGroup("sums", "streams", "STABLE"), Kind.STREAMS),
        (SeenGroup("connect-cluster", "connect", "STABLE"), Kind.CONNECT),
        (SeenGroup("connect-files", "consumer", "STABLE", assignor="range"), Kind.SINK),
        (SeenGroup("lock", "leases", "STABLE"), Kind.OTHER),
    ],
)
def test_kind_of_a_group_is_what_its_broker_reports(group: SeenGroup, expected: Kind) -> None:
    assert kind_of(group, TOPICS) is expected


def test_ways_has_every_kind() -> None:
    assert set(WAYS) == set(Kind)


def test_internal_topics_are_those_of_their_application_alone() -> None:
    assert streams_topics("app", TOPICS) == ("app-KSTREAM-STORE-1-changelog", "app-by-key-repartition")
    assert streams_topics("orders", TOPICS) == ()
    names = (
        "connect-configs",
        "paris-connect-offsets",
        "connect-status",
        "connected",
        "disconnect-status",
        "reconnect",
    )
    assert connect_topics(names) == ("connect-configs", "connect-status", "paris-connect-offsets")


def test_internal_topics_of_a_longer_name_are_not_those_of_a_group_whose_name_begins_alike() -> None:
    topics = ("orders-totals-by-day-changelog", "orders-totals-changelog")
    names = ("orders", "orders-totals")
    assert streams_topics("orders", topics, names) == ("orders-totals-changelog",)
    assert streams_topics("orders-totals", topics, names) == ("orders-totals-by-day-changelog",)
    plain = SeenGroup("orders", "consumer", "STABLE", assignor="range")
    assert kind_of(plain, topics) is Kind.GROUP, "its members say what they are"
    stopped = SeenGroup("orders", "consumer", "EMPTY")
    assert kind_of(stopped, topics[:1], names) is Kind.GROUP
    assert kind_of(stopped, topics[:1]) is Kind.STREAMS
    assert [may_be_streams(each) for each in (plain, stopped)] == [False, True]


def test_group_that_the_flow_does_not_select_moves_by_hand() -> None:
    group = SeenGroup("billing", "consumer", "PREPARING_REBALANCE", members=2, topics=("orders",))
    selected = of_group("paris", group, TOPICS, selected=True)
    assert (selected.way, selected.state) == (Way.EITHER, "preparing rebalance")
    left = of_group("paris", group, TOPICS, selected=False)
    assert left.way is Way.BY_HAND
    assert "do not select it" in left.how
    streams = of_group("paris", SeenGroup("app", "consumer", "EMPTY", topics=("orders",)), TOPICS, selected=False)
    assert streams.way is Way.BY_HAND
    assert streams.topics == ("app-KSTREAM-STORE-1-changelog", "app-by-key-repartition", "orders")


def test_streams_application_continues_at_an_address_where_all_its_topics_keep_their_names() -> None:
    group = SeenGroup("app", "streams", "STABLE", members=1, topics=("orders",), last_ms=77)
    moved = of_group("paris", group, TOPICS, selected=True, kept_names=TOPICS)
    assert (moved.way, moved.last_ms) == (Way.ADDRESS, 77)
    assert "same names" in moved.how
    for kept in ((), ("orders",), TOPICS[1:]):  # none, without its state, without its input
        stays = of_group("paris", group, TOPICS, selected=True, kept_names=kept)
        assert stays.way is Way.BY_HAND
        assert "empty state" in stays.how


def state(producer_id: int, last: int, *, txn_start: int = -1, coordinator: int = -1) -> ProducerState:
    return ProducerState(producer_id, 0, 5, last, txn_start, coordinator)


def test_producers_are_one_row_for_each_id_with_the_newest_record() -> None:
    states = [
        ("orders", state(7, 100)),
        ("orders", state(7, 300)),
        ("payments", state(7, 200)),
        ("orders", state(8, -1, coordinator=0)),
        ("orders", state(9, 50, txn_start=4)),
        ("payments", state(9, 40)),  # its transaction has written nothing there
    ]
    rows = {row.name: row for row in of_producers("paris", states, {9: "bank-1", 11: "elsewhere"})}
    assert set(rows) == {"producer ID 7", "producer ID 8", "bank-1"}
    first = rows["producer ID 7"]
    assert (first.kind, first.topics, first.last_ms) == (Kind.IDEMPOTENT, ("orders", "payments"), 300)
    assert (rows["producer ID 8"].kind, rows["producer ID 8"].last_ms) == (Kind.TRANSACTIONAL, None)
    assert rows["bank-1"].state == "transaction open"


def row(cluster: str, kind: Kind, name: str) -> Application:
    return Application(cluster, kind, name, "", None, (), (), (), None, Way.BY_HAND, "")


def test_in_order_is_by_cluster_kind_and_name_with_numbers_by_value() -> None:
    expected = (
        row("lyon", Kind.IDEMPOTENT, "producer ID 1"),
        row("paris", Kind.GROUP, "a"),
        row("paris", Kind.GROUP, "b"),
        row("paris", Kind.STREAMS, "a"),
        row("paris", Kind.IDEMPOTENT, "producer ID 9"),
        row("paris", Kind.IDEMPOTENT, "producer ID 10"),
    )
    assert in_order(expected[::-1]) == expected
