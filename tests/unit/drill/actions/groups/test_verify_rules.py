"""Which applications are served, from literal looks."""

from uuid import UUID

import pytest

from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.actions.groups.verify_rules import (
    SETTLED_S,
    GroupLook,
    Seen,
    done,
    judge,
    own_positions,
    served_check,
    settled,
    unwritable,
)
from drlib.kafka.admin.descriptions import GroupDescription, GroupMember
from drlib.kafka.net.cluster_client import PartitionMetadata, TopicMetadata
from drlib.model import TopicPartition, TranslationKind
from drlib.runs.check import Verdict

REMOTE, LOCAL = TopicPartition("west.orders", 0), TopicPartition("orders", 0)


def members(*partitions: TopicPartition, state: str = "STABLE") -> GroupDescription:
    return GroupDescription(state, (GroupMember("m", "/10.0.0.1", partitions),))


NONE = GroupDescription("EMPTY")
LATER = SETTLED_S + 1


@pytest.mark.parametrize(
    ("begin", "end", "now", "described", "settled_s", "seen"),
    [
        (10, 10, 10, members(REMOTE), LATER, Seen.IDLE),
        (10, 10, 10, NONE, 0, Seen.STOPPED),
        (10, 90, 10, NONE, 0, Seen.NO_MEMBERS),
        (10, 90, 10, GroupDescription("DEAD"), 0, Seen.NO_MEMBERS),
        (10, 90, 10, members(REMOTE), LATER, Seen.WAITING),
        (10, 90, 40, members(REMOTE), LATER, Seen.SERVED),
        (10, 90, 40, NONE, 0, Seen.SERVED),
        (10, 90, 90, members(REMOTE, state="PREPARING_REBALANCE"), 0, Seen.SERVED),
        (10, 90, 10, members(LOCAL), 0, Seen.WAITING),  # a rebalance may still assign it
        (10, 90, 10, members(LOCAL), LATER, Seen.MISSES),
        (10, 90, 10, members(LOCAL, state="COMPLETING_REBALANCE"), 0, Seen.WAITING),
        (10, 10, 10, members(LOCAL), LATER, Seen.IDLE),  # nothing unread is missed
    ],
)
def test_group_is_judged_by_position_members_and_unread_records(
    begin: int, end: int, now: int, described: GroupDescription, settled_s: float, seen: Seen
) -> None:
    verdict = judge({REMOTE: begin}, {REMOTE: end}, GroupLook({REMOTE: now}, described, settled_s))
    assert verdict.seen is seen, verdict
    assert verdict.detail


def test_group_that_had_members_before_it_was_moved_is_waited_for_though_it_has_nothing_to_read() -> None:
    """An application that is moved by hand is away for a while; one that had stopped before is not waited for."""
    verdict = judge({REMOTE: 10}, {REMOTE: 10}, GroupLook({REMOTE: 10}, NONE, had_members=True))
    assert (verdict.seen, verdict.unread) == (Seen.NO_MEMBERS, 0)
    assert (
        judge({REMOTE: 10}, {REMOTE: 10}, GroupLook({REMOTE: 10}, members(REMOTE), had_members=True)).seen is Seen.IDLE
    )


def test_group_that_was_moved_has_to_read_only_what_it_read_on_the_source() -> None:
    """A position that it once left on the target, in another topic with unread records, failed the move for ever."""
    move = PositionMove("billing", LOCAL, 7, REMOTE, 7, TranslationKind.EXACT, 0, 0)
    once = TopicPartition("refunds", 0)
    committed = {REMOTE: 7, TopicPartition("west.orders", 1): 3, LOCAL: 20, once: 1}
    assert own_positions([move], "billing", committed).keys() == committed.keys() - {once}
    assert own_positions([move], "another", committed) == committed  # of a wave, and not moved by the run


def test_group_that_reads_one_topic_and_is_not_assigned_another_misses_that() -> None:
    """After a failback an application that subscribed to `orders` alone left `west.orders` unread, and the run passed."""
    look = GroupLook({LOCAL: 50, REMOTE: 10}, members(LOCAL), LATER)
    verdict = judge({LOCAL: 20, REMOTE: 10}, {LOCAL: 50, REMOTE: 25}, look)
    assert (verdict.seen, verdict.missed, verdict.unread) == (Seen.MISSES, ("west.orders",), 15)
    assert verdict.seen.failed
    assert "west.orders (15 unread)" in verdict.detail


