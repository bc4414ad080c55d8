"""Lessons as a learner runs them, on a real lab: with reference answers every check holds, with none it says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
from nbclient import NotebookClient
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook
from repository_root import ROOT

from drlib.lab.lab import Lab
from drlib.training.academy import progress
from drlib.training.academy.open import LESSONS

# How the truth begins where the reference predicts it: what a lesson takes for right is what was measured.
TRUE = {
    "L0": "The copy holds {:,} now, 0 of them twice",
    "L1": "In partition 0 it is {}:",
    "L2": "It was {}:",
    "L3": "It is {},",
    "L4": "It was {}.",
    "L5": "It was {} of",
    "L6": "It got ",  # measured, and near what was predicted
}
ROOT = ROOT / "notebooks" / "academy"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One for all lessons, as for a learner who takes one after another."""
    with Lab(tmp_path_factory.mktemp("academy") / "lab") as shared:
        yield shared


def run(key: str, lab: Lab, run_dir: Path, *, times: int = 1, **parameters: str) -> str:
    """All cells, from the top, each so many `times`; raises what a cell raises. Returns what they showed, as text."""
    (path,) = ROOT.glob(f"{key}_*.ipynb")
    given = {"lab_dir": str(lab.root), "run_dir": str(run_dir), **parameters}
    notebook = parameterize_notebook(load_notebook_node(str(path)), given)
    notebook.cells = [deepcopy(cell) for cell in notebook.cells for _ in range(times)]
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    client = NotebookClient(notebook, timeout=150, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}})
    asyncio.run(client.async_execute())
    outputs = [one for cell in notebook.cells if cell.cell_type == "code" for one in cell.outputs]
    return "\n".join(one["data"]["text/plain"] for one in outputs if "data" in one)


def with_reference(key: str, lab: Lab, run_dir: Path, *, times: int = 1) -> None:
    said = run(key, lab, run_dir, times=times, answers="reference")
    current = progress.read(run_dir).of(key).current
    assert current is not None
    assert current.passed == (1, 2, 3), said
    assert f"You wrote: {current.prediction}. {TRUE[key].format(int(current.prediction))}" in said
    assert current.closed
    assert progress.read(run_dir).of(key).best is None  # a dry run earns nothing
    assert progress.read(run_dir).of(key).attempts == 0


def test_l0_passes_by_reference(lab: Lab, tmp_path: Path) -> None:
    with_reference("L0", lab, tmp_path)
    assert (tmp_path / progress.FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.long
@pytest.mark.parametrize("key", list(LESSONS))
def test_a_lesson_passes_by_reference_though_each_cell_is_run_twice(key: str, lab: Lab, tmp_path: Path) -> None:
    with_reference(key, lab, tmp_path, times=2)


@pytest.mark.long
@pytest.mark.parametrize("key", list(LESSONS))
@pytest.mark.parametrize("prediction", ["", "7"])
def test_who_repairs_nothing_is_told_so_and_passes_nothing(key: str, prediction: str, lab: Lab, tmp_path: Path) -> None:
    said = run(key, lab, tmp_path, prediction=prediction)
    standing = progress.read(tmp_path).of(key)
    assert standing.current is not None
    assert standing.current.passed == (), said
    assert standing.best == (10 if prediction else 0)
    assert said.count("not yet") >= 3
    assert ("break" in standing.current.steps) is bool(prediction)  # nothing breaks before it is predicted
    assert ("Your prediction comes first" in said) is not bool(prediction)
