"""papermill's engine for runbooks: progress by step, the notebook saved after each cell, the kernel always ended.

Rules: a cell's step is its tag `drlib:step=<name>`, reported before the cell runs, unless all that it would do are optional
steps that the drill does not have. A cell that failed, whose kernel died,
or before which the run was stopped is marked failed, never completed, and nothing after it runs. One of our own errors
leaves its three sentences in the notebook, not a traceback. Kernel traffic is encrypted where the kernel can. What the
kernel's process itself says (ipykernel on its way out, a JVM, librdkafka) goes to `kernel_log`, never to the terminal.
Works as `papermill --engine drlib` too, without a listener: `drlib.runbook.execution.papermill_engine` is what
papermill loads.
"""

import logging
import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

from jupyter_client.kernelspec import NoSuchKernel
from nbclient.exceptions import CellExecutionError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine
from papermill.utils import merge_kwargs, remove_args

from drlib.errors import Aborted, Unreachable
from drlib.files import open_stored, stored_descriptor
from drlib.runbook.execution.early_kernel import EarlyKernel, kernel_config
from drlib.runbook.execution.execute import Listener
from drlib.runbook.execution.interrupt import Stop, end_group
from drlib.runbook.execution.outcome import error_class
from drlib.runbook.file import parameters

_log = logging.getLogger("drlib.runbook.kernel")
_log.addHandler(logging.NullHandler())
_log.propagate = False  # nbclient logs as errors what becomes an exception and a line of ours anyway


STEP_TAG: Final = "drlib:step="
_OPTIONAL: Final = re.compile(r'\.until\("([^"]+)"(?: if [^,\n]+ else "([^"]+)")?, optional=True\)')
_LAST_SAID: Final = 4096  # bytes of a log's end
# jupyter_client interrupts each kernel before it shuts it down, and ipykernel says so where that meets an idle moment
_INTERRUPTED: Final = b"[IPKernelApp] ERROR | KeyboardInterrupt caught in kernel.\n"


def step_of(cell: Any) -> str:
    """The step a cell is tagged with; empty when it has none."""
    tags = cell.metadata.get("tags", ())
    return next((str(tag.removeprefix(STEP_TAG)).replace("-", " ") for tag in tags if tag.startswith(STEP_TAG)), "")


def is_absent(source: str, steps: Collection[str] | None) -> bool:
    """Does a cell's `source` do only optional steps that the drill does not have? `steps`: its steps, None: not known."""
    wanted = {name for found in _OPTIONAL.findall(source) for name in found if name}
    return steps is not None and bool(wanted) and wanted.isdisjoint(steps)


