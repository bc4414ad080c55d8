"""Where a reader continues in a log of another order, and what it reads again: by lists of numbers."""

from __future__ import annotations

from drlib.training.academy import two_logs

READ = {1000, 1001, 0, 1, 2}  # of a log 1000, 1001, 0, 1, 2, 1002
LOG = [1000, 1001, 1002, 0, 1, 2, 1003, 3]  # of the other cluster


def origin(number: int) -> str:
    return "RIGHT" if number >= 1000 else "LEFT"


def test_application_continues_at_the_first_order_that_it_has_not_read() -> None:
    assert two_logs.first_unread(LOG, READ) == 1002
    assert two_logs.read_and_behind(LOG, READ) == [0, 1, 2]
    assert two_logs.first_unread(LOG[:2], READ) == -1
    assert two_logs.read_and_behind(LOG[:2], READ) == []
    assert two_logs.read_and_behind([3, *LOG], READ) == [1000, 1001, 0, 1, 2]


def test_nothing_is_read_again_where_the_orders_of_each_cluster_are_in_a_topic_of_their_own() -> None:
    assert two_logs.read_again_apart(LOG, READ, origin) == 0
    assert two_logs.read_again_apart([1, 0], {1}, origin) == 0
    assert two_logs.read_again_apart([0, 1], {1}, origin) == 1  # a log that is not in the order that was read


def test_orders_that_come_again_count_each_time() -> None:
    assert two_logs.repeated([1002, 0, 1, 2, 1003], READ) == [0, 1, 2]
    assert two_logs.repeated([3, 3, 3], READ) == [3, 3]


def test_log_is_drawn_in_stretches_of_consecutive_orders_that_are_read_again_or_not() -> None:
    assert two_logs.stretches(LOG, ()) == [[1000, 1001, 1002], [0, 1, 2], [1003], [3]]
    assert two_logs.stretches([0, 1, 2, 3], {0, 1}) == [[0, 1], [2, 3]]
    assert two_logs.stretches([], ()) == []
