"""The incident of a seed: the same seed and level give the same incident on any machine and any Python.

Rules: one `random.Random(seed)`, of which only `random()` is used, the method whose sequence Python guarantees; an index is
`int(random() * n)`. Drawn in this order: the level (even when one is given), then for each cause which one, where and how,
then the delay. Levels 1 to 3 have one cause of that level; 4 has two of levels 1 and 2; 5 has two, one of them of level 3.
Level 6 has one of `postmortems`: it is never drawn, but the seeds of that table have it, and their cause, unless another level
is given.
Not for: making the incident happen.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from drlib.errors import UsageError
from drlib.training.incidents.rules.cause import Cause
from drlib.training.incidents.rules.causes import CAUSES, InjectedCause
from drlib.training.incidents.rules.postmortems import LATER, LEVEL, POSTMORTEMS

_DRAWN: Final = (1, 2, 3, 4, 5)
LEVELS: Final = (*_DRAWN, LEVEL)
DELAY_S: Final = (8.0, 40.0)  # shortest and longest time from the start to the fault, so that players cannot predict it
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IncidentPlan:
    """The incident of a seed. `delay_s`: seconds from the start of the incident to the injection of its causes."""

    seed: int
    level: int
    causes: tuple[InjectedCause, ...]
    delay_s: float


def draw_plan(seed: int, level: int | None = None) -> IncidentPlan:
    """Draw the incident of `seed`, at `level` if given. Raises `UsageError` for an unknown level or a negative seed."""
    if level is not None and level not in LEVELS:
        raise UsageError(f"level {level}", "there is no such level", f"Use {LEVELS[0]} to {LEVELS[-1]}.")
    if seed < 0:
        raise UsageError(f"seed {seed}", "a seed is not negative", "Use 0 or a greater number.")
    generator = random.Random(seed)  # reproducible on purpose; not used for secrets
    drawn = _choose(generator, _DRAWN)
    if level is None:
        level = LEVEL if seed in POSTMORTEMS else drawn
    chosen: list[InjectedCause] = []
    for pool in _pools(level, seed):
        cause = _choose(generator, [candidate for candidate in pool if _is_compatible(candidate, chosen)])
        variants = [variant for variant in _variants(cause) if _shares_nothing(variant, chosen)]
        where = _choose(generator, tuple(dict.fromkeys(variant.where for variant in variants)))
        chosen.append(InjectedCause(cause.name, where, _choose(generator, cause.hows)))
    shortest, longest = DELAY_S
    return IncidentPlan(seed, level, tuple(chosen), round(shortest + generator.random() * (longest - shortest), 1))


def causes_of(level: int) -> frozenset[str]:
    """The names of all causes that an incident of `level` can have, whichever its seed."""
    if level == LEVEL:
        return frozenset(cause.name for cause in POSTMORTEMS.values())
    return frozenset(cause.name for pool in _pools(level, 0) for cause in pool)


def _pools(level: int, seed: int) -> tuple[tuple[Cause, ...], ...]:
    of_level = {n: tuple(cause for cause in CAUSES.values() if cause.level == n) for n in (1, 2, 3)}
    match level:
        case 4:
            both = (*of_level[1], *of_level[2])
            return both, both
        case 5:
            # split-brain affects everything and therefore goes with no other cause
            return tuple(c for c in of_level[3] if c.name != "split-brain"), (*of_level[1], *of_level[2])
        case 6:
            known = tuple(cause for of_seed, cause in POSTMORTEMS.items() if of_seed not in LATER)
            return ((POSTMORTEMS[seed],) if seed in POSTMORTEMS else known,)
    return (of_level[level],)


def _variants(cause: Cause) -> tuple[InjectedCause, ...]:
    return tuple(InjectedCause(cause.name, where, how) for where in cause.wheres for how in cause.hows)


def _is_compatible(cause: Cause, chosen: Sequence[InjectedCause]) -> bool:
    return any(_shares_nothing(variant, chosen) for variant in _variants(cause))


def _shares_nothing(candidate: InjectedCause, chosen: Sequence[InjectedCause]) -> bool:
    return all(candidate.places.isdisjoint(other.places) for other in chosen)


def _choose(generator: random.Random, choices: Sequence[T]) -> T:
    return choices[int(generator.random() * len(choices))]
