"""What a pointer does to connections, which server is tried first, and which connection ends for a new one."""

from __future__ import annotations

import itertools

import pytest

from drlib.client.bootstrap.rules import (
    CHANGES,
    TRANSITIONS,
    Act,
    Age,
    Change,
    Happened,
    Known,
    Names,
    State,
    change,
    ended_for_new,
    leading_here,
    servers_in_turn,
)
from drlib.client.pointer import Pointer

CLUSTERS = ("paris", "lyon")


@pytest.mark.parametrize(
    ("known", "pointer", "expected"),
    [
        (None, None, Change.NONE),
        (None, Pointer(1, "paris", "p:1"), Change.FIRST),
        (None, Pointer(1, "rome", "r:1"), Change.UNKNOWN_CLUSTER),
        (Known(3, "paris"), None, Change.NONE),
        (Known(3, "paris"), Pointer(2, "lyon", "l:1"), Change.NONE),
        (Known(3, "paris"), Pointer(3, "paris", "p:1", hold=True), Change.NONE),
        (Known(3, "paris"), Pointer(3, "lyon", "l:1"), Change.CONFLICT),
        (Known(3, "paris"), Pointer(4, "paris", "p:1", hold=True), Change.KEEP),
        (Known(3, "paris"), Pointer(4, "lyon", "l:1"), Change.MOVE),
        (Known(3, "paris"), Pointer(4, "rome", "r:1"), Change.UNKNOWN_CLUSTER),
    ],
)
def test_change_of_a_pointer_moves_for_a_newer_one_of_another_known_cluster_only(
    known: Known | None, pointer: Pointer | None, expected: Change
) -> None:
    assert change(known, pointer, CLUSTERS) is expected


def test_changes_table_has_every_pair_that_can_be() -> None:
    possible = set(itertools.product(Age, Names)) - {(Age.FIRST, Names.SAME)}
    assert set(CHANGES) == possible


def test_servers_in_turn_each_connection_begins_with_the_next_one() -> None:
    orders = [servers_in_turn(("a:1", "b:1", "c:1"), turn, {}, 0.0) for turn in range(4)]
    assert [order[0] for order in orders] == ["a:1", "b:1", "c:1", "a:1"]
    assert all(sorted(order) == ["a:1", "b:1", "c:1"] for order in orders)


def test_servers_in_turn_the_failed_one_is_last_until_its_time_is_over() -> None:
    failed = {"a:1": 10.0}
    assert servers_in_turn(("a:1", "b:1"), 0, failed, 14.9) == ("b:1", "a:1")
    assert servers_in_turn(("a:1", "b:1"), 0, failed, 15.0) == ("a:1", "b:1")
    assert servers_in_turn(("a:1",), 0, failed, 11.0) == ("a:1",), "the only one is tried in any case"


@pytest.mark.parametrize(
    ("silent", "limit", "expected"),
    [
        ((), 1, -1),
        ((0.0, 0.0), 3, -1),
        ((6.0, 60.0, 7.0), 3, 1),
        ((0.1, 5.0), 2, 1),
        ((0.1, 4.9), 2, None),
    ],
)
def test_ended_for_new_is_the_longest_silent_one_and_none_in_use(
    silent: tuple[float, ...], limit: int, expected: int | None
) -> None:
    assert ended_for_new(silent, limit) == expected


def test_leading_here_names_what_resolves_to_a_listening_address() -> None:
    addresses = {"a:9092": {("10.0.0.1", 9092)}, "b:9092": {("10.0.0.2", 9092)}, "c:1": {("10.0.0.1", 1)}, "d:1": set()}
    assert leading_here(addresses, {("10.0.0.1", 9092)}) == ("a:9092",)


def test_transitions_every_open_state_ends_by_loss_and_by_giving_up() -> None:
    for state in set(State) - {State.CLOSED}:
        assert TRANSITIONS[state, Happened.LOST][0] is State.CLOSED
        assert TRANSITIONS[state, Happened.GIVEN_UP] == (State.CLOSED, Act.ABORT)


def test_transitions_one_half_ends_before_the_other_and_in_either_order() -> None:
    for first, second, act in (
        (Happened.CLIENT_END, Happened.SERVER_END, Act.END_SERVER),
        (Happened.SERVER_END, Happened.CLIENT_END, Act.END_CLIENT),
    ):
        half, passed_on = TRANSITIONS[State.OPEN, first]
        assert (passed_on, half) != (Act.CLOSE, State.CLOSED)
        assert passed_on is act
        assert TRANSITIONS[half, second] == (State.CLOSED, Act.CLOSE)
