"""papermill's engine for runbooks: progress by step, the notebook saved after each cell, the kernel always ended.

Rules: a cell's step is its tag `drlib:step=<name>`; `listen` gets (step, share done) before each cell. Works as
`papermill --engine drlib` too, where nobody listens. Kernel traffic is encrypted where the kernel can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine
from papermill.utils import merge_kwargs, remove_args

Listener = Callable[[str, float], None]
STEP_TAG = "drlib:step="
_listener: Listener | None = None


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Tell `listener` of each step while inside."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


def step_of(cell: Any) -> str:
    """The step a cell is tagged with, empty when it has none."""
    for tag in cell.metadata.get("tags", ()):
        if tag.startswith(STEP_TAG):
            return str(tag.removeprefix(STEP_TAG)).replace("-", " ")
    return ""


class DrlibEngine(NBClientEngine):
    """Runs a notebook with nbclient, telling the listener where it is."""

    @classmethod
    def execute_managed_notebook(  # type: ignore[no-untyped-def]
        cls,
        nb_man,
        kernel_name,
        log_output=False,
        stdout_file=None,
        stderr_file=None,
        start_timeout=60,
        execution_timeout=None,
        **kwargs,
    ):
        cells = [cell for cell in nb_man.nb.cells if cell.cell_type == "code"]
        started = nb_man.cell_start

        def cell_start(cell, cell_index=None, **more):  # type: ignore[no-untyped-def]
            step = step_of(cell)
            if _listener is not None and step:
                _listener(step, next((i for i, c in enumerate(cells) if c is cell), 0) / max(1, len(cells)))
            return started(cell, cell_index, **more)

        nb_man.cell_start = cell_start
        options = merge_kwargs(
            remove_args(["resources", "km"], **kwargs),
            timeout=execution_timeout or kwargs.get("timeout"),
            startup_timeout=start_timeout,
            kernel_name=kernel_name,
            log_output=log_output,
            stdout_file=stdout_file,
            stderr_file=stderr_file,
        )
        return PapermillNotebookClient(nb_man, **options).execute()
