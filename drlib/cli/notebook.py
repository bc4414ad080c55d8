"""`drlib notebook`: JupyterLab on the project's notebooks, with the first one open, until Ctrl-C."""

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from drlib.errors import UsageError
from drlib.extras import require
from drlib.files import read_given, write_whole
from drlib.outgoing.terminal import show

LAB_DIR = Path(".lab")
_COPIED: Final = frozenset({".ipynb", ".yaml"})


def notebook(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENT]...", help="Passed to jupyter lab unchanged.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0: any free port.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    lab_dir: Annotated[Path, typer.Option("--lab-dir", help="The folder of the lab to report on.")] = LAB_DIR,
    copy: Annotated[
        bool,
        typer.Option("--copy", help="First copy drlib's notebooks and runbooks into this folder; existing files stay."),
    ] = False,
) -> None:
    """Start JupyterLab on 127.0.0.1 with notebooks/00_start_here.ipynb open. Ctrl-C ends it; a lab keeps running."""
    from drlib.runs.signals import SignalSafeEvent, handled
    from drlib.ui.jupyterlab import JupyterLab, find_project

    require("notebooks", "drlib notebook")
    if copy:
        copy_shipped(Path.cwd())
    project = find_project(Path.cwd())
    stop = SignalSafeEvent()
    with (
        handled(lambda *_: stop.set()),
        JupyterLab(project, port=port, browser=browser, arguments=arguments or ()) as it,
    ):
        show("JupyterLab runs. In a browser:", error=True)
        show(it.url)  # the one line of stdout: a script can read it
        show(lab_line(lab_dir), error=True)
        show("Ctrl-C ends JupyterLab and its kernels; labs and mirrors keep running.", error=True)
        it.wait(stop.is_set)
    show("JupyterLab has ended.", error=True)


def copy_shipped(to: Path) -> None:
    """Copy the notebooks and runbooks that come with drlib into `to`; what is there already stays. Raises `UsageError`."""
    from drlib.runbook.file import find

    for name in ("notebooks", "runbooks"):
        folder = find.shipped(name)
        if folder is None:
            raise UsageError(f"drlib's {name} are missing", "this installation has none", "Install drlib again.")
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            new, hidden = (
                to / name / inside,
                any(part.startswith(".") for part in inside.parts),
            )  # JupyterLab's checkpoints
            if not hidden and path.is_file() and path.suffix in _COPIED and not os.path.lexists(new):
                new.parent.mkdir(parents=True, exist_ok=True)
                write_whole(new, read_given(path, "a file of drlib"))


def lab_line(directory: Path) -> str:
    """Whether a lab runs in `directory`, in one line."""
    from drlib.lab.lab import Lab

    typed = f"--dir {shlex.quote(str(directory))}"
    lab = None
    with suppress(UsageError):
        lab = Lab.attach(directory)
    if lab is None or not (lab.owner or any(process.alive for process in lab.status())):
        return f"No lab is running in {directory}: the notebooks start one, or run `drlib lab up {typed}`."
    down = [alias for alias, cluster in lab.clusters.items() if not cluster.alive]
    if down and lab.owner:
        return (
            f"The lab in {directory} is of {lab.owner}, and {', '.join(down)} is not running. Run the notebook again "
            f"from its top: it continues. Or end it: `drlib lab down {typed}`."
        )
    if down:
        again = f"`drlib lab down {typed}`, then `drlib lab up {typed}`"
        return f"The lab in {directory}: {', '.join(down)} is not running. Restart it: {again}."
    return f"The lab in {directory} is running: {', '.join(lab.clusters)}."
