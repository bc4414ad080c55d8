"""What drlib reads back from its own folders goes through the functions that judge it, in all of drlib's sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from repository_root import ROOT, parsed

# The reader of finished runs, the process that executes a run and finishes its folder, and their own module.
READERS = {"drlib/drill/run/stored_run.py", "drlib/runbook/execution/execute.py", "drlib/runs/scorecard.py"}
NAMERS = READERS | {"drlib/runs/folder.py"}  # they name the file; `conclude` writes it
PARSERS = {"read", "parse", "model_validate", "model_validate_json", "model_validate_strings", "model_construct"}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "drlib").rglob("*.py")):
        yield str(path.relative_to(ROOT)), parsed(path)


def scorecard_uses(tree: ast.Module) -> tuple[list[str], list[str]]:
    """Where scorecards are parsed, and where their file is named."""
    read, named = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in PARSERS and ast.unparse(node.value).endswith("Scorecard"):
            read.append(ast.unparse(node))
        if isinstance(node, ast.Call) and any(ast.unparse(argument).endswith("Scorecard") for argument in node.args):
            read.append(ast.unparse(node))
        if isinstance(node, ast.ImportFrom):
            named += [alias.name for alias in node.names if alias.name == "SCORECARD"]
        if isinstance(node, ast.Constant) and node.value == "scorecard.json":
            named.append(node.value)
    return read, named


def test_scorecards_of_finished_runs_have_one_reader() -> None:
    uses = {path: scorecard_uses(tree) for path, tree in sources()}
    assert {path for path, (read, _) in uses.items() if read} - READERS == set()
    assert {path for path, (_, named) in uses.items() if named} - NAMERS == set()


@pytest.mark.parametrize(
    "line",
    [
        "Scorecard.read(path)",
        "scorecard.Scorecard.parse(x)",
        "Scorecard.model_validate(x)",
        "decoding.json_as(Scorecard, x)",
        "read_json(path, Scorecard)",
        "TypeAdapter(Scorecard)",
        "from drlib.runs.scorecard import SCORECARD",
        "path / 'scorecard.json'",
    ],
)
def test_reader_of_scorecards_is_found_however_it_is_written(line: str) -> None:
    assert any(scorecard_uses(ast.parse(line)))


# Where a file is opened, created or replaced other than by `drlib.files`, and why.
OPENERS = {
    "drlib/files.py": "it is that module",
    "drlib/cli/log/setup.py": "standard error, as a stream without a buffer",
    "drlib/kafka/security/tls.py": "keys for a moment, in the system's folder for temporary files",
    "drlib/lab/jars.py": "the lock, a source of this repository, which a maintainer has written again",
    "drlib/lab/apps/flights.py": "a table of Arrow in the cache, which saves time only",
    "drlib/lab/checker/history_files.py": "histories that a user names, read as a stream",
}
_MODE = re.compile(r"[rwxab+t]{1,3}")
_OPEN_ATTRIBUTES = {"write_text", "write_bytes", "touch", "symlink_to", "link_to", "hardlink_to"}
_OS = {"open", "replace", "rename", "mknod", "mkfifo", "symlink", "link"}


def opening_uses(tree: ast.Module) -> list[str]:
    """Calls that open, create or replace a file."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in {"os", "io", "tempfile", "codecs"}:
            found += [f"{node.module}.{each.name}" for each in node.names if each.name in {*_OS, "FileIO"}]
            found += [each.name for each in node.names if each.name in {"mkstemp", "NamedTemporaryFile"}]
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        root, _, last = name.rpartition(".")
        words = [
            each.value for each in (*node.args, *(k.value for k in node.keywords)) if isinstance(each, ast.Constant)
        ]
        mode = any(isinstance(word, str) and _MODE.fullmatch(word) for word in words)
        opens = name == "open" or (root in {"os", "io", "codecs"} and last in {*_OS, "FileIO"})
        opens = opens or last in {"mkstemp", "NamedTemporaryFile", "FileIO"} or last in _OPEN_ATTRIBUTES
        if opens or (last == "open" and (mode or not (node.args or node.keywords)) and "urlopen" not in name):
            found.append(name)
    return found


def test_files_are_opened_by_one_module() -> None:
    uses = {path: found for path, tree in sources() if (found := opening_uses(tree))}
    assert {path: found for path, found in uses.items() if path not in OPENERS} == {}
    assert OPENERS.keys() - uses.keys() == set()


@pytest.mark.parametrize(
    "line",
    [
        "open(path)",
        "open(path, 'w')",
        "os.open(path, flags)",
        "from os import open as o",
        "io.open(path)",
        "path.open()",
        "(folder / 'x').open('rb')",
        "path.open(mode='a')",
        "path.write_text(text)",
        "path.write_bytes(data)",
        "path.touch()",
        "os.replace(a, b)",
        "tempfile.mkstemp(dir=x)",
        "tempfile.NamedTemporaryFile()",
        "from tempfile import mkstemp",
        "io.FileIO(path)",
    ],
)
def test_opening_is_found_however_it_is_written(line: str) -> None:
    assert opening_uses(ast.parse(line)) != []


def test_opening_of_events_and_sessions_is_no_opening_of_files() -> None:
    assert (
        opening_uses(ast.parse("events.open('LaneLost', name, detail)\nboard.open(state, self)\nos.fdopen(x, 'rb')"))
        == []
    )