@pytest.mark.parametrize(
    ("described", "seen"),
    [(NONE, Seen.NO_MEMBERS), (GroupDescription("PREPARING_REBALANCE"), Seen.WAITING)],
)
def test_group_that_read_one_topic_and_is_described_without_members_may_still_miss_another(
    described: GroupDescription, seen: Seen
) -> None:
    """It commits before the description that has its members is there: what it subscribes to is not known then."""
    look = GroupLook({LOCAL: 50, REMOTE: 10}, described)
    verdict = judge({LOCAL: 20, REMOTE: 10}, {LOCAL: 50, REMOTE: 25}, look)
    assert (verdict.seen, verdict.read_on, verdict.unread) == (seen, 30, 15)
    assert "west.orders" in verdict.detail


def test_group_whose_answer_failed_is_unknown_and_fails() -> None:
    verdict = judge({REMOTE: 1}, {REMOTE: 9}, GroupLook({}, None, error="the coordinator does not answer"))
    assert (verdict.seen, verdict.seen.failed) == (Seen.UNKNOWN, True)


def test_settled_needs_the_same_members_and_assignments_in_two_stable_looks() -> None:
    assert settled(members(LOCAL), members(LOCAL))
    assert not settled(None, members(LOCAL))
    assert not settled(members(LOCAL), members(LOCAL, REMOTE))
    assert not settled(members(LOCAL, state="PREPARING_REBALANCE"), members(LOCAL))
    assert not settled(NONE, NONE)


@pytest.mark.parametrize(
    ("seen", "unwritten", "waited", "members_s", "over"),
    [
        ((Seen.SERVED, Seen.IDLE, Seen.STOPPED), (), 0.1, 30, True),
        ((Seen.SERVED, Seen.MISSES), (), 4, 30, True),
        ((Seen.WAITING,), (), 59, 30, False),
        ((Seen.WAITING,), (), 60, 30, True),
        ((Seen.SERVED,), ("orders",), 59, 30, False),
        ((Seen.SERVED,), ("orders",), 60, 30, True),
        ((Seen.NO_MEMBERS,), (), 0.1, 0, True),
        ((Seen.NO_MEMBERS,), (), 29, 30, False),
        ((Seen.NO_MEMBERS,), (), 30, 30, True),
        ((Seen.NO_MEMBERS,), (), 61, 600, False),
        ((Seen.WAITING, Seen.NO_MEMBERS), (), 61, 600, False),
        ((), (), 0, 30, True),
    ],
)
def test_watch_waits_only_for_what_can_still_be_seen(
    seen: tuple[Seen, ...], unwritten: tuple[str, ...], waited: float, members_s: float, over: bool
) -> None:
    assert done({str(n): each for n, each in enumerate(seen)}, unwritten, waited, members_s, 60) is over


def topic(*partitions: tuple[int, tuple[int, ...]]) -> TopicMetadata:
    found = {n: PartitionMetadata(n, leader, 0, (1, 2, 3), isr, 0) for n, (leader, isr) in enumerate(partitions)}
    return TopicMetadata("orders", UUID(int=1), 0, found, False)


def test_topic_no_producer_can_write_to_is_named_with_the_reason() -> None:
    topics = {"orders": topic((1, (1, 2)), (1, (1,))), "led": topic((-1, ())), "fine": topic((1, (1, 2)))}
    found = unwritable(["orders", "led", "fine", "absent"], topics, {"orders": 2, "fine": 2})
    assert found == {
        "orders": "partitions 1 have fewer than 2 replicas in sync (min.insync.replicas)",
        "led": "partitions 0 have no leader",
        "absent": "it does not exist",
    }


@pytest.mark.parametrize(
    ("failed", "unseen", "served", "watched", "verdict", "evidence"),
    [
        ({}, [], 2, 2, Verdict.PASS, "2 of 2 observed"),
        ({}, ["a: idle"], 1, 2, Verdict.CONDITIONS, "1 of 2 observed; not observed: a: idle"),
        ({}, ["a: idle"], 0, 1, Verdict.CONDITIONS, "not checked; not observed: a: idle"),
        ({}, [], 0, 0, Verdict.CONDITIONS, "not checked: no group was moved, and no topic is named"),
        ({"b": "waits"}, ["a: idle"], 0, 2, Verdict.FAIL, "b: waits"),
    ],
)
def test_served_check_over_nothing_is_no_pass(
    failed: dict[str, str], unseen: list[str], served: int, watched: int, verdict: Verdict, evidence: str
) -> None:
    check = served_check(failed, unseen, served, watched)
    assert check.verdict is verdict
    assert check.evidence.startswith(evidence)
