"""Which modules are mutated, and which test files can notice.

Rules: the modules are those of the purity contract in pyproject.toml. A module's tests are the files of its package
under tests/unit, and every other unit test file that imports it.
"""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_DECISIONS = {"drlib.model", "drlib.errors"}  # values that nearly every test imports


def pure_modules() -> list[str]:
    """Dotted names, sorted."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    names = next(contract["source_modules"] for contract in contracts if contract["type"] == "forbidden")
    found: set[Path] = set()
    for name in names:
        pattern = name.removeprefix("drlib.").replace("**.", "**/").replace(".", "/")
        for path in (ROOT / "drlib").glob(pattern):
            found.update(path.rglob("*.py"))
        found.update((ROOT / "drlib").glob(pattern + ".py"))
    return sorted({dotted(path) for path in found if path.name != "__init__.py"} - WITHOUT_DECISIONS)


def dotted(path: Path) -> str:
    return ".".join(path.resolve().relative_to(ROOT).with_suffix("").parts)


def source(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def own_tests_of(module: str) -> list[Path]:
    """The test files that are named after the module."""
    return sorted(_package_of(module).glob(f"test_{module.rpartition('.')[2]}*.py"))


def _package_of(module: str) -> Path:
    return ROOT.joinpath("tests", "unit", *module.split(".")[1:-1])


def tests_of(module: str) -> list[Path]:
    """The module's own test files first, then the others of its package, then those of other packages that import it."""
    package, own = _package_of(module), own_tests_of(module)
    neighbours = [path for path in sorted(package.glob("test_*.py")) if path not in own]
    importing = [
        path
        for path in sorted((ROOT / "tests" / "unit").rglob("test_*.py"))
        if path.parent != package and module in _imported(path)
    ]
    return own + neighbours + importing


@cache
def _imported(path: Path) -> frozenset[str]:
    """Dotted names of the modules, and of the names in them, that a test file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ImportFrom(module=str(module), names=aliases):
                names.update([module, *(f"{module}.{alias.name}" for alias in aliases)])
            case ast.Import(names=aliases):
                names.update(alias.name for alias in aliases)
    return frozenset(names)
