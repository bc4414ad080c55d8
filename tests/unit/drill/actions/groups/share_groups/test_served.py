"""When a moved share group counts as served."""

from __future__ import annotations

import pytest

from drlib.drill.actions.groups.share_groups.served import judge, must_wait, unread_records
from drlib.drill.actions.groups.verify_rules import Seen
from drlib.kafka.share_groups.messages import DescribedGroup, Refusal, ShareOffset
from drlib.model import TopicPartition


@pytest.mark.parametrize(
    ("read_on", "has_members", "unread", "seen"),
    [
        (3, True, 5, Seen.SERVED),
        (3, False, 0, Seen.SERVED),
        (0, True, 0, Seen.IDLE),
        (0, False, 0, Seen.IDLE),
        (0, False, 5, Seen.NO_MEMBERS),
        (0, True, 5, Seen.WAITING),
        (0, True, None, Seen.WAITING),
    ],
)
def test_served_is_what_acknowledged_something(read_on: int, has_members: bool, unread: int | None, seen: Seen) -> None:
    assert judge(read_on, has_members, unread).seen is seen


@pytest.mark.parametrize("seen", Seen)
def test_group_without_records_to_read_is_waited_for_where_it_is_expected_to_read_on(seen: Seen) -> None:
    may_follow = {Seen.WAITING, Seen.NO_MEMBERS, Seen.UNKNOWN}
    assert must_wait(seen, expected=False) is (seen in may_follow)
    assert must_wait(seen, expected=True) is (seen in {*may_follow, Seen.IDLE})


def test_unread_records_are_not_known_where_a_partition_has_no_leader() -> None:
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    found = DescribedGroup(Refusal(0, None), {}, {first: ShareOffset(3, 0)}, {second: Refusal(5, None)})
    assert unread_records(found, [first]) == 0
    assert unread_records(found, [first, second]) is None
