"""`make fuzz`: give every decoder of foreign data inputs made from valid ones, and see that each takes them as it says.

    python -m fuzz --minutes 2               a new seed, which is printed
    python -m fuzz --minutes 2 --seed 7      the same cases again, as many as the time allows
    python -m fuzz --target recode --seed 7 --case 4711       one case of one target

Every target gets the same share of time. Two processes work at the same time; each has a memory limit. Exit code 0: every case
was taken as declared; 1: some were not, each printed once, as small as it was found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import sys
from concurrent.futures import ProcessPoolExecutor

from fuzz.limits import judge
from fuzz.run import Found, case_of, prepare, run, shown
from fuzz.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz every decoder of foreign data.")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, help="play the cases of an earlier run again")
    parser.add_argument("--target", default="", help="only targets whose name contains this")
    parser.add_argument("--case", type=int, help="only this case of the target")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    names = [target.name for target in TARGETS if options.target in target.name]
    if options.case is not None:
        target = next(target for target in TARGETS if target.name in names)
        prepare()
        failure = judge(target.decode, case_of(target, seed, options.case), target.errors, target.seconds)
        if failure is not None:
            print(shown(Found(target.name, options.case, case_of(target, seed, options.case), failure), seed))
        return failure is not None
    print(f"{len(names)} targets, seed {seed}", flush=True)
    count = max(1, min(options.processes, len(names)))
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as pool:
        parts = [names[number::count] for number in range(count)]
        tallies = list(pool.map(run, parts, [seed] * count, [options.minutes * 60] * count))
    cases = {name: number for tally in tallies for name, number in tally.cases.items()}
    for name in names:
        print(f"{cases[name]:>10,}  {name}")
    found = [each for tally in tallies for each in tally.found]
    failed = len(found) or "none"
    print(f"{sum(cases.values()):,} cases of {len(names)} targets, seed {seed}: {failed} taken otherwise than declared")
    for each in found:
        print(f"\n{shown(each, seed)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
