"""What applications have to change, with prefixed names and with names that stay."""

from __future__ import annotations

from dataclasses import replace

from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.actions.groups.share_groups.rules import ShareMove
from drlib.drill.assessment.moved_applications import GroupChange, ProducerChange, changes
from drlib.model import TopicPartition, TranslationKind


def move(
    group: str, topic: str, mirror: str, kind: TranslationKind = TranslationKind.EXACT, records: int = 0
) -> PositionMove:
    return PositionMove(group, TopicPartition(topic, 0), 5, TopicPartition(mirror, 0), 5, kind, records, 1)


def test_prefixed_names_are_subscribed_to_mirror_first_then_the_local_topic() -> None:
    moves = [
        move("billing", "orders", "paris.orders", TranslationKind.BEHIND, 3),
        move("billing", "carts", "paris.carts"),
        move("audit", "orders", "paris.orders"),
    ]
    groups, producers = changes(moves, "l:1,l:2")
    assert groups == (
        GroupChange("audit", "l:1,l:2", ("paris.orders", "orders"), 0, 0),
        GroupChange("billing", "l:1,l:2", ("paris.carts", "carts", "paris.orders", "orders"), 3, 0),
    )
    assert producers == (ProducerChange("carts", "l:1,l:2"), ProducerChange("orders", "l:1,l:2"))


def test_names_that_stay_are_subscribed_to_once() -> None:
    (group,), _ = changes([move("billing", "orders", "orders")], "l:1")
    assert group.subscribe == ("orders",)


def test_way_back_reads_the_mirror_of_what_was_written_meanwhile_then_the_local_topic() -> None:
    moves = [
        move("billing", "paris.orders", "orders"),  # on lyon a mirror of paris, at home its own topic
        move("billing", "orders", "lyon.orders"),
        move("audit", "paris.orders", "orders"),  # had no position in lyon's own topic
    ]
    groups, producers = changes(moves, "p:1", lambda topic: f"lyon.{topic}")
    assert groups == (
        GroupChange("audit", "p:1", ("lyon.orders", "orders"), 0, 0),
        GroupChange("billing", "p:1", ("lyon.orders", "orders"), 0, 0),
    )
    assert producers == (ProducerChange("orders", "p:1"),)


def test_commits_after_the_position_was_last_known_are_read_again() -> None:
    exact = replace(move("billing", "orders", "paris.orders"), re_reads=3)
    ((group,), _) = changes([exact, move("billing", "carts", "paris.carts", TranslationKind.BEHIND, 2)], "l:1")
    assert group.re_reads == 5


def test_share_groups_and_topics_that_no_group_reads_are_changed_too() -> None:
    jobs = TopicPartition("jobs", 0)
    share = ShareMove("workers", jobs, 5, 0, jobs, 5, (), TranslationKind.EXACT, 0, 1)
    groups, producers = changes([move("billing", "orders", "orders")], "l:1", shares=[share], written=["log"])
    assert groups[1] == GroupChange("workers", "l:1", ("jobs",), 0, 0)
    assert [each.topic for each in producers] == ["jobs", "log", "orders"]
