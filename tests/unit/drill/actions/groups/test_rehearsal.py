"""What a canary reads, compared with what the source has there, or right before it."""

from dataclasses import replace

import pytest

from drlib.drill.actions.groups.read_again import NOTHING_AFTER, Compared
from drlib.drill.actions.groups.rehearsal import (
    _compared,
    _compared_before,
    checkpoint_gaps,
    checkpoints_check,
    not_reached,
)
from drlib.drill.actions.groups.rules import PositionMove
from drlib.kafka.admin.descriptions import Record
from drlib.mirror.offsets.translation.translate_groups import KnownPosition
from drlib.model import TopicPartition, TranslationKind
from drlib.runs.check import Verdict

AT = TopicPartition("orders", 0)


def record(offset: int, value: str) -> Record:
    return Record(AT, offset, 1, b"k", value.encode())


def move(kind: TranslationKind = TranslationKind.EXACT) -> PositionMove:
    return PositionMove("g", AT, 5, AT, 5, kind, 0, 1)


@pytest.mark.parametrize(
    ("records", "expected", "said"),
    [
        ([record(5, "a")], [record(7, "a")], "the same"),
        ([record(5, "a")], [record(7, "b")], "wrong: offset 5"),
        ([record(5, "a")], [], "wrong: the source has nothing"),
        ([], [record(7, "a")], "not mirrored yet"),
        ([], [], NOTHING_AFTER),
        ([], None, "unknown"),
    ],
)
def test_canary_compares_what_comes_next(records: list[Record], expected: list[Record] | None, said: str) -> None:
    assert _compared(move(), records, expected).startswith(said)


@pytest.mark.parametrize(
    ("records", "expected", "said"),
    [
        ([record(3, "a"), record(4, "b")], [record(9, "b")], "the same before it, nothing after it"),
        ([record(4, "b")], [record(9, "x")], "wrong: before it, offset 4 is not what the source has at 9"),
        ([], [record(9, "x")], f"{NOTHING_AFTER}, nor before it on both sides"),
    ],
)
def test_canary_of_a_group_that_has_read_all_compares_what_came_before(
    records: list[Record], expected: list[Record], said: str
) -> None:
    """A flawless rehearsal of idle groups read no record, and ended as unknown."""
    assert _compared_before(records, expected) == said


@pytest.mark.parametrize(
    ("kind", "records", "compared", "waits"),
    [
        (TranslationKind.BEHIND, 8, Compared("not compared: none of the source's next records"), True),
        (TranslationKind.BEHIND, 8, Compared(NOTHING_AFTER), True),
        (TranslationKind.BEHIND, 8, Compared("the same behind 8", 8), False),
        (TranslationKind.BEHIND, 8, Compared("wrong: 1 records"), False),
        (TranslationKind.BEHIND, 1_000_000, Compared("not compared"), False),
        (TranslationKind.BOUNDED, 8, Compared("not compared"), False),
    ],
)
def test_canary_waits_for_the_mirror_where_a_group_was_ahead_of_it(
    kind: TranslationKind, records: int, compared: Compared, waits: bool
) -> None:
    assert not_reached(replace(move(kind), records=records), compared) is waits


def at(offset: int) -> dict[tuple[str, TopicPartition], KnownPosition]:
    return {("g", AT): KnownPosition(offset, 60_000, "")}


@pytest.mark.parametrize(
    ("here", "checkpoints", "verdict", "evidence"),
    [
        (at(5), at(5), Verdict.PASS, "all 1 positions are as the groups had committed them"),
        (at(5), at(9), Verdict.PASS, "all 1"),  # it committed meanwhile
        (
            at(5),
            {},
            Verdict.FAIL,
            "1 of 1 positions, of 1 groups, did not come within 75 s: g in orders-0: no checkpoint;",
        ),
        (at(5), at(2), Verdict.FAIL, "g in orders-0: 2 as of 1970-01-01 00:01:00 UTC, 3 behind"),
        ({}, at(5), Verdict.UNKNOWN, "no position could be compared"),
    ],
)
def test_checkpoints_of_a_rehearsal_have_what_the_groups_had_committed(
    here: dict[tuple[str, TopicPartition], KnownPosition],
    checkpoints: dict[tuple[str, TopicPartition], KnownPosition],
    verdict: Verdict,
    evidence: str,
) -> None:
    check = checkpoints_check(*checkpoint_gaps([move()], here, checkpoints), 75)
    assert check.verdict is verdict
    assert evidence in check.evidence


def test_checkpoints_of_positions_that_need_none_are_not_compared() -> None:
    left = replace(move(), offset=None)
    assert checkpoint_gaps([left, move(TranslationKind.NEVER_MIRRORED)], at(5), {}) == ([], 0)


def test_checkpoints_that_are_missing_are_named_first_and_counted() -> None:
    where = [TopicPartition("orders", n) for n in range(6)]
    here = {("g", p): KnownPosition(5, 1, "") for p in where}
    known = {("g", p): KnownPosition(4, 1, "") for p in where[:-1]}
    moves = [replace(move(), source=p, target=p) for p in where]
    check = checkpoints_check(*checkpoint_gaps(moves, here, known), 1)
    assert check.evidence.startswith(
        "6 of 6 positions, of 1 groups, did not come within 1 s: g in orders-5: no checkpoint; "
    )
    assert "; and 3 more; see drlib status" in check.evidence
