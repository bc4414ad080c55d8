"""What a seat may do, decided from journals."""

from __future__ import annotations

import pytest

from drlib.errors import UsageError
from drlib.runs.journal import Line
from drlib.training.incidents.rules.moves import MOVES, Move, parse_move
from drlib.training.incidents.team.seats import (
    RIGHTS,
    Access,
    Begun,
    Right,
    require_access,
    require_admission,
    require_estimate,
    require_join,
    require_name,
    require_right,
    seats_of,
    under_way,
)

TEAM = {"Tom": Access.TRAINER, "Ana": Access.ACTING, "Bo": Access.READ_ONLY}


def line(event: str, **data: str | int) -> Line:
    return Line(0, "2026-11-26T10:00:07.000+00:00", event, data, "", "")


def test_seats_have_the_role_that_was_recorded_last() -> None:
    lines = (
        line("started"),
        line("seated", seat="Tom", access="trainer"),
        line("seated", seat="Bo", access="read-only"),
        line("seated", seat="Bo", access="acting", by="Tom"),
    )
    assert seats_of(lines) == {"Tom": Access.TRAINER, "Bo": Access.ACTING}
    assert seats_of(()) == {}


def test_move_is_under_way_until_its_own_outcome() -> None:
    begun = line("begun", seat="Ana", move="heal-link LEFT", estimate_s=5)
    assert under_way((begun,)) == Begun("Ana", "heal-link LEFT", begun.at)
    assert under_way((begun, line("acted", seat="Bo", move="acknowledge"))) is not None
    assert under_way((begun, line("acted", seat="Ana", move="heal-link LEFT"))) is None
    assert under_way(()) is None


@pytest.mark.parametrize("right", Right)
@pytest.mark.parametrize("seat", TEAM)
def test_right_is_granted_by_role_and_a_refusal_names_who_has_it(seat: str, right: Right) -> None:
    if right in RIGHTS[TEAM[seat]]:
        require_right(TEAM, seat, right)
        return
    with pytest.raises(UsageError) as refused:
        require_right(TEAM, seat, right)
    holder = next(name for name, access in TEAM.items() if right in RIGHTS[access])
    assert holder in refused.value.why
    assert str(TEAM[seat]) in refused.value.why
    assert "admit(" in refused.value.remedy


def test_every_right_belongs_to_a_role_and_read_only_has_none() -> None:
    assert set(Right) == {right for rights in RIGHTS.values() for right in rights}
    assert RIGHTS[Access.READ_ONLY] == frozenset()
    assert not RIGHTS[Access.TRAINER] & RIGHTS[Access.ACTING], "who knows the causes does not play"


def test_without_a_seat_everything_is_allowed_until_one_has_joined() -> None:
    for right in Right:
        require_right({}, "", right)
        with pytest.raises(UsageError, match="is played by a team"):
            require_right(TEAM, "", right)
    with pytest.raises(UsageError, match="none yet"):
        require_right({"Bo": Access.READ_ONLY}, "Bo", Right.ACT)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "..", "a/b", "a" * 31, "Ana\n", "ana\u202e", " Ana"])
def test_name_that_is_no_part_of_a_file_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="a seat's name has"):
        require_name(name)


def test_join_is_refused_for_another_role_a_second_trainer_and_a_similar_name() -> None:
    require_join(TEAM, "Ana", Access.ACTING)
    require_join(TEAM, "Cy", Access.READ_ONLY)
    require_join({}, "Tom", Access.TRAINER)
    with pytest.raises(UsageError, match=r"its role in this incident is read-only.*admit\(\"Bo\", \"acting\"\)"):
        require_join(TEAM, "Bo", Access.ACTING)
    with pytest.raises(UsageError, match="Tom is this incident's trainer"):
        require_join(TEAM, "Cy", Access.TRAINER)
    with pytest.raises(UsageError, match="a seat is called Ana"):
        require_join(TEAM, "ANA", Access.ACTING)
    with pytest.raises(UsageError, match="Use one of trainer, acting, read-only"):
        require_access("boss")


def test_trainer_admits_others_and_stays_the_only_one() -> None:
    require_admission(TEAM, "Bo", Access.ACTING)
    require_admission(TEAM, "Cy", Access.READ_ONLY)
    for name, access in (("Ana", Access.TRAINER), ("Tom", Access.ACTING)):
        with pytest.raises(UsageError, match="there is one trainer"):
            require_admission(TEAM, name, access)


def test_moves_that_change_something_need_an_estimate() -> None:
    repair = parse_move(["restart-broker LEFT"])
    assert [require_estimate(repair, seconds) for seconds in (1, 30.4, 3600)] == [1, 30, 3600]
    for wrong in (0, 0.4, -5, 3601, float("nan")):
        with pytest.raises(UsageError, match="between 1 and 3600"):
            require_estimate(repair, wrong)
    for name, definition in MOVES.items():
        move = Move(name)
        if not definition.changes_state:
            assert require_estimate(move, None) is None
            continue
        with pytest.raises(UsageError, match="estimated before it begins") as refused:
            require_estimate(move, None)
        assert f'act("{name}", estimate_s=30)' in refused.value.remedy
