"""How a drill's mode and effect are shown, by the clusters it is on: pure.

Rules: on production clusters a practice is a rehearsal, and it is said to change no application's group only where each of its
steps changes nothing or works with shadow groups. On a lab nothing outside of it is changed.
"""

from typing import Final

from drlib.drill.plan.plan import MEANING, Danger, Drill, Mode
from drlib.lab.environment import AS_PLANNED, LAB_ONLY, MOVES, REHEARSES, Banner, Environment

SHADOWS: Final = frozenset({"groups.shadow"})  # actions that change groups of their own alone


def banner(drill: Drill, environment: Environment) -> Banner:
    """The banner of `drill`."""
    return Banner(environment, str(drill.flow), changes(drill, environment))


def changes(drill: Drill, environment: Environment) -> str:
    """What the drill changes, in a few words."""
    if environment is Environment.LAB:
        return LAB_ONLY
    if drill.mode is not Mode.PRACTICE:
        return MOVES
    harmless = all(step.danger is Danger.NONE or step.action.name in SHADOWS for step in drill.steps)
    return REHEARSES if harmless else AS_PLANNED


def mode_word(mode: Mode, environment: Environment | None) -> str:
    """The mode's name, for people."""
    return "rehearsal" if mode is Mode.PRACTICE and environment is Environment.PRODUCTION else mode.value


def meaning(drill: Drill, environment: Environment | None) -> str:
    """What the drill's mode means where it is run: one sentence, without a capital."""
    if environment is Environment.LAB:
        return MEANING[drill.mode].replace("real applications", "the lab's applications")
    if environment is Environment.PRODUCTION and changes(drill, environment) == AS_PLANNED:
        return f"{AS_PLANNED}."
    return MEANING[drill.mode]
