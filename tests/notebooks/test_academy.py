"""The lesson notebooks on a real lab: with reference answers every check passes, without answers none does."""

from __future__ import annotations

import asyncio
import re
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

ROOT = ROOT / "notebooks" / "academy"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One lab for all lessons, as for a learner who takes one after another."""
    with Lab(tmp_path_factory.mktemp("academy") / "lab") as shared:
        yield shared


def run(key: str, lab: Lab, run_dir: Path, *, times: int = 1, **parameters: str) -> str:
    """Run all cells, each `times` times; raises what a cell raises. Returns their outputs as text."""
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
    output = run(key, lab, run_dir, times=times, answers="reference")
    current = progress.read(run_dir).of(key).current
    assert current is not None
    assert current.passed == (1, 2, 3), output
    (graded,) = re.findall(f"You wrote: {current.prediction}. That is right: ([0-9,]+) was measured.", output)[:1]
    measured = int(graded.replace(",", ""))
    assert measured == int(current.prediction) or key == "L6"  # a throughput, which is right within a tenth
    assert_question_hides_the_answer(key, output, current.prediction)
    assert current.closed
    assert progress.read(run_dir).of(key).best is None  # a dry run earns nothing
    assert progress.read(run_dir).of(key).attempts == 0


def assert_question_hides_the_answer(key: str, output: str, answer: str) -> None:
    """Neither the question with the numbers of this run has it, nor the cells behind it."""
    (question,) = re.findall(rf"^(.*\n)You wrote: {answer}\. It is recorded; lesson\.truth", output, re.MULTILINE)[:1]
    (path,) = ROOT.glob(f"{key}_*.ipynb")
    cells = load_notebook_node(str(path)).cells
    (at,) = (n for n, cell in enumerate(cells) if "drlib:step=predict" in cell.metadata.get("tags", ()))
    following = next(n for n in range(at + 1, len(cells)) if cells[n].cell_type == "code")
    given = "".join((question, *(cell.source for cell in cells[at + 1 : following + 1])))
    assert "?" in question
    assert answer not in re.findall(r"(?<![\w.-])\d+(?![\w-])", given.replace(",", ""))


def test_l0_notebook_passes_with_reference_answers(lab: Lab, tmp_path: Path) -> None:
    with_reference("L0", lab, tmp_path)
    assert (tmp_path / progress.FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.long
@pytest.mark.parametrize("key", list(LESSONS))
def test_lesson_notebook_with_each_cell_run_twice_passes_with_reference_answers(
    key: str, lab: Lab, tmp_path: Path
) -> None:
    with_reference(key, lab, tmp_path, times=2)


@pytest.mark.long
@pytest.mark.parametrize("key", list(LESSONS))
@pytest.mark.parametrize("prediction", ["", "7"])
def test_lesson_notebook_without_repair_passes_no_check(key: str, prediction: str, lab: Lab, tmp_path: Path) -> None:
    output = run(key, lab, tmp_path, prediction=prediction)
    record = progress.read(tmp_path).of(key)
    assert record.current is not None
    assert record.current.passed == (), output
    assert record.best == (10 if prediction else 0)
    assert output.count("not yet") >= 3
    assert ("break" in record.current.steps) is bool(prediction)  # no fault before the prediction
    assert ("Your prediction comes first" in output) is not bool(prediction)
