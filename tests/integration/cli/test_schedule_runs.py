"""The command of a generated schedule does what it is for: executed by a shell with the environment that cron gives."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

import nbformat
import pytest
import yaml
from nbconvert.preprocessors import CellExecutionError, ExecutePreprocessor
from sample_scorecard import scorecard
from tiny_notebook import write_notebook

from drlib.runbook.file import model
from drlib.runbook.file.schedule import Scheduler, emit

RUN = """\
import pathlib, shutil
pathlib.Path("mark").write_text(pathlib.Path(properties).read_text())
shutil.copy("card.json", run_dir + "/scorecard.json")
"""
PARAMETERS = 'run_dir: str = ""\nproperties: str = ""\n'


@pytest.fixture
def scheduled(tmp_path: Path) -> tuple[Path, Path]:
    """A runbook that leaves a mark and passes, in a folder whose name a shell has to be careful with, and a file for it."""
    root = tmp_path / "100 % of it's runs"
    root.mkdir()
    write_notebook(root / "tiny.ipynb", RUN, parameters=PARAMETERS)
    document = {"name": "tiny", "title": "A tiny one", "notebook": "tiny.ipynb", "schedule": {"every": "7d"}}
    (root / "tiny.yaml").write_text(yaml.safe_dump(document))
    (root / "card.json").write_text(scorecard().model_dump_json())
    file = root / "mm2.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = h:1\nB.bootstrap.servers = h:2\nA->B.enabled = true\n")
    return root / "tiny.yaml", file


def test_scheduled_job_of_jupyter_runs_the_runbook_and_fails_with_its_exit_code(
    scheduled: tuple[Path, Path], tmp_path: Path
) -> None:
    """Its parameters are inserted as jupyter-scheduler's `add_parameters` does, and the cells run as its executor runs them."""
    book, file = scheduled
    runs = tmp_path / "my runs"
    text = emit(model.load(book), Scheduler.JUPYTER, runs_dir=runs, more=[str(file)])
    definition = json.loads(text.partition("# --- drlib-tiny.json ---\n")[2])

    def run(**more: str) -> None:
        notebook = nbformat.reads(
            text.partition(f"# --- {definition['input_uri']} ---\n")[2].split("\n#")[0], as_version=4
        )
        cell = "\n".join(f"{key} = {value}" for key, value in {**definition["parameters"], **more}.items())
        notebook.cells.insert(1, nbformat.v4.new_code_cell(cell))
        executor = ExecutePreprocessor(kernel_name=notebook.metadata.kernelspec.name, timeout=120)
        executor.preprocess(notebook, {"metadata": {"path": str(tmp_path)}})

    run()
    assert (book.parent / "mark").read_text() == file.read_text()
    (folder,) = (path for path in runs.iterdir() if path.is_dir())
    assert json.loads((folder / "scorecard.json").read_text())["verdict"] == scorecard().verdict
    with pytest.raises(CellExecutionError, match="returned non-zero exit status 2"):
        run(command=ascii([*ast.literal_eval(definition["parameters"]["command"]), "--no-such-option"]))


def command_of(scheduler: Scheduler, text: str) -> str:
    """What the scheduler gives to a shell."""
    if scheduler is Scheduler.CRON:
        line = text.splitlines()[-1]
        return line.split(" ", 5)[5].replace("\\%", "%")  # as crontab(5) says
    words = [word for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) for word in node.keywords]
    found = {word.arg: word.value for word in words}
    return str(ast.literal_eval(found["bash_command"]))


@pytest.mark.parametrize("scheduler", [Scheduler.CRON, Scheduler.AIRFLOW])
def test_scheduled_command_runs_the_runbook_and_ends_with_its_exit_code(
    scheduled: tuple[Path, Path], scheduler: Scheduler, tmp_path: Path
) -> None:
    book, file = scheduled
    runs = tmp_path / "my runs"
    user = None if scheduler is Scheduler.AIRFLOW else "daemon"
    command = command_of(scheduler, emit(model.load(book), scheduler, runs_dir=runs, more=[str(file)], user=user))
    environment = {"HOME": str(tmp_path), "LOGNAME": "daemon", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    shell = ["/bin/sh" if scheduler is Scheduler.CRON else "/bin/bash", "-c", command]
    done = subprocess.run(
        shell, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (book.parent / "mark").read_text() == file.read_text()
    (folder,) = (path for path in runs.iterdir() if path.is_dir())
    assert json.loads((folder / "scorecard.json").read_text())["verdict"] == scorecard().verdict
