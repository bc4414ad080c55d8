"""Which faults come, in what order and how far apart: all of it from the seed. Pure.

Rules: the same seed gives the same plan, however long it is played; fault n draws what it needs from dice of its own, so
that the machine's timing changes nothing in the next one. Every fault of a sort comes once before any comes twice.
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
    dice = random.Random(seed)
    within, without = _rounds(dice, inside), _rounds(dice, outside)
    anything = _rounds(dice, (*inside, *outside, *alone))
    number = 0
    while True:
        number += 1
        pause = round(dice.uniform(0.2, 4), 2)
        together = dice.random() < TOGETHER
        yield Step(number, pause, (next(within), next(without)) if together else (next(anything),))


def dice_of(seed: int, step: int, fault: str) -> random.Random:
    """The dice of one fault in one step."""
    return random.Random(f"{seed}/{step}/{fault}")


def _rounds(dice: random.Random, names: Sequence[str]) -> Iterator[str]:
    while True:
        turn = list(names)
        dice.shuffle(turn)
        yield from turn
