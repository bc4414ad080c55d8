"""Disaster recovery and failover for Apache Kafka: an exact mirror, and drills that prove it.

The names in `__init__.pyi` are the public API; everything else may change. They are loaded when first used (PEP 562), so
importing this package, or one module of it, loads nothing else. A name whose packages are an extra that is not installed
raises `MissingDependency`, which says what to install.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

from drlib.extras import explains_missing_extra

_PUBLIC_NAMES = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
_HOMES = {
    name.name: statement.module
    for statement in _PUBLIC_NAMES
    if isinstance(statement, ast.ImportFrom) and statement.module is not None
    for name in statement.names
}
__all__ = list(dict(sorted(_HOMES.items())))


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'drlib' has no attribute {name!r}")
    with explains_missing_extra(f"drlib.{name}"):
        return getattr(import_module(_HOMES[name]), name)
