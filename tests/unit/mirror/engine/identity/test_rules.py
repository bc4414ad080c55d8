"""Whether a source topic without an ID is the one that was mirrored: the whole table, and under which ID it is journaled."""

from __future__ import annotations

import itertools
import uuid

import pytest

from drlib.kafka.topic_ids import made_id, stand_in
from drlib.mirror.engine.identity.rules import Evidence, Identity, Verdict, identify, judge, judge_topic

SAME, OPEN, RECREATED, REPLACED, UNKNOWN = Verdict
READ = Evidence(position=100, log_start=0, log_end=200, read_epoch=3, epoch=3)
REAL, OTHER = uuid.UUID("11111111-1111-4111-8111-111111111111"), uuid.UUID("22222222-2222-4222-8222-222222222222")
FIRST, SECOND = (made_id("cluster", "t", number) for number in (1, 2))


@pytest.mark.parametrize(
    ("newest", "oldest", "same_epoch", "later_epoch"),
    [
        (True, True, SAME, SAME),
        (True, None, SAME, SAME),
        (True, False, UNKNOWN, UNKNOWN),
        (False, True, REPLACED, REPLACED),
        (False, False, RECREATED, RECREATED),
        (False, None, RECREATED, UNKNOWN),
        (None, True, SAME, SAME),
        (None, False, RECREATED, UNKNOWN),
        (None, None, UNKNOWN, UNKNOWN),
    ],
)
def test_judge_by_what_the_records_show(
    newest: bool | None, oldest: bool | None, same_epoch: Verdict, later_epoch: Verdict
) -> None:
    for end in (50, 100, 200):  # shorter, as long, longer: the length alone shows nothing
        same = Evidence(100, 0, end, 3, 3, newest, oldest)
        assert judge(same) is same_epoch
        assert judge(Evidence(100, 0, end, 3, 4, newest, oldest)) is later_epoch


def test_judge_leader_epoch_that_went_back_is_a_recreated_topic_whatever_the_records_show() -> None:
    for newest, oldest in itertools.product((True, False, None), repeat=2):
        assert judge(Evidence(100, 0, 200, 3, 2, newest, oldest)) is RECREATED
    assert judge(Evidence(100, 0, 200, 3, -1, True)) is SAME  # it is not known


def test_judge_nothing_that_was_read_is_left() -> None:
    """Nothing can be copied twice, nor begun in its middle."""
    assert judge(Evidence(0, 0, 200)) is OPEN
    assert judge(Evidence(100, 100, 100, 3, 3)) is OPEN
    assert judge(Evidence(100, 120, 130, 3, 5)) is OPEN
    assert judge(Evidence(100, 99, 130, 3, 5)) is UNKNOWN


def test_judge_log_that_is_empty_again() -> None:
    assert judge(Evidence(100, 0, 0, 3, 3)) is RECREATED
    assert judge(Evidence(100, 0, 0, 3, 4)) is UNKNOWN  # or lost by an unclean election
    assert judge(Evidence(100, 0, 0, -1, -1)) is UNKNOWN
    assert judge(Evidence(100, 40, 40, 3, 3)) is UNKNOWN


def test_judge_topic_one_partition_proves_all() -> None:
    assert judge_topic({0: SAME, 1: UNKNOWN, 2: OPEN}) == {0: SAME, 1: SAME, 2: SAME}
    assert judge_topic({0: REPLACED, 1: UNKNOWN}) == {0: REPLACED, 1: SAME}
    assert judge_topic({0: RECREATED, 1: UNKNOWN, 2: OPEN}) == dict.fromkeys(range(3), RECREATED)
    assert judge_topic({0: UNKNOWN, 1: OPEN}) == {0: UNKNOWN, 1: OPEN}
    assert judge_topic({0: OPEN, 1: OPEN}) == {0: OPEN, 1: OPEN}


@pytest.mark.parametrize("proof", [SAME, REPLACED])
def test_judge_topic_contradiction_is_not_guessed(proof: Verdict) -> None:
    assert judge_topic({0: proof, 1: RECREATED, 2: OPEN}) == dict.fromkeys(range(3), UNKNOWN)


def test_identify_topic_with_an_id_keeps_it() -> None:
    assert identify("cluster", "t", REAL, None) == Identity(REAL)
    assert identify("cluster", "t", REAL, REAL, used={REAL}) == Identity(REAL)
    assert identify("cluster", "t", OTHER, REAL, used={REAL}) == Identity(OTHER)


def test_identify_topic_without_an_id_is_numbered() -> None:
    reported = stand_in("t")
    assert identify("cluster", "t", reported, None) == Identity(FIRST, unproven=True)
    assert identify("cluster", "t", reported, FIRST, used={FIRST}) == Identity(FIRST, unproven=True)
    assert identify("cluster", "t", reported, FIRST, void=FIRST, used={FIRST}) == Identity(SECOND, unproven=True)
    assert identify("cluster", "t", reported, SECOND, void=FIRST, used={FIRST, SECOND}) == Identity(
        SECOND, unproven=True
    )
    third = made_id("cluster", "t", 3)  # also where the first one is forgotten
    assert identify("cluster", "t", reported, SECOND, void=SECOND, used={SECOND}) == Identity(third, unproven=True)


def test_identify_topic_that_got_its_id_is_proven_first() -> None:
    assert identify("cluster", "t", REAL, FIRST, used={FIRST}) == Identity(FIRST, real=REAL, unproven=True)
    assert identify("cluster", "t", REAL, FIRST, void=FIRST, used={FIRST}) == Identity(REAL)


def test_identify_topic_whose_id_a_broker_does_not_know_yet_keeps_it_and_is_proven() -> None:
    assert identify("cluster", "t", stand_in("t"), REAL, used={REAL}) == Identity(REAL, unproven=True)
