"""All mutants of some modules in one pytest session: the tests are collected once, and each mutant costs only its tests.

    python -m mutants.session drlib.mirror.journal.fields < keys    a line for each key: `killed`, `alive` or `untried KEY`

Rules: a first pass over the unchanged modules notes which of their functions each test calls, and for how long it runs. A
mutant runs in a fork in which the code of the changed functions is exchanged, against the tests that call them, shortest first.
Of what is outside functions, plain constants are exchanged, in every module that holds them, against the tests that call the
module; the rest (defaults, class bodies, tables of objects) cannot be exchanged in a loaded module, and functions that no test
calls may be called while tests are collected: they are untried. `__main__` tries these, and constants that are alive, in a
process that imports the mutated module from the start, on its own test files and those with a call (`file MODULE PATH`). Caches
are emptied before each test of the first pass and before each fork.
"""

from __future__ import annotations

import ast
import functools
import gc
import inspect
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType

import pytest
from hypothesis import HealthCheck, Phase, settings

from mutants.mutate import Mutant, mutants
from mutants.select import source, tests_of

OPTIONS = (
    *("-x", "-q", "-s", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"),
    "--timeout=0",  # a fork has limits of its own
    *("-W", "ignore:Module already imported", "--hypothesis-profile=mutants"),
)
NOTED = "__called__"
_Cache = type(functools.cache(lambda: None))
OPTIMIZED = 1  # a function's code; without it: a module's or a class's body (inspect.CO_OPTIMIZED)
EXAMPLES = 40
CPU_LIMIT_S = 2  # and twice what the tests take on the unchanged module: a mutant that loops is killed by it
WAITING_LIMIT_S = 60.0  # and ten times the limit of its processor time: for a mutant that waits, on a busy machine
MEMORY_LIMIT = 4 << 30  # bytes of addresses: for a loop that collects


class FewerExamples:
    """A pytest plugin: property tests take fewer examples, always the same, and a failing one is not made smaller."""

    @staticmethod
    def register() -> None:
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile(
            "mutants",
            deadline=None,
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            phases=phases,
            report_multiple_bugs=False,
            suppress_health_check=(HealthCheck.too_slow,),
        )

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            test = getattr(item, "obj", None)
            function = getattr(test, "__func__", test)
            own = getattr(function, "_hypothesis_internal_use_settings", None)
            if own is not None and own.max_examples > EXAMPLES:
                vars(function)["_hypothesis_internal_use_settings"] = settings(own, max_examples=EXAMPLES)


@dataclass(frozen=True)
class Change:
    """The tests that can notice it, and what makes it. `final`: what passes is not tried again."""

    tests: set[pytest.Item]
    make: Callable[[], None]
    final: bool


class Target:
    """A module whose mutants are tried: its code, its functions as they are loaded, and the tests that call each of them."""

    def __init__(self, module: str) -> None:
        self.name, self.path = module, str(source(module))
        self.text = source(module).read_text()
        self.original = tuple(nested(compile(self.text, self.path, "exec")))
        self.functions: dict[int, list[FunctionType]] = defaultdict(list)
        self.callers: dict[int, list[pytest.Item]] = defaultdict(list)
        self._index = {_place(code): i for i, code in enumerate(self.original)}

    def add(self, function: FunctionType) -> None:
        """Add a function of this module as it is loaded, perhaps one of several with the same code."""
        index = self._index.get(_place(function.__code__))
        if index is not None:
            self.functions[index].append(function)

    def note_calls(self, noted: set[tuple[Target, int]]) -> None:
        """Have the functions add themselves to `noted` when they are called."""
        codes = tuple(nested(compile(_noting(ast.parse(self.text)), self.path, "exec")))
        indexes = {c: i for i, code in enumerate(codes) for c in code.co_consts if str(c).startswith(NOTED)}
        for index, same in self.functions.items():
            for function in same:
                function.__globals__[NOTED] = lambda mark: noted.add((self, indexes[mark]))
                function.__code__ = codes[index]

    def restore(self) -> None:
        for index, same in self.functions.items():
            for function in same:
                function.__code__ = self.original[index]

    def change(self, mutant: Mutant) -> Change | None:
        """How to make the change of `mutant` in the loaded module; None where it cannot be made."""
        codes = tuple(nested(compile(mutant.source, self.path, "exec")))
        if len(codes) != len(self.original):
            return None
        differing = {
            i: new for i, (old, new) in enumerate(zip(self.original, codes, strict=True)) if _own(old) != _own(new)
        }
        if any(not code.co_flags & OPTIMIZED for code in differing.values()):
            constants = _changed_constants(self.name, mutant.source) if list(differing) == [0] else {}
            called = {item for items in self.callers.values() for item in items}
            return Change(called, partial(_exchange, self.name, constants), final=False) if constants else None
        outer = {i: new for i, new in enumerate(codes) if any(below in differing.values() for below in nested(new))}
        swaps = [(f, code) for i, code in outer.items() if code.co_flags & OPTIMIZED for f in self.functions[i]]
        tests = {item for index in outer for item in self.callers[index]}
        return Change(tests, partial(_swap, swaps), final=True) if swaps else None


class Session:
    """A pytest plugin which runs the collected tests once for each mutant, instead of once."""

    def __init__(self, targets: Sequence[Target], todo: Sequence[tuple[Target, Mutant]], results: int) -> None:
        self._targets, self._todo, self._results = targets, todo, results
        self._took_s: dict[pytest.Item, float] = {}
        self._caches: list[functools._lru_cache_wrapper[object]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._run_unchanged(session)
        for target in self._targets:
            for path in sorted({str(item.path) for items in target.callers.values() for item in items}):
                self._report(f"file {target.name} {path}")
        gc.freeze()  # a collection in a fork would copy all pages
        running: list[tuple[Mutant, Change, Fork]] = []
        for target, mutant in self._todo:
            change = target.change(mutant)
            if change is None or not change.tests:
                self._report(f"untried {mutant.key}")
                continue
            while len(running) >= (os.cpu_count() or 2):
                running = self._unfinished(running)
            tests = sorted(change.tests, key=lambda item: self._took_s[item])
            cpu_s = CPU_LIMIT_S + int(2 * sum(self._took_s[item] for item in tests))
            self._empty_caches()
            running.append((mutant, change, Fork(partial(_failed, session, tests, change.make), cpu_s)))
        while running:
            running = self._unfinished(running)
        return True

    def _empty_caches(self) -> None:
        for cache in self._caches:
            cache.cache_clear()

    def _report(self, line: str) -> None:
        os.write(self._results, f"{line}\n".encode())

    def _unfinished(self, running: Sequence[tuple[Mutant, Change, Fork]]) -> list[tuple[Mutant, Change, Fork]]:
        time.sleep(0.003)
        unfinished = []
        for mutant, change, fork in running:
            passed = fork.passed()
            if passed is None:
                unfinished.append((mutant, change, fork))
            else:
                alive = "alive" if change.final else "untried"
                self._report(f"{alive if passed else 'killed'} {mutant.key}")
        return unfinished

    def _run_unchanged(self, session: pytest.Session) -> None:
        by_path = {target.path: target for target in self._targets}
        for candidate in gc.get_objects():
            if type(candidate) is FunctionType and candidate.__code__.co_filename in by_path:
                by_path[candidate.__code__.co_filename].add(candidate)
            elif isinstance(candidate, _Cache):
                wrapped = getattr(inspect.unwrap(candidate), "__code__", None)
                if wrapped is not None and wrapped.co_filename in by_path:
                    self._caches.append(candidate)
        noted: set[tuple[Target, int]] = set()
        for target in self._targets:
            target.note_calls(noted)
        for item in session.items:
            noted.clear()
            self._empty_caches()
            begun = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if session.testsfailed:
                self._report(f"failing {item.nodeid}")
                session.testsfailed = 0
                continue
            self._took_s[item] = time.process_time() - begun
            for target, index in noted:
                target.callers[index].append(item)
        for target in self._targets:
            target.restore()


class Fork:
    """`child` in a fork; a crash, `cpu_s` of processor time, much memory or a long wait count as a failure."""

    def __init__(self, child: Callable[[], int], cpu_s: int) -> None:
        self._pid, self._end = os.fork(), time.monotonic() + WAITING_LIMIT_S + 10 * cpu_s
        if self._pid == 0:
            code = 1
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, resource.RLIM_INFINITY))
                code = child()
            finally:
                os._exit(code)

    def passed(self) -> bool | None:
        """Whether `child` returned 0; None while it runs."""
        done, status = os.waitpid(self._pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        if time.monotonic() < self._end:
            return None
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        return False


def _failed(session: pytest.Session, tests: Sequence[pytest.Item], change: Callable[[], None]) -> int:
    change()
    for item in tests:
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        if session.testsfailed:
            return 1
    return 0


def _swap(swaps: Sequence[tuple[FunctionType, CodeType]]) -> None:
    for function, code in swaps:
        function.__code__ = code


def _changed_constants(module: str, text: str) -> Mapping[str, object]:
    """The plain values that the mutated module binds to other values; none where no test imports it, or it fails."""
    names: dict[str, object] = {"__name__": module, "__file__": str(source(module))}
    if module not in sys.modules:
        return {}
    try:
        exec(compile(text, str(source(module)), "exec"), names)
    except Exception:
        return {}
    loaded = vars(sys.modules[module])
    return {
        name: value
        for name, value in names.items()
        if name in loaded and _is_plain(value) and _is_plain(loaded[name]) and value != loaded[name]
    }


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list | set | frozenset):
        return type(value) in (tuple, list, set, frozenset) and all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    return type(value) in (int, float, bool, str, bytes, type(None))


