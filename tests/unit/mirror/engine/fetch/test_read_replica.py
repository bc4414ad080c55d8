"""Which replica is read after which answer: the leader's word, followers that failed, followers that fall behind."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.kafka.protocol.error_codes import (
    FENCED_LEADER_EPOCH,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_ID,
)
from drlib.kafka.protocol.fetch import DivergingEpoch, FetchedPartition
from drlib.mirror.engine.fetch.read_replica import ASK_S, AVOID_S, BEHIND_S, LEASE_S, ReplicaChoice, leader_decides

LEADER, FOLLOWER, OTHER = 1, 2, 3
READY = {FOLLOWER: None, OTHER: None}
ANSWER = FetchedPartition(UUID(int=1), 0, NONE, 10, 10, 0, (), None, -1, -1, memoryview(b""))


def naming(node: int) -> FetchedPartition:
    return replace(ANSWER, preferred_read_replica=node)


@pytest.fixture
def followed() -> ReplicaChoice:
    """A choice that moved to FOLLOWER at time 0."""
    choice = ReplicaChoice(LEADER, LEADER)
    choice.answered(naming(FOLLOWER), 0.0, ready=READY)
    assert choice.node == FOLLOWER
    return choice


@given(st.integers(-1, 130), st.booleans())
def test_follower_answer_counts_only_without_error_and_divergence(code: int, diverges: bool) -> None:
    answer = replace(ANSWER, error_code=code, diverging_epoch=DivergingEpoch(3, 5) if diverges else None)
    assert leader_decides(answer) == (code != 0 or diverges)


def test_choice_follows_the_leader_that_names_a_ready_follower_and_asks_it_again_soon() -> None:
    choice = ReplicaChoice(LEADER, LEADER)
    assert choice.answered(naming(FOLLOWER), 5.0, ready=READY) == FOLLOWER
    assert (choice.node, choice.at_follower, choice.ask_at) == (FOLLOWER, True, 5.0 + ASK_S)


def test_choice_waits_for_a_follower_that_is_not_ready(followed: ReplicaChoice) -> None:
    choice = ReplicaChoice(LEADER, LEADER)
    assert choice.answered(naming(FOLLOWER), 5.0, ready={}) == FOLLOWER
    assert (choice.node, choice.ask_at) == (LEADER, 5.0 + ASK_S)
    assert followed.answered(naming(OTHER), 6.0, ready={FOLLOWER: None}) == OTHER
    assert followed.node == FOLLOWER


@pytest.mark.parametrize("named", [-1, LEADER])
def test_choice_returns_to_the_leader_that_names_no_other_and_keeps_it_for_the_lease(
    followed: ReplicaChoice, named: int
) -> None:
    assert followed.answered(naming(named), 7.0, ready=READY) == LEADER
    assert (followed.node, followed.ask_at, followed.avoided) == (LEADER, 7.0 + LEASE_S, {})


@pytest.mark.parametrize(
    "answer",
    [
        *(
            replace(naming(FOLLOWER), error_code=code)
            for code in (
                OFFSET_OUT_OF_RANGE,
                OFFSET_NOT_AVAILABLE,
                NOT_LEADER_OR_FOLLOWER,
                FENCED_LEADER_EPOCH,
                UNKNOWN_TOPIC_ID,
            )
        ),
        replace(naming(FOLLOWER), diverging_epoch=DivergingEpoch(1, 2)),
    ],
)
def test_choice_returns_to_a_leader_that_refuses_the_position(
    followed: ReplicaChoice, answer: FetchedPartition
) -> None:
    assert followed.answered(answer, 7.0, ready=READY) == LEADER
    assert followed.node == LEADER


def test_choice_reads_no_follower_that_failed_until_it_is_no_longer_avoided(followed: ReplicaChoice) -> None:
    followed.failed(10.0)
    assert (followed.node, followed.ask_at) == (LEADER, 10.0 + AVOID_S)
    assert followed.answered(naming(FOLLOWER), 20.0, ready=READY) == LEADER
    assert followed.ask_at == 10.0 + AVOID_S
    assert followed.answered(naming(OTHER), 21.0, ready=READY) == OTHER
    assert followed.answered(naming(FOLLOWER), 10.0 + AVOID_S, ready=READY) == FOLLOWER
    assert followed.avoided == {}


def test_choice_asks_after_the_lease_even_if_a_follower_is_avoided_longer() -> None:
    choice = ReplicaChoice(LEADER, LEADER, avoided={FOLLOWER: 1000.0})
    assert choice.answered(naming(FOLLOWER), 0.0, ready=READY) == LEADER
    assert choice.ask_at == LEASE_S


def test_follower_without_progress_is_behind_only_while_the_leader_has_more(followed: ReplicaChoice) -> None:
    assert not followed.is_behind(5, 10, 1.0, held_up=False)
    assert not followed.is_behind(5, 10, 1.0 + BEHIND_S, held_up=False)
    assert followed.is_behind(5, 10, 1.1 + BEHIND_S, held_up=False)
    assert not followed.is_behind(5, 5, 2.0 + BEHIND_S, held_up=False)
    assert not followed.is_behind(5, 10, 2.1 + BEHIND_S, held_up=False)


def test_follower_is_not_behind_while_it_advances_or_is_not_asked_for_more(followed: ReplicaChoice) -> None:
    assert not any(followed.is_behind(n, 1000, n * BEHIND_S, held_up=False) for n in range(10))
    assert not any(followed.is_behind(9, 1000, n * 2 * BEHIND_S, held_up=True) for n in range(5, 10))


def test_leader_is_never_behind() -> None:
    choice = ReplicaChoice(LEADER, LEADER)
    assert not any(choice.is_behind(5, 10, n * 2 * BEHIND_S, held_up=False) for n in range(5))


def test_follower_that_is_read_again_has_its_whole_patience(followed: ReplicaChoice) -> None:
    assert not followed.is_behind(5, 10, 1.0, held_up=False)
    followed.failed(10.0)
    followed.answered(naming(FOLLOWER), 100.0, ready=READY)
    assert not followed.is_behind(5, 10, 100.5, held_up=False)
    assert not followed.is_behind(5, 10, 100.5 + BEHIND_S, held_up=False)
