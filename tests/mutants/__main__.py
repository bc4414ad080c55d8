"""`make mutants`: mutate pure modules, run their unit tests against each mutant, and list the survivors.

    python -m mutants                              a random sample of 150 over all pure modules
    python -m mutants drlib.mirror.journal         every mutant of these modules or packages
    python -m mutants --sample 300 --seed 7        another sample

First in a session that has collected the modules' tests (`session`), where a mutant costs only the tests that call it; what
cannot be tried there is tried in a fork that imports the mutated module. Property tests take fewer examples here. Exit code 0:
every mutant was killed or is listed in equivalent.txt; 1: some survived.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.util
import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from mutants.mutate import Mutant, mutants
from mutants.select import ROOT, own_tests_of, pure_modules, source, tests_of
from mutants.session import OPTIONS, FewerExamples, Fork

CPU_LIMIT_S = 60  # for a mutant that loops: importing and collecting count as well
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


def survivors(todo: Mapping[str, Sequence[Mutant]]) -> Iterator[Mutant]:
    """Those that no unit test notices, each as soon as it is known. Raises: SystemExit where the session fails."""
    by_key = {mutant.key: (module, mutant) for module, of_module in todo.items() for mutant in of_module}
    unknown, called = dict.fromkeys(by_key), defaultdict[str, list[Path]](list)
    session = subprocess.Popen(
        [sys.executable, "-m", "mutants.session", *todo], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert session.stdin is not None
    assert session.stdout is not None
    with session, ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        session.stdin.write("\n".join(by_key))
        session.stdin.close()
        again: list[tuple[Mutant, Future[bool]]] = []
        for line in session.stdout:
            state, _, text = line.rstrip("\n").partition(" ")
            if state == "failing":
                print(f"left out  {text}: fails on the unchanged modules", flush=True)
                continue
            if state == "file":
                module, _, path = text.partition(" ")
                called[module].append(Path(path))
                continue
            unknown.pop(text)
            if not len(unknown) % 100:
                print(f"{len(by_key) - len(unknown)} of {len(by_key)}, {len(again)} waiting", flush=True)
            module, mutant = by_key[text]
            if state == "alive":
                yield mutant
            elif state == "untried":
                own = own_tests_of(module)  # a table or a default is seen without a call
                tests = [path for path in tests_of(module) if path in own or path in called[module]]
                again.append((mutant, pool.submit(survives, module, mutant, tests)))
            while again and again[0][1].done():
                mutant, result = again.pop(0)
                if result.result():
                    yield mutant
        for mutant, result in again:
            if result.result():
                yield mutant
    if unknown:
        raise SystemExit(f"the session ended early (exit {session.returncode}), before {next(iter(unknown))}")


def survives(module: str, mutant: Mutant, tests: Sequence[Path]) -> bool:
    """Does no test notice when the mutated module is imported from the start?"""
    if not tests:
        return True
    fork = Fork(partial(_run, module, mutant, tests), CPU_LIMIT_S)
    while (passed := fork.passed()) is None:
        time.sleep(0.02)
    return passed


def _run(module: str, mutant: Mutant, tests: Sequence[Path]) -> int:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.meta_path.insert(0, Loader(module, mutant.source))
    FewerExamples.register()
    return int(pytest.main([*OPTIONS, *map(str, tests)], plugins=[FewerExamples()]))


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

    begun = time.monotonic()
    by_module = {m: [mutant for name, mutant in todo if name == m] for m in dict.fromkeys(m for m, _ in todo)}
    survived = Counter[str]()
    for mutant in survivors(by_module):
        module = mutant.key.partition(":")[0]
        survived[module] += 1
        print(f"survived  {source(module).relative_to(ROOT)}:{mutant.line}  {mutant.key}", flush=True)
    print(f"{'mutants':>9}{'killed':>8}{'equivalent':>12}{'survived':>10}  after {time.monotonic() - begun:.0f} s")
    for module in dict.fromkeys(module for module, _ in picked):
        count, tried = sum(name == module for name, _ in picked), len(by_module.get(module, ()))
        print(f"{count:9}{tried - survived[module]:8}{count - tried:12}{survived[module]:10}  {module}")
    count, killed = len(picked), len(todo) - survived.total()
    print(f"{count:9}{killed:8}{count - len(todo):12}{survived.total():10}")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
