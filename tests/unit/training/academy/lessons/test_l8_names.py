"""Where an application continues in a log of another order, and what it reads again: by lists of orders."""

from __future__ import annotations

from drlib.training.academy.lessons import l8_names as l8

READ = {1000, 1001, 0, 1, 2}  # of a log 1000, 1001, 0, 1, 2, 1002
LOG = [1000, 1001, 1002, 0, 1, 2, 1003, 3]  # of the other cluster


def test_application_continues_at_the_first_order_that_it_has_not_read() -> None:
    assert l8._first_unread(LOG, READ) == 1002
    assert l8._read_and_behind(LOG, READ) == [0, 1, 2]
    assert l8._first_unread(LOG[:2], READ) == -1
    assert l8._read_and_behind(LOG[:2], READ) == []
    assert l8._read_and_behind([3, *LOG], READ) == [1000, 1001, 0, 1, 2]


def test_nothing_is_read_again_where_the_orders_of_each_cluster_are_in_a_topic_of_their_own() -> None:
    assert l8._read_again_by_origin(LOG, READ) == 0
    assert l8._read_again_by_origin([1, 0], {1}) == 0
    assert l8._read_again_by_origin([0, 1], {1}) == 1  # a log that is not in the order that was read


def test_orders_that_come_again_count_each_time() -> None:
    assert l8._repeated([1002, 0, 1, 2, 1003], READ) == [0, 1, 2]
    assert l8._repeated([3, 3, 3], READ) == [3, 3]


def test_log_is_drawn_in_stretches_of_consecutive_orders_that_are_read_again_or_not() -> None:
    assert l8._stretches(LOG, ()) == [[1000, 1001, 1002], [0, 1, 2], [1003], [3]]
    assert l8._stretches([0, 1, 2, 3], {0, 1}) == [[0, 1], [2, 3]]
    assert l8._stretches([], ()) == []


def test_text_that_is_no_order_is_none() -> None:
    assert [l8._order(text) for text in ("order 7", "order", "7", "order -1", "orders 7", "")] == [
        7,
        -1,
        -1,
        -1,
        -1,
        -1,
    ]


def test_each_difference_between_prediction_and_answer_has_its_own_explanation() -> None:
    said = {l8._difference(predicted, 200) for predicted in (200, 0, 70, 260)}
    assert len(said) == 4
    assert "prefixed names" in l8._difference(0, 200)
    assert "prefixed names" not in l8._difference(0, 0)
