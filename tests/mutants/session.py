"""All mutants of one module in one pytest session: the tests are collected once, and each mutant costs only its tests.

    python -m mutants.session drlib.mirror.journal.fields < keys    a line for each key: `killed KEY` or `alive KEY`

Rules: a first pass over the unchanged module notes which of its functions each test calls, and for how long it runs. A mutant
runs in a fork in which the code of the changed functions is exchanged, against the tests that call them, shortest first. A
change outside functions (a constant, a default, a class body) cannot be exchanged in a loaded module: such mutants are alive
here, and so are those of functions that were only called while the tests were collected. `__main__` tries every mutant that is
alive here once more, in a process that imports the mutated module from the start, on the test files with a call (`file PATH`).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType, FunctionType

import pytest
from hypothesis import Phase, settings

from mutants.mutate import Mutant, mutants
from mutants.select import source, tests_of

OPTIONS = (
    *("-x", "-q", "-s", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=50"),
    *("-W", "ignore:Module already imported", "--hypothesis-profile=mutants"),
)
OPTIMIZED = 1  # a function's code; without it: a module's or a class's body (inspect.CO_OPTIMIZED)
LIMIT_S = 5.0  # and twice what the tests take on the unchanged module


def load_profile() -> None:
    """Property tests take fewer examples for a mutant, always the same, and a failing one is not made smaller."""
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile(
        "mutants",
        deadline=None,
        max_examples=25,
        derandomize=True,
        database=None,
        phases=phases,
        report_multiple_bugs=False,
    )


class Session:
    """A pytest plugin which runs the collected tests once for each mutant, instead of once."""

    def __init__(self, module: str, todo: Sequence[Mutant], results: int) -> None:
        self._path = str(source(module))
        self._todo, self._results = todo, results
        self._original = tuple(nested(compile(source(module).read_text(), self._path, "exec")))
        self._index = {(code.co_qualname, code.co_firstlineno): i for i, code in enumerate(self._original)}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        functions = self._functions()
        callers: dict[int, list[pytest.Item]] = defaultdict(list)
        took: dict[pytest.Item, float] = {}
        for item in session.items:
            begun, called = time.monotonic(), self._calls(session, item)
            took[item] = time.monotonic() - begun
            for index in called:
                callers[index].append(item)
        files = sorted({str(item.path) for calling in callers.values() for item in calling})
        os.write(self._results, "".join(f"file {path}\n" for path in files).encode())
        for mutant in self._todo:
            changed = self._changed(mutant)
            tests = sorted({item for index in changed for item in callers[index]}, key=lambda item: took[item])
            swaps = [(f, code) for index, code in changed.items() for f in functions[index]]
            limit_s = LIMIT_S + 2 * sum(took[item] for item in tests)
            alive = not swaps or not tests or _passes(session, tests, swaps, limit_s)
            os.write(self._results, f"{'alive' if alive else 'killed'} {mutant.key}\n".encode())
        return True

    def _functions(self) -> dict[int, list[FunctionType]]:
        functions: dict[int, list[FunctionType]] = defaultdict(list)
        for candidate in gc.get_objects():
            if type(candidate) is FunctionType and candidate.__code__.co_filename == self._path:
                code = candidate.__code__
                functions[self._index.get((code.co_qualname, code.co_firstlineno), -1)].append(candidate)
        return functions

    def _calls(self, session: pytest.Session, item: pytest.Item) -> set[int]:
        called: set[int] = set()

        def note(frame: FrameType, event: str, argument: object) -> None:
            code = frame.f_code
            if event == "call" and code.co_filename == self._path:
                called.add(self._index.get((code.co_qualname, code.co_firstlineno), -1))

        threading.setprofile(note)
        sys.setprofile(note)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        if session.testsfailed:
            os.write(self._results, f"failing {item.nodeid}\n".encode())
            os._exit(1)
        return called

    def _changed(self, mutant: Mutant) -> dict[int, CodeType]:
        """The functions whose code differs in the mutant; none where a module's or class's body differs as well."""
        codes = tuple(nested(compile(mutant.source, self._path, "exec")))
        if len(codes) != len(self._original):
            return {}
        differing = {
            i: new for i, (old, new) in enumerate(zip(self._original, codes, strict=True)) if _own(old) != _own(new)
        }
        if any(not code.co_flags & OPTIMIZED for code in differing.values()):
            return {}
        outer = {i: new for i, new in enumerate(codes) if any(below in differing.values() for below in nested(new))}
        return {i: code for i, code in outer.items() if code.co_flags & OPTIMIZED}


def nested(code: CodeType) -> Iterator[CodeType]:
    """`code` and every function, class and comprehension in it, in a fixed order."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def _own(code: CodeType) -> tuple[object, ...]:
    """What `code` does itself, without lines and without the functions in it."""
    constants = tuple((type(c), c) for c in code.co_consts if not isinstance(c, CodeType))
    return code.co_code, repr(constants), code.co_names, code.co_varnames


def _passes(
    session: pytest.Session,
    tests: Sequence[pytest.Item],
    swaps: Sequence[tuple[FunctionType, CodeType]],
    limit_s: float,
) -> bool:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for function, changed in swaps:
                function.__code__ = changed
            for item in tests:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if session.testsfailed:
                    break
            code = 1 if session.testsfailed else 0
        finally:
            os._exit(code)
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def main() -> int:
    (module,) = sys.argv[1:]
    keys = set(sys.stdin.read().splitlines())
    todo = [mutant for mutant in mutants(module, source(module).read_text()) if mutant.key in keys]
    results, silent = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    load_profile()
    return int(pytest.main([*OPTIONS, *map(str, tests_of(module))], plugins=[Session(module, todo, results)]))


if __name__ == "__main__":
    sys.exit(main())