def _exchange(module: str, constants: Mapping[str, object]) -> None:
    own = vars(sys.modules[module])
    for name, value in constants.items():
        old = own[name]
        for other in list(sys.modules.values()):
            if vars(other).get(name) is old:
                vars(other)[name] = value


def nested(code: CodeType) -> Iterator[CodeType]:
    """`code` and every function, class and comprehension in it, in a fixed order."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def _noting(tree: ast.Module) -> ast.Module:
    """`tree` with functions that first call the global name `NOTED` with a mark of their own."""
    for number, node in enumerate(list(ast.walk(tree))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            note = ast.Call(ast.Name(NOTED, ast.Load()), [ast.Constant(f"{NOTED} {number}")], [])
            if isinstance(node, ast.Lambda):
                node.body = ast.BoolOp(ast.Or(), [note, node.body])  # the note is None
            else:
                node.body.insert(0, ast.Expr(note))
    return ast.fix_missing_locations(tree)


def _place(code: CodeType) -> tuple[object, ...]:
    """What tells `code` from every other in its file."""
    return code.co_qualname, code.co_firstlineno, tuple(code.co_positions())


def _own(code: CodeType) -> tuple[object, ...]:
    """What `code` does itself, without lines and without the functions in it."""
    constants = tuple((type(c), c) for c in code.co_consts if not isinstance(c, CodeType))
    return code.co_code, repr(constants), code.co_names, code.co_varnames


def main() -> int:
    keys = set(sys.stdin.read().splitlines())
    targets = [Target(module) for module in sys.argv[1:]]
    todo = [(t, mutant) for t in targets for mutant in mutants(t.name, t.text) if mutant.key in keys]
    results, silent = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    FewerExamples.register()
    tests = dict.fromkeys(str(path) for target in targets for path in tests_of(target.name))
    return int(pytest.main([*OPTIONS, *tests], plugins=[FewerExamples(), Session(targets, todo, results)]))


if __name__ == "__main__":
    sys.exit(main())
