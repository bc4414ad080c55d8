"""Where the repository and its tests are, for tests that read its files or start programs in it."""

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a source, the same for all who ask: nothing may change it."""
    return ast.parse(path.read_text())
