"""What the target says of the applications of a source that is gone."""

from __future__ import annotations

from drlib.drill.inventory.rules import Kind, Way
from drlib.drill.readiness.observe.applications.known_applications import group_rows, seen, transactional_rows
from drlib.kafka.share_groups.names import PROTOCOL
from drlib.mirror.journal.transactions import TransactionCommitted
from drlib.model import Flow, TopicPartition

FLOW = Flow("paris", "lyon")


def test_groups_have_their_topics_and_their_last_checkpoint() -> None:
    positions = [
        ("billing", TopicPartition("orders", 0), 100),
        ("billing", TopicPartition("orders", 1), 300),
        ("billing", TopicPartition("payments", 0), 200),
    ]
    (row,) = group_rows(FLOW, seen(positions), "consumer", ["orders", "payments"], [])
    assert (row.kind, row.topics, row.last_ms, row.as_of_ms) == (Kind.GROUP, ("orders", "payments"), 300, 300)
    assert (row.members, row.cluster, row.known_by) == (None, "paris", "checkpoints on lyon")
    assert "clients and hosts are not known" in row.unknown


def test_share_groups_and_streams_applications_are_of_their_own_kinds() -> None:
    topics = ["app-total-changelog", "orders"]
    found = seen([("app", TopicPartition("orders", 0), 1)])
    (streams,) = group_rows(FLOW, found, "consumer", topics, topics)
    assert (streams.kind, streams.way) == (Kind.STREAMS, Way.ADDRESS)
    (prefixed,) = group_rows(FLOW, found, "consumer", topics, [])
    assert prefixed.way is Way.BY_HAND
    (share,) = group_rows(FLOW, found, PROTOCOL, topics, [])
    assert share.kind is Kind.SHARE


def test_transactional_producers_are_known_by_the_journal_and_lanes_are_no_application() -> None:
    def committed(name: str, at_ms: int, topic: str) -> TransactionCommitted:
        return TransactionCommitted((0, 1), name, 4, 2, 2, at_ms, ((topic, (0,)), ("__consumer_offsets", (7,))))

    (row,) = transactional_rows(
        FLOW,
        [
            committed("bank-1", 700, "orders"),
            committed("drlib.lane", 1, "orders"),
            committed("bank-1", 600, "payments"),
        ],
    )
    assert (row.kind, row.name, row.last_ms, row.topics) == (Kind.TRANSACTIONAL, "bank-1", 700, ("orders", "payments"))
    assert row.known_by == "the mirror's journal on lyon"
