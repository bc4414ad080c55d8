"""What drlib reads back from its own folders goes through the functions that judge it, in all of drlib's sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from repository_root import ROOT

# The reader of finished runs, the process that executes a run and finishes its folder, and their own module.
READERS = {"drlib/drill/run/stored_run.py", "drlib/runbook/execution/execute.py", "drlib/runs/scorecard.py"}
NAMERS = READERS | {"drlib/runs/folder.py"}  # they name the file; `conclude` writes it
PARSERS = {"read", "parse", "model_validate", "model_validate_json", "model_validate_strings", "model_construct"}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "drlib").rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def scorecard_uses(tree: ast.Module) -> tuple[list[str], list[str]]:
    """Where scorecards are parsed, and where their file is named."""
    parsed, named = [], []
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Call) else ""
        if isinstance(node, ast.Attribute) and node.attr in PARSERS and ast.unparse(node.value).endswith("Scorecard"):
            parsed.append(text)
        if isinstance(node, ast.Call) and any(ast.unparse(argument).endswith("Scorecard") for argument in node.args):
            parsed.append(text)
        if isinstance(node, ast.ImportFrom):
            named += [alias.name for alias in node.names if alias.name == "SCORECARD"]
        if isinstance(node, ast.Constant) and node.value == "scorecard.json":
            named.append(node.value)
    return parsed, named


def test_scorecards_of_finished_runs_have_one_reader() -> None:
    parsed = {path for path, tree in sources() if scorecard_uses(tree)[0]}
    named = {path for path, tree in sources() if scorecard_uses(tree)[1]}
    assert parsed - READERS == set()
    assert named - NAMERS == set()


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
