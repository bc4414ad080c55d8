"""Whether a batch is a copy of the reverse flow: cases, and random schedules of two flows over one topic."""

from __future__ import annotations

import random
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_way_model import TwoWay

from drlib.kafka.protocol.batch import BatchHeader
from drlib.mirror.engine.reverse.rules import Known, Origin, TakenOver, contradiction, newest_epochs, ready, writers
from drlib.mirror.journal.entries import Claim, ClaimId, Folded, Placement, SourcePartition

P = SourcePartition(UUID(int=1), 0)
LANE, CLIENT, STRANGER = 11, 22, 33
KNOWN = Known({LANE: 4}, frozenset({CLIENT}))
SCHEDULES = 1000


def header(producer: int, epoch: int = 0, *, attributes: int = 0, count: int = 1, magic: int = 2) -> BatchHeader:
    return BatchHeader(0, 61, 0, magic, 0, attributes, max(0, count - 1), 0, 0, producer, epoch, 0, count)


def test_newest_epochs_are_those_of_claims_placements_and_folded_claims() -> None:
    entries = [
        Claim(ClaimId(LANE, 2), 0, 0, "w"),
        Placement(P, ClaimId(LANE, 3), 0, 0),
        Claim(ClaimId(LANE, 1), 0, 0, "w"),
        Folded(P, 1, (ClaimId(CLIENT, 7),)),
    ]
    assert newest_epochs(entries) == {LANE: 3, CLIENT: 7}


def test_writers_are_those_of_records_only() -> None:
    found = [header(LANE, 4), header(CLIENT, attributes=0x10), header(9, attributes=0x30), header(8, count=0)]
    assert writers([*found, header(-1), header(7, magic=1)]) == {(LANE, 4, False), (CLIENT, 0, True)}


@pytest.mark.parametrize(
    ("known", "claim", "offset", "left_out"),
    [
        (KNOWN, ClaimId(LANE, 4), 0, True),
        (KNOWN, ClaimId(LANE, 3), 0, True),
        (KNOWN, ClaimId(LANE, 5), 0, False),  # the journal was not read so far
        (KNOWN, ClaimId(STRANGER, 0), 0, False),
        (KNOWN, ClaimId(CLIENT, 0), 0, False),
        (replace(KNOWN, taken=TakenOver(50, ((0, 50),))), ClaimId(LANE, 4), 49, False),  # its former topic is gone
        (replace(KNOWN, taken=TakenOver(50, ((0, 50),))), ClaimId(LANE, 4), 50, True),
        (replace(KNOWN, relayed={LANE}), ClaimId(LANE, 4), 0, False),  # a relay copies what that lane copied
        (replace(KNOWN, relayed={LANE + 1}), ClaimId(LANE, 4), 0, True),
        (replace(KNOWN, relayed={LANE}), ClaimId(STRANGER, 0), 0, False),
    ],
)
def test_claim_is_left_out_where_it_is_known_and_its_records_are_not_for_the_lane(
    known: Known, claim: ClaimId, offset: int, left_out: bool
) -> None:
    assert known.leaves_out_claim(claim, offset) is left_out


@pytest.mark.parametrize(
    ("writer", "marked", "whole", "origin"),
    [
        ((LANE, 4, False), None, True, Origin.COPY),
        ((LANE, 0, False), True, False, Origin.COPY),
        ((LANE, 5, False), True, True, Origin.CONTRADICTION),  # its claim is missing in the journal
        ((LANE, 4, True), True, True, Origin.CONTRADICTION),
        ((CLIENT, 3, False), None, False, Origin.CLIENT),
        ((-1, -1, False), None, False, Origin.CLIENT),
        ((STRANGER, 0, False), False, True, Origin.CLIENT),
        ((STRANGER, 0, False), None, True, Origin.CLIENT),
        ((STRANGER, 0, False), False, False, Origin.CLIENT),
        ((STRANGER, 0, False), None, False, Origin.CONTRADICTION),
        ((STRANGER, 0, False), True, True, Origin.CONTRADICTION),  # markers, and data outside transactions
        ((STRANGER, 0, True), True, False, Origin.CLIENT),
    ],
)
def test_judge_by_producer_epoch_and_markers_is(
    writer: tuple[int, int, bool], marked: bool | None, whole: bool, origin: Origin
) -> None:
    assert KNOWN.judge(writer, marked=marked, whole=whole) is origin
    if origin is Origin.CONTRADICTION:
        assert f"producer ID {writer[0]}" in contradiction(writer, KNOWN)


@pytest.mark.parametrize(
    ("writer", "why"),
    [
        ((STRANGER, 0, False), "has no claim of it"),
        ((LANE, 4, True), "part of a transaction, which lanes do not write"),
        ((LANE, 5, False), "newer than the newest claim that the reverse flow's journal has of it, epoch 4"),
    ],
)
def test_contradiction_says_what_the_journal_does_not_explain(writer: tuple[int, int, bool], why: str) -> None:
    assert why in contradiction(writer, KNOWN)


def test_ready_is_false_while_a_writer_is_unknown_or_contradicts_the_journal() -> None:
    assert ready(KNOWN, [(LANE, 4, False), (CLIENT, 0, False)])
    for writer in [(STRANGER, 0, False), (LANE, 5, False), (LANE, 4, True)]:
        assert not ready(KNOWN, [writer])
        assert not ready(KNOWN, [(CLIENT, 0, False), writer])


def test_copies_are_known_by_the_producer_and_old_formats_have_none() -> None:
    assert KNOWN.is_copy(header(LANE, 1))
    assert not KNOWN.is_copy(header(CLIENT))
    assert not KNOWN.is_copy(header(LANE, magic=1))


def schedule(seed: int, *, faults: bool, disks: bool = False, without: str = "") -> TwoWay:
    world = TwoWay(random.Random(seed))
    world.rules -= {without}
    world.run(120, faults=faults, disks=disks)
    return world


@pytest.mark.parametrize("faults", [False, True], ids=["journals kept", "journals lost"])
def test_random_schedules_of_two_flows_copy_each_record_once_or_name_why_not(faults: bool) -> None:
    for seed in range(SCHEDULES // 2):
        assert not (found := schedule(seed, faults=faults).findings()), (seed, found)


def test_random_schedules_with_a_cluster_that_loses_its_disks_bring_its_records_back_once() -> None:
    for seed in range(SCHEDULES // 2):
        assert not (found := schedule(seed, faults=False, disks=True).findings()), (seed, found)
    assert any(schedule(seed, faults=False, disks=True, without="begun").findings() for seed in range(100))


@given(st.integers(0, 2**32), st.booleans())
def test_any_schedule_of_two_flows_copies_each_record_once_or_names_why_not(seed: int, faults: bool) -> None:
    assert not schedule(seed, faults=faults).findings()


@pytest.mark.parametrize("rule", ["journal end", "memory", "markers", "accepted"])
def test_schedules_without_a_rule_show_records_that_are_copied_twice_or_go_round(rule: str) -> None:
    def fails(seed: int) -> bool:
        try:
            return bool(schedule(seed, faults=True, without=rule).findings())
        except AssertionError:
            return True

    assert any(fails(seed) for seed in range(2000))
