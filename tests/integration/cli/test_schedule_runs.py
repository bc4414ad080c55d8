"""The command of a generated schedule does what it is for: executed by a shell with the environment that cron gives."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tiny_notebook import write_notebook

from drlib.lab.lab import Lab
from drlib.runbook.file import model
from drlib.runbook.file.schedule import Scheduler, emit

OPEN = """\
import drlib
drill = drlib.open_drill(runbook, run_dir, lab_dir=lab_dir, properties=properties)
drill.plan()
"""
PARAMETERS = 'run_dir: str = ""\nrunbook: str = ""\nlab_dir: str = ""\nproperties: str = ""\n'


@pytest.fixture
def scheduled(lab: Lab, tmp_path: Path) -> tuple[Path, Path]:
    """A runbook of one step that leaves a mark, in a folder whose name a shell has to be careful with, and its file."""
    root = tmp_path / "100 % of it's runs"
    root.mkdir()
    cells = [("open", OPEN), ("call", 'drill.until("call")'), ("finish", "drill.finish()")]
    write_notebook(root / "tiny.ipynb", *cells, parameters=PARAMETERS)
    argv = [sys.executable, "-c", "import sys; open(sys.argv[1], 'a').write('called')", str(root / "mark")]
    call = {"name": "call", "title": "Leave a mark", "action": "hook.command", "undoable": False}
    step = {**call, "arguments": {"argv": argv, "idempotent": True}}
    drill = {"flow": "LEFT->RIGHT", "mode": "planned", "lease": False, "steps": [step]}
    document = {
        "name": "tiny",
        "title": "A tiny drill",
        "notebook": "tiny.ipynb",
        "schedule": {"every": "7d"},
        "drill": drill,
    }
    (root / "tiny.yaml").write_text(yaml.safe_dump(document))
    file = root / "mm2.properties"
    addresses = [f"{alias}.bootstrap.servers = {cluster.bootstrap}" for alias, cluster in lab.clusters.items()]
    file.write_text("\n".join(["clusters = LEFT, RIGHT", *addresses, "LEFT->RIGHT.enabled = true", ""]))
    return root / "tiny.yaml", file


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
    assert (book.parent / "mark").read_text() == "called"
    (folder,) = (path for path in runs.iterdir() if path.is_dir())
    assert json.loads((folder / "scorecard.json").read_text())["verdict"] == "pass"
