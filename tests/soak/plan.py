"""Which faults happen, in what order and at which intervals: all derived from the seed. Pure.

Rules: the same seed gives the same plan, however long it runs; each fault has a random generator of its own, so that the
machine's timing does not change the next one. Every fault of a kind happens once before any happens twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TOGETHER = 0.35  # how often a fault of the workers meets one outside them


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    pause_s: float
    faults: tuple[str, ...]  # all at the same time


def plan(seed: int, inside: Sequence[str], outside: Sequence[str], alone: Sequence[str]) -> Iterator[Step]:
    """Steps without end. `inside`: faults of the workers; `outside`: of links and brokers; `alone`: of both."""
    rng = random.Random(seed)
    within, without = _rounds(rng, inside), _rounds(rng, outside)
    anything = _rounds(rng, (*inside, *outside, *alone))
    number = 0
    while True:
        number += 1
        pause = round(rng.uniform(0.2, 4), 2)
        together = rng.random() < TOGETHER
        yield Step(number, pause, (next(within), next(without)) if together else (next(anything),))


def dice_of(seed: int, step: int, fault: str) -> random.Random:
    """The rng of one fault in one step."""
    return random.Random(f"{seed}/{step}/{fault}")


def _rounds(rng: random.Random, names: Sequence[str]) -> Iterator[str]:
    while True:
        turn = list(names)
        rng.shuffle(turn)
        yield from turn