class _Client(PapermillNotebookClient):  # type: ignore[misc]
    """nbclient in papermill's clothes, which can be stopped between and within cells."""

    def __init__(  # type: ignore[no-untyped-def]
        self,
        nb_man,
        *,
        stop: Stop,
        on_progress: Listener | None,
        kernel_log: Path | None,
        early: EarlyKernel | None,
        steps: Collection[str] | None,
        **options,
    ) -> None:
        super().__init__(nb_man, km=None if early is None else early.take(), **options)
        self._early = early
        self._on_progress = on_progress
        self._steps = steps
        self._stop = stop
        self._kernel_log = kernel_log
        self._kernel: int | None = None

    def execute(self, **kwargs):  # type: ignore[no-untyped-def]
        try:
            with self._stop.kernel(self._pid), _private(self._kernel_log) as said:
                try:
                    return super().execute(stdout=said, stderr=said, cleanup_kc=True, **kwargs)
                except (NoSuchKernel, RuntimeError) as error:
                    if self._kernel is None:
                        raise self._not_started(error) from error
                    raise
                finally:
                    if self._early is not None and said is not None:
                        self._early.said.seek(0)
                        shutil.copyfileobj(self._early.said, said)
        finally:
            end_group(self._kernel)

    def _not_started(self, error: Exception) -> Unreachable:
        """Why is the last line that the process wrote; what jupyter_client says only where it wrote none."""
        why, remedy = str(error.args[0] if error.args else error), "Start it again."
        if self._kernel_log is not None:
            with open_stored(self._kernel_log) as file:
                file.seek(max(0, self._kernel_log.stat().st_size - _LAST_SAID))
                said = [line.strip() for line in file.read(_LAST_SAID).decode(errors="replace").splitlines()]
            if last := next(filter(None, reversed(said)), ""):
                why, remedy = last, f"Read {self._kernel_log} for more, and start it again."
        return Unreachable("the notebook's kernel did not start", why, remedy)

    def _pid(self) -> int | None:
        """The kernel while it lives: its provisioner forgets the process once it was waited for."""
        provisioner = getattr(self.km, "provisioner", None)
        process = getattr(provisioner, "process", None)
        return process.pid if process is not None and process.returncode is None else None

    def papermill_execute_cells(self) -> None:
        """Execute cells until one fails. Raises `Aborted` before a cell when a stop was requested, and
        `DeadKernelError` when the kernel is gone."""
        self._kernel = self._pid()
        code = [index for index, cell in enumerate(self.nb.cells) if cell.cell_type == "code"]
        for index, cell in enumerate(self.nb.cells):
            self.nb_man.cell_start(cell, index)
            try:
                if self._stop.requested:
                    raise Aborted("the run was stopped", f"by {self._stop.signal!s}", "Start it again when ready.")
                step = step_of(cell)
                if step and self._on_progress is not None and not is_absent(cell.source, self._steps):
                    self._on_progress(step, sum(before < index for before in code) / max(1, len(code)))
                self.execute_cell(cell, index)
            except CellExecutionError as error:
                _shorten(cell)
                self.nb_man.cell_exception(cell, cell_index=index, exception=error)
                break
            except BaseException as error:
                self.nb_man.cell_exception(cell, cell_index=index, exception=error)
                raise
            finally:
                self.nb_man.cell_complete(cell, cell_index=index)


class NotebookEngine(NBClientEngine):  # type: ignore[misc]
    """Runs a notebook with nbclient. `stop` (a `Stop`) ends it, `on_progress` (a `Listener`) is called for each step;
    `kernel_log` is the file to which the output of the kernel's process is appended, None: the terminal. `early` is a kernel
    that was started before (`EarlyKernel`). `steps`: those of the drill, None where it is none.

    A parameter that may be a secret ends it before papermill has written anything, also where drlib did not start papermill.
    """

    @classmethod
    def execute_notebook(cls, nb, kernel_name, **options):  # type: ignore[no-untyped-def]
        """papermill's call. Raises `UsageError` for such a parameter."""
        content = parameters.NotebookFile.model_validate(nb)
        given = nb.metadata.get("papermill", {}).get("parameters", {})
        parameters.refuse_secrets(given, parameters.declared_in("the notebook", content) or {})
        return super().execute_notebook(nb, kernel_name, **options)

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
        stop=None,
        on_progress=None,
        kernel_log=None,
        early=None,
        steps=None,
        **kwargs,
    ):
        options = merge_kwargs(
            remove_args(["input_path", "resources", "km", "timeout", "startup_timeout"], **kwargs),
            timeout=execution_timeout or kwargs.get("timeout"),
            startup_timeout=start_timeout,
            kernel_name=kernel_name,
            log=_log,
            log_output=log_output,
            stdout_file=stdout_file,
            stderr_file=stderr_file,
        )
        with TemporaryDirectory(prefix="drlib-kernel-") as sockets:
            return _Client(  # type: ignore[no-untyped-call]
                nb_man,
                stop=stop or Stop(),
                on_progress=on_progress,
                kernel_log=kernel_log,
                early=early,
                steps=steps,
                config=kernel_config(sockets),
                **options,
            ).execute()


@contextmanager
def _private(path: Path | None) -> Iterator[IO[bytes] | None]:
    """The file to append to, readable by its owner alone; it does not outlive the run when nothing was said
    but that the kernel was interrupted for its shutdown."""
    if path is None:
        yield None
        return
    with os.fdopen(stored_descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as file:
        yield file
    with open_stored(path) as file:
        beginning = file.read(10 * len(_INTERRUPTED))
    if not beginning.replace(_INTERRUPTED, b""):
        path.unlink()


def _shorten(cell) -> None:  # type: ignore[no-untyped-def]
    for output in cell.get("outputs", ()):
        if output.output_type == "error" and error_class(output.ename) is not None:
            output.traceback = [f"{output.ename}: {output.evalue}"]
