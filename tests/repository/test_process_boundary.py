"""What leaves the process goes through `drlib.outgoing`, in all of drlib's sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from repository_root import ROOT

PACKAGE = ROOT / "drlib"
OUTGOING = PACKAGE / "outgoing"
HTTP_CLIENTS = (
    "urllib.request", "http.client", "requests", "urllib3", "httpx", "aiohttp", "tornado.httpclient", "ftplib", "smtplib",
)  # fmt: skip


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.is_relative_to(OUTGOING):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def http_imports(tree: ast.Module) -> list[str]:
    names = [name for node in ast.walk(tree) for name in imported(node)]
    return [name for name in names if any(name == client or name.startswith(f"{client}.") for client in HTTP_CLIENTS)]


def test_http_is_sent_by_one_module_only() -> None:
    assert {path: found for path, tree in sources() if (found := http_imports(tree))} == {}


def test_http_imports_are_found_however_they_are_written() -> None:
    for line in (
        "import urllib.request",
        "from urllib import request",
        "from urllib.request import urlopen as get",
        "import http.client as c",
        "from http import client",
        "def f():\n    import requests.sessions",
    ):
        assert http_imports(ast.parse(line)), line
    assert http_imports(ast.parse("from http import HTTPStatus\nfrom urllib.parse import quote")) == []
