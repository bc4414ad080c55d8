"""A runbook's schedule as a job definition of jupyter-scheduler (`POST /scheduler/job_definitions`), and its notebook.

Rules: pure. The notebook runs `drlib run` and fails with its exit code, so a missed objective is a failed job, and report,
verdict and alert are those of any run; its cells are the same for every runbook. What it runs is in `parameters`, whose values
jupyter-scheduler writes into a cell as Python (`add_parameters`), so they are literals.
Sources: jupyter-scheduler's `CreateJobDefinition` (models.py), `JobDefinitionHandler.post` (handlers.py), `add_parameters`
(parameterize.py), `DefaultExecutionManager.validate` (executors.py: the notebook has to name a kernel).
Not for: sending it. The files are compared with these sources, and were never given to a jupyter-scheduler.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from drlib.runbook.file.calendar import Cron

NOTEBOOK: Final = "drlib-run.ipynb"
HINT: Final = f"""\
# Two files. Put {NOTEBOOK} into the folder in which JupyterLab was started, and send the other one as the body of
# POST /scheduler/job_definitions. runtime_environment_name is one of GET /scheduler/runtime_environments.
"""
_CELLS: Final = (
    "command: list[str] = []  # what to run\nfolder: str = \".\"  # where",
    "import subprocess\n\n"
    "done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)\n"
    "print(done.stdout.decode(errors=\"backslashreplace\"))\n"
    "done.check_returncode()",
)  # fmt: skip


class JobDefinition(BaseModel):
    """The fields of jupyter-scheduler's `CreateJobDefinition`, those that it requires without a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input_uri: str
    input_filename: str
    runtime_environment_name: str
    runtime_environment_parameters: dict[str, int | float | bool | str] | None = None
    output_formats: list[str] | None = None
    parameters: dict[str, str] | None = None
    tags: list[str] | None = None
    name: str
    output_filename_template: str | None = "{{input_filename}}-{{create_time}}"
    compute_type: str | None = None
    schedule: str | None = None
    timezone: str | None = None


def job_definition(name: str, argv: Sequence[str], folder: Path, times: Cron) -> JobDefinition:
    """The job that runs `argv` in `folder` at `times` (UTC)."""
    return JobDefinition(
        input_uri=NOTEBOOK,
        input_filename=NOTEBOOK,
        runtime_environment_name=Path(argv[0]).name,  # as it calls the Python that it runs in, where there is no conda
        output_formats=["ipynb", "html"],
        parameters={"command": ascii(list(argv)), "folder": ascii(str(folder))},
        tags=["drlib"],
        name=f"drlib-{name}",
        schedule=str(times),
        timezone="UTC",
    )


def files(job: JobDefinition) -> str:
    """The notebook and the definition, each below a line with its name."""
    body = json.dumps(job.model_dump(exclude_none=True), indent=2)
    return f"{HINT}# --- {NOTEBOOK} ---\n{_notebook()}\n# --- {job.name}.json ---\n{body}\n"


def _notebook() -> str:
    cells = [_cell(_CELLS[0], "parameters"), _cell(_CELLS[1], "run")]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def _cell(source: str, tag: str) -> dict[str, object]:
    metadata = {"tags": [tag]}
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": tag,
        "metadata": metadata,
        "outputs": [],
        "source": source,
    }
