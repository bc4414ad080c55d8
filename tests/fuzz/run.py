"""Try targets in turns for a time, in one process with a memory limit, and keep the smallest case of each kind of failure."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from fuzz.limits import Failure, judge, limit_memory, smaller
from fuzz.mutate import Case, mutated
from fuzz.targets import TARGETS, Target

SLICE_S = 1.0
MOST_FAILURES = 5  # kinds of failures of one target that are printed


@dataclass(frozen=True, slots=True)
class Found:
    """A failing case. `number`: of the case, -1 for a sample."""

    target: str
    number: int
    case: Case
    failure: Failure


@dataclass(slots=True)
class Tally:
    """What one process did: cases by target, and the failures, one of each kind."""

    cases: dict[str, int] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)


def case_of(target: Target, seed: int, number: int) -> Case:
    """Case `number` of a target: the same one for the same seed, however many are tried."""
    return mutated(target.samples, Random(f"{seed} {target.name} {number}"))


def run(names: Sequence[str], seed: int, seconds: float) -> Tally:
    """Try the targets in turns for `seconds`."""
    prepare()
    limit_memory()
    targets = [target for target in TARGETS if target.name in names]
    tally, kinds = Tally(dict.fromkeys(names, 0)), dict[str, set[str]]()
    end = time.monotonic() + seconds
    for target in targets:
        for sample in target.samples:
            _try(target, -1, sample, tally, kinds)
    while (left := end - time.monotonic()) > 0:
        share = min(SLICE_S, max(0.02, left / len(targets)))
        for target in targets:
            until = time.monotonic() + share
            while time.monotonic() < until and len(kinds.get(target.name, ())) < MOST_FAILURES:
                number = tally.cases[target.name]
                tally.cases[target.name] = number + 1
                _try(target, number, case_of(target, seed, number), tally, kinds)
    return tally


def _try(target: Target, number: int, case: Case, tally: Tally, kinds: dict[str, set[str]]) -> None:
    failure = judge(target.decode, case, target.errors, target.seconds)
    if failure is None or failure.kind in kinds.setdefault(target.name, set()):
        return
    kinds[target.name].add(failure.kind)

    def fails(candidate: Case) -> bool:
        found = judge(target.decode, candidate, target.errors, target.seconds)
        return found is not None and found.kind == failure.kind

    tally.found.append(Found(target.name, number, smaller(case, fails), failure))


def prepare() -> None:
    """What a decoder says beside its result is not looked at."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.environ["TERM"] = "dumb"


def shown(found: Found, seed: int) -> str:
    parts = "\n".join(f"  part {number}: {part[:2000]!r}" for number, part in enumerate(found.case))
    case = "a sample" if found.number < 0 else f"--seed {seed} --case {found.number}"
    return f"{found.target}: {found.failure.kind} ({case})\n{parts}\n{found.failure.detail}"
