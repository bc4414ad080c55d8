"""Which modules are mutated, and which test files can notice.

Rules: the modules are those of the purity contract in pyproject.toml. A module's tests are the files of its name under
tests/unit, and every other unit test file that imports it.
"""

from __future__ import annotations

import tomllib
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


def tests_of(module: str) -> list[Path]:
    """Test files that import `module`, the one of its own name first."""
    parent, _, name = module.rpartition(".")
    wanted = (f"from {module} import", f"import {module}", f"from {parent} import {name}")
    unit = ROOT / "tests" / "unit"
    own = sorted(unit.joinpath(*parent.split(".")[1:]).glob(f"test_{name}*.py"))
    others = [
        path
        for path in sorted(unit.rglob("test_*.py"))
        if path not in own and any(line.strip().startswith(wanted) for line in path.read_text().splitlines())
    ]
    return own + others
