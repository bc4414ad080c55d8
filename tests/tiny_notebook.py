"""Notebooks and runbooks of a few cells, for tests of what reads and runs them."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from drlib.runbook.file.model import Runbook
from drlib.runs.scorecard import Objectives

PARAMETERS = """\
run_dir: str = ""  # where evidence goes
pace: float = 2.0
count: int = 3
quick: bool = False
label: str = "x"
"""


def write_notebook(path: Path, *cells: str | tuple[str, str], parameters: str | None = PARAMETERS) -> Path:
    """Prose, a parameters cell, then `cells`: source, or (step, source)."""
    book = new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}})
    book.cells = [new_markdown_cell("# A tiny one")]
    if parameters is not None:
        book.cells.append(new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    for cell in cells:
        step, source = cell if isinstance(cell, tuple) else ("", cell)
        book.cells.append(new_code_cell(source, metadata={"tags": [f"drlib:step={step}"]} if step else {}))
    nbformat.write(book, path)
    return path


def tiny_runbook(folder: Path, *cells: str | tuple[str, str], objectives: Objectives | None = None) -> Runbook:
    """A runbook over a notebook of `cells`, written into `folder`."""
    notebook = write_notebook(folder / "tiny.ipynb", *cells)
    return Runbook(name="tiny", title="A tiny one", notebook=notebook, objectives=objectives or Objectives())
