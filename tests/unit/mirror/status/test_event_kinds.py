"""docs/faults.md and the code name the same faults, and the tests it points at exist."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import drlib
from drlib.mirror.status.event_kinds import KINDS, Level

PACKAGE = Path(drlib.__file__).parent
TABLE = PACKAGE.parent / "docs" / "faults.md"
TESTS = PACKAGE.parent / "tests"
NAME = re.compile(r"(?:[A-Z][a-z]+){2,}|Parked")
TELLING = frozenset({"open", "park", "_park", "_waiting"})
ERRORS_ELSEWHERE = frozenset({"Unreachable", "UnsupportedRequest", "UsageError", "WrongCluster"})


def rows() -> Iterator[tuple[list[str], list[str]]]:
    """Names and tests of each row."""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) == 5 and cells[1].startswith("`"):
            yield re.findall(r"`([^`]+)`", cells[1]), re.findall(r"`([^`]+)`", cells[4])


def _strings(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
            yield node.value


# A `ValueError` of pure decoders, no `DrlibError`.
INTERNAL = {"MalformedRecord"}


def events_of_the_engine() -> set[str]:
    """What any module of drlib.mirror opens or parks by name."""
    found: set[str] = set()
    for path in (PACKAGE / "mirror").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                if called in TELLING:
                    found.update(_strings(node.args))
            elif isinstance(node, ast.FunctionDef) and node.name in TELLING:
                found.update(_strings(node.args.defaults))
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "slow":
                found.update(_strings([n for n in ast.walk(node.value) if isinstance(n, ast.Constant)]))
    return found


def errors_of_the_engine() -> set[str]:
    """Classes of drlib.mirror that are errors."""
    endings = ("Error", "ObjectiveMissed", "Unreachable", "LeaseHeld", "LaneFault")
    return {
        node.name
        for path in (PACKAGE / "mirror").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and any(ast.unparse(b).endswith(endings) for b in node.bases)
    }


def test_faults_page_has_every_fault_of_the_engine_and_no_other() -> None:
    """A new event or error of drlib/mirror needs a row in docs/faults.md: what the engine does, and the remedy."""
    text = TABLE.read_text(encoding="utf-8")
    documented = {name for names, _ in rows() for name in names}
    named = events_of_the_engine() | errors_of_the_engine() - INTERNAL
    assert {"TargetSlow", "Parked", "SourceCorrupt", "LaneLost"} <= named
    assert (
        events_of_the_engine() - set(KINDS) == set()
    )  # what is not in the table of events is documented without a meaning
    named |= set(KINDS)
    assert {n for n in named if n not in documented and f"`{n}`" not in text} == set()
    assert documented - named - ERRORS_ELSEWHERE == set()


def test_faults_page_names_existing_tests() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    wanted = {test for _, tests in rows() for test in tests}
    assert len(wanted) > 15
    assert {test for test in wanted if f"def {test}(" not in source} == set()


def test_faults_page_every_row_has_a_remedy() -> None:
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) == 5 and cells[1].startswith("`"):
            assert all(cells[:4]), line


def test_levels_are_those_of_the_standard_library() -> None:
    names = logging.getLevelNamesMapping()
    assert [level.value for level in Level] == [names[level.name] for level in Level]
