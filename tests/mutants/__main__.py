"""`make mutants`: mutate pure modules, run their unit tests against each mutant, and list the survivors.

    python -m mutants                              a random sample of 150 over all pure modules
    python -m mutants drlib.mirror.journal         every mutant of these modules or packages
    python -m mutants --sample 300 --seed 7        another sample

Each mutant runs in a process forked from one that has loaded the libraries, so that it costs its tests and little more.
Property tests take fewer examples here. Exit code 0: every mutant was killed or is listed in equivalent.txt; 1: some survived.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from mutants.mutate import Mutant, mutants
from mutants.select import ROOT, pure_modules, source, tests_of

LIMIT_S = 60  # a mutant that loops is killed by its time
EQUIVALENT = Path(__file__).with_name("equivalent.txt")


class Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a mutated source."""

    def __init__(self, module: str, text: str) -> None:
        self._module, self._text = module, text

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if name != self._module:
            return None
        return importlib.util.spec_from_file_location(name, source(name), loader=self)

    def create_module(self, spec: object) -> None:
        return None

    def exec_module(self, module: object) -> None:
        exec(compile(self._text, str(source(self._module)), "exec"), vars(module))


def survives(module: str, mutant: Mutant, tests: Sequence[Path]) -> bool:
    """Does no test notice? Runs in a fork; a crash or a timeout counts as noticed."""
    pid = os.fork()
    if pid == 0:
        _in_child(module, mutant, tests)
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def _in_child(module: str, mutant: Mutant, tests: Sequence[Path]) -> None:
    code = 1
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        sys.meta_path.insert(0, Loader(module, mutant.source))
        import pytest
        from hypothesis import settings

        settings.register_profile("mutants", deadline=None, max_examples=25, derandomize=True, database=None)
        quiet = [
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "--timeout=50",
            "-W",
            "ignore:Module already imported",
            "--hypothesis-profile=mutants",
        ]
        code = int(pytest.main([*quiet, *map(str, tests)]))
    finally:
        os._exit(code)


def chosen(names: Sequence[str]) -> list[str]:
    pure = pure_modules()
    if not names:
        return pure
    modules = [m for m in pure if any(m == n or m.startswith(n + ".") for n in names)]
    if not modules:
        sys.exit(f"no pure module is named {', '.join(names)}. See the purity contract in pyproject.toml.")
    return modules


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("modules", nargs="*", help="dotted names of modules or packages; none: a sample of all")
    parser.add_argument("--sample", type=int, default=0, help="so many at random")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    known = {line.split("  # ")[0].strip() for line in EQUIVALENT.read_text().splitlines() if line and line[0] != "#"}
    every = [(m, mutant) for m in chosen(given.modules) for mutant in mutants(m, source(m).read_text())]
    size = given.sample or (0 if given.modules else 150)
    picked = (
        sorted(random.Random(given.seed).sample(every, min(size, len(every))), key=lambda p: p[1].key)
        if size
        else every
    )
    todo = [(module, mutant) for module, mutant in picked if mutant.key not in known]
    print(f"{len(every)} mutants of {len({m for m, _ in every})} modules; {len(todo)} to run", flush=True)
    for library in ("confluent_kafka", "hypothesis", "kafka", "pydantic", "pytest"):
        importlib.import_module(library)  # once, before the forks

    tests = {module: tests_of(module) for module in sorted({m for m, _ in todo})}
    begun, survivors = time.monotonic(), []
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2))) as pool:
        unchanged = {
            m: pool.submit(survives, m, Mutant("", 0, source(m).read_text()), tests[m]) for m in tests if tests[m]
        }
        if failing := [module for module, passes in unchanged.items() if not passes.result()]:
            sys.exit(f"the unit tests of {', '.join(failing)} fail on the unchanged module: mend them first")
        runs = [(m, x, pool.submit(survives, m, x, tests[m])) for m, x in todo]
        for number, (module, mutant, alive) in enumerate(runs, 1):
            if alive.result():
                survivors.append(mutant)
                print(f"survived  {source(module).relative_to(ROOT)}:{mutant.line}  {mutant.key}", flush=True)
            if number % 50 == 0:
                print(
                    f"{number} of {len(todo)}, {len(survivors)} survived, {time.monotonic() - begun:.0f} s", flush=True
                )
    killed = len(todo) - len(survivors)
    print(f"{killed} of {len(todo)} killed, {len(picked) - len(todo)} listed as equivalent, {len(survivors)} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
