"""From a seed to an incident: the same seed and level are the same incident, on any machine and any Python.

Rules: one `random.Random(seed)`, asked by `random()` alone, which is the method Python promises never to change; an
index is `int(random() * n)`. Asked in this order: level (also when one is given), then for each cause which, where,
how, then the delay. Levels 1 to 3 have one cause of that level; 4 has two of the levels 1 and 2; 5 has two, one of
them of level 3. Not for: making it happen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from drlib.errors import UsageError
from drlib.training.incidents.rules.causes import CAUSES, Cause, Planted

LEVELS: Final = (1, 2, 3, 4, 5)
DELAY_S: Final = (8.0, 40.0)  # the cause comes somewhere in between, so that nobody waits for it with a finger on a key
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Incident:
    """What a seed stands for. `delay_s`: from the start to the cause."""

    seed: int
    level: int
    causes: tuple[Planted, ...]
    delay_s: float


def draw(seed: int, level: int | None = None) -> Incident:
    """The incident of `seed`, at `level` where one is wanted. Raises `UsageError` for a level there is not."""
    if level is not None and level not in LEVELS:
        raise UsageError(f"level {level}", "there is none", f"Give one of {LEVELS[0]} to {LEVELS[-1]}.")
    if seed < 0:
        raise UsageError(f"seed {seed}", "a seed is not negative", "Give a number from 0 on.")
    dice = random.Random(seed)  # a game that has to come out the same again, and no secret
    drawn = _one(dice, LEVELS)
    level = drawn if level is None else level
    chosen: list[Planted] = []
    for pool in _pools(level):
        fits = [one for one in pool if _goes_with(one, chosen)]
        cause = _one(dice, fits)
        possible = [planted for planted in _variants(cause) if all(planted.places.isdisjoint(c.places) for c in chosen)]
        where = _one(dice, tuple(dict.fromkeys(planted.where for planted in possible)))
        chosen.append(Planted(cause.name, where, _one(dice, cause.hows)))
    shortest, longest = DELAY_S
    return Incident(seed, level, tuple(chosen), round(shortest + dice.random() * (longest - shortest), 1))


def seed_for(cause: str, level: int | None = None) -> int:
    """The smallest seed whose incident has `cause` and, where one is given, that level. Raises `UsageError` for no
    cause."""
    if cause not in CAUSES:
        raise UsageError(f"cause {cause}", "there is none of that name", f"There are {', '.join(CAUSES)}.")
    wanted = CAUSES[cause].level if level is None else level
    for seed in range(100_000):
        if any(planted.cause == cause for planted in draw(seed, wanted).causes):
            return seed
    raise UsageError(f"cause {cause}", f"no incident of level {wanted} has it", "Choose another level.")


def _pools(level: int) -> tuple[tuple[Cause, ...], ...]:
    of = {n: tuple(one for one in CAUSES.values() if one.level == n) for n in (1, 2, 3)}
    match level:
        case 4:
            both = (*of[1], *of[2])
            return both, both
        case 5:
            return tuple(one for one in of[3] if one.name != "split-brain"), (*of[1], *of[2])  # it touches everything
    return (of[level],)


def _variants(cause: Cause) -> tuple[Planted, ...]:
    return tuple(Planted(cause.name, where, how) for where in cause.wheres for how in cause.hows)


def _goes_with(cause: Cause, chosen: Sequence[Planted]) -> bool:
    return any(all(planted.places.isdisjoint(one.places) for one in chosen) for planted in _variants(cause))


def _one(dice: random.Random, choices: Sequence[T]) -> T:
    return choices[int(dice.random() * len(choices))]
