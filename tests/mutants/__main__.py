"""`make mutants`: mutate pure modules, run their unit tests against each mutant, and list the survivors.

    python -m mutants                              a random sample of 150 over all pure modules
    python -m mutants drlib.mirror.journal         every mutant of these modules or packages
    python -m mutants --sample 300 --seed 7        another sample

First in a session that has collected the module's tests (`session`), where a mutant costs only the tests that call it; what is
alive after it once more in a fork that imports the mutated module. Property tests take fewer examples here. Exit code 0: every
mutant was killed or is listed in equivalent.txt; 1: some survived.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from mutants.mutate import Mutant, mutants
from mutants.select import ROOT, pure_modules, source, tests_of
from mutants.session import OPTIONS, load_profile

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


def alive_in_session(module: str, todo: Sequence[Mutant]) -> tuple[list[Mutant], list[Path]]:
    """Those that no test notices when the code of the changed functions is exchanged, and the test files that call the module.

    Raises: SystemExit where the tests fail on the unchanged module.
    """
    done = subprocess.run(
        [sys.executable, "-m", "mutants.session", module],
        input="\n".join(mutant.key for mutant in todo),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    states = {text: state for state, _, text in (line.partition(" ") for line in done.stdout.splitlines())}
    if failing := [test for test, state in states.items() if state == "failing"]:
        raise SystemExit(f"{failing[0]} fails on the unchanged module {module}: mend it first")
    if unknown := [mutant.key for mutant in todo if mutant.key not in states]:
        raise SystemExit(f"the session of {module} ended early (exit {done.returncode}), before {unknown[0]}")
    alive = [mutant for mutant in todo if states[mutant.key] == "alive"]
    return alive, [Path(text) for text, state in states.items() if state == "file"]


def survives(module: str, mutant: Mutant, tests: Sequence[Path]) -> bool:
    """Does no test notice when the mutated module is imported from the start? A crash or a timeout counts as noticed."""
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
        load_profile()
        code = int(pytest.main([*OPTIONS, *map(str, tests)]))
    finally:
        os._exit(code)


def surviving(module: str, todo: Sequence[Mutant]) -> list[Mutant]:
    """Those of one module that no unit test notices."""
    if not tests_of(module):
        return list(todo)
    alive, tests = alive_in_session(module, todo)
    own = [path for path in tests_of(module) if path in tests]
    return [mutant for mutant in alive if not own or survives(module, mutant, own)]


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

    begun, survivors, tried = time.monotonic(), [], 0
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2))) as pool:
        by_module = [(m, [x for name, x in todo if name == m]) for m in sorted({m for m, _ in todo})]
        runs = [(m, of_module, pool.submit(surviving, m, of_module)) for m, of_module in by_module]
        for module, of_module, run in runs:
            for mutant in run.result():
                survivors.append(mutant)
                print(f"survived  {source(module).relative_to(ROOT)}:{mutant.line}  {mutant.key}", flush=True)
            tried += len(of_module)
            print(
                f"{tried} of {len(todo)}, {len(survivors)} survived, {time.monotonic() - begun:.0f} s: {module}",
                flush=True,
            )
    killed = len(todo) - len(survivors)
    print(f"{killed} of {len(todo)} killed, {len(picked) - len(todo)} listed as equivalent, {len(survivors)} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
