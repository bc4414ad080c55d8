"""How a drill is shown by the clusters it is on: no practice on production, and no claim that its steps do not keep."""

from __future__ import annotations

import pytest

from drlib.drill.plan import shown
from drlib.drill.plan.plan import Call, Danger, Drill, Mode, Step
from drlib.lab.environment import AS_PLANNED, LAB_ONLY, MOVES, REHEARSES, Environment
from drlib.model import Flow


def drill(mode: Mode, *actions: str) -> Drill:
    danger = {"canary.read": Danger.NONE}
    steps = tuple(
        Step(name=f"s{n}", title=a, action=Call(a), danger=danger.get(a, Danger.CHANGES)) for n, a in enumerate(actions)
    )
    return Drill(name="d", flow=Flow("paris", "lyon"), mode=mode, steps=steps)


@pytest.mark.parametrize(
    ("mode", "actions", "said"),
    [
        (Mode.EMERGENCY, ("pointer.move",), MOVES),
        (Mode.PLANNED, ("switchover.move",), MOVES),
        (Mode.PRACTICE, ("groups.shadow", "canary.read"), REHEARSES),
        (Mode.PRACTICE, ("groups.shadow", "groups.translate"), AS_PLANNED),
    ],
)
def test_changes_on_production_are_what_the_steps_do(mode: Mode, actions: tuple[str, ...], said: str) -> None:
    assert shown.changes(drill(mode, *actions), Environment.PRODUCTION) == said
    assert shown.changes(drill(mode, *actions), Environment.LAB) == LAB_ONLY


def test_mode_practice_on_production_is_a_rehearsal() -> None:
    assert shown.mode_word(Mode.PRACTICE, Environment.PRODUCTION) == "rehearsal"
    assert shown.mode_word(Mode.PRACTICE, Environment.LAB) == shown.mode_word(Mode.PRACTICE, None) == "practice"
    assert shown.mode_word(Mode.EMERGENCY, Environment.PRODUCTION) == "emergency"


def test_meaning_never_says_more_than_the_steps_keep() -> None:
    moves, wrong = drill(Mode.EMERGENCY, "pointer.move"), drill(Mode.PRACTICE, "groups.translate")
    assert shown.meaning(moves, Environment.PRODUCTION).startswith("real applications move")
    assert shown.meaning(moves, Environment.LAB).startswith("the lab's applications move")
    assert shown.meaning(wrong, Environment.PRODUCTION) == "the plan lists what is changed."
    assert shown.meaning(wrong, None) == "nothing your applications rely on is touched."
