"""A cell that was run before the one it needs: a kernel names that one, for every name that a shipped notebook uses so."""

from __future__ import annotations

import ast
import asyncio
import json
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from repository_root import ROOT

from drlib.ui import jupyterlab
from drlib.ui.unrun_cells import IMPORTED, OPENED, PARAMETERS, cell_to_run

BOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))


def shared_names(path: Path) -> dict[str, set[str]]:
    """Names that a notebook makes in one cell and uses in another: by kind, as `unrun_cells` has them."""
    parameters: set[str] = set()
    made: dict[str, int] = {}
    imported: set[str] = set()
    used: set[str] = set()
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] != "code":
            continue
        for node in ast.walk(ast.parse("".join(cell["source"]))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imported |= {alias.asname or alias.name for alias in node.names}
                for alias in node.names:
                    made.setdefault(alias.asname or alias.name, number)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                made.setdefault(node.id, number)
                if "parameters" in cell["metadata"].get("tags", ()):
                    parameters.add(node.id)
            elif isinstance(node, ast.Name) and made.get(node.id, number) != number:
                used.add(node.id)
    return {
        "parameters": used & parameters,
        "imported": used & imported,
        "opened": used - parameters - imported,
    }


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_each_name_that_notebooks_share_between_cells_has_its_cell(path: Path) -> None:
    names = shared_names(path)
    assert names["parameters"] <= PARAMETERS
    assert names["imported"] <= IMPORTED
    assert names["opened"] <= OPENED
    for name in names["opened"]:
        text = "".join("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"])
        assert f"{name} = " in text
        assert f"`{name} = `" in cell_to_run(name)


def test_other_names_have_none() -> None:
    assert cell_to_run("found") == ""
    assert "parameters first" in cell_to_run("lab_dir")
    assert "imports drlib" in cell_to_run("drlib")


def test_kernel_of_drlib_notebook_names_the_cell_and_shows_other_errors_as_they_are(tmp_path: Path) -> None:
    cells = [
        "lesson.flow()",
        "import drlib\nlesson = drlib.open_lesson('L0', lab_dir)",
        "drill.run()",
        "incident.act('acknowledge')",
        "found",
        "def late():\n    return lesson\nlate()",
        "1 / 0",
        "sorted(name for name in globals() if not name.startswith('_'))",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    given = jupyterlab.environment(tmp_path / "state", tmp_path / "run")
    environment = {**os.environ, "PYTHONPATH": given["PYTHONPATH"], "PYTHONSTARTUP": given["PYTHONSTARTUP"]}
    client = NotebookClient(book, timeout=60, kernel_name="python3", allow_errors=True)
    asyncio.run(client.async_execute(env=environment))
    shown = [
        "\n".join(one.get("traceback", [one.get("data", {}).get("text/plain", "")]))
        for cell in book.cells
        for one in cell.outputs
    ]
    names = ("lesson", "lab_dir", "drill", "incident")
    for name, text in zip(names, shown, strict=False):
        assert text.startswith(f"NameError: {name} is not known: the cell that makes it was not run"), text
        assert text.endswith(cell_to_run(name))
    assert "Traceback" in shown[4]
    assert shown[5].startswith("NameError: lesson is not known")
    assert "ZeroDivisionError" in shown[6]
    assert "install" not in shown[7]
    assert "contextlib" not in shown[7]


def test_startup_file_of_the_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSTARTUP", "/home/me/startup.py")
    assert jupyterlab.environment(tmp_path, tmp_path)["PYTHONSTARTUP"] == "/home/me/startup.py"
