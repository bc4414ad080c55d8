"""Opens a console on a lab or on the clusters of a file: live in a notebook that takes input, else as a picture.

Rules: a kernel has one live console (`one_live`). Under papermill and nbconvert there is no widget and no thread: the clusters
are polled once and the output keeps the state.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from drlib.config.settings import load_mirror_settings
from drlib.errors import UsageError
from drlib.lab.lab import Lab
from drlib.model import Flow
from drlib.ui.console.board import attended_kernel
from drlib.ui.console.one_live import OneLive
from drlib.ui.console.picture import ConsolePicture
from drlib.ui.console.state import ConsoleState
from drlib.ui.console.watcher import Subject, Watching

if TYPE_CHECKING:
    from drlib.ui.console.widget import ConsoleWidget


class Console(OneLive):
    """A console, as `drlib.console` returns it: displayed as the last expression of a cell; `close` ends its threads."""

    def __init__(self, subject: Subject, attended: Callable[[], bool] = attended_kernel) -> None:
        super().__init__(attended)
        self.subject = subject
        self.watching = Watching(subject)

    @property
    def state(self) -> ConsoleState:
        """The latest state; polls the clusters first where no thread does."""
        if not self.watching.looking:
            self.watching.look()
        return self.watching.state()

    def picture(self) -> ConsolePicture:
        """The state now as text, HTML and a figure."""
        return ConsolePicture(self.state)

    def controls(self) -> ConsoleWidget:
        """New widgets; what was closed is watched again."""
        from drlib.ui.console.widget import ConsoleWidget

        if self.watching.closed:
            self.watching = Watching(self.subject)
        return ConsoleWidget(self.watching)

    def close(self) -> None:
        """End its threads; drills, mirrors and clusters continue. Safe to repeat."""
        super().close()
        self.watching.close()


def open_console(
    of: str | Path | Flow = "",
    *,
    lab_dir: str | Path = "",
    runs_dir: str | Path = "",
) -> Console:
    """A console on a properties file, or on a lab; `of` may be one of the lab's flows, "LEFT->RIGHT".

    `runs_dir` is where drills keep their runs; unless given, `runs` here or above. Raises `UsageError` where there is
    neither a file nor a lab, `ConfigError` for a file that is wrong.
    """
    flow, file = _split(of)
    if file is not None and str(lab_dir):
        raise UsageError("a lab and a properties file", "a console shows one of them", "Give only one.")
    runs = Path(runs_dir) if str(runs_dir) else _runs()
    if file is not None:
        enabled = [str(setting.flow) for setting in load_mirror_settings(file).flows if setting.enabled]
        if not enabled:
            raise UsageError(f"nothing to show of {file}", "no flow is enabled", "Set 'A->B.enabled = true'.")
        return Console(Subject(None, file.absolute(), runs))
    lab = Lab.attach(Path(lab_dir) if str(lab_dir) else _lab_dir())
    aliases = tuple(lab.clusters)
    if flow and not set(flow.split("->")) <= set(aliases):
        raise UsageError(
            f"flow {flow}", f"the lab has {', '.join(aliases)}", "Name one of its flows, or none to show all."
        )
    return Console(Subject(lab, None, runs, flow))


def _split(of: str | Path | Flow) -> tuple[str, Path | None]:
    if isinstance(of, Flow) or (isinstance(of, str) and "->" in of and not Path(of).exists()):
        source, _, target = str(of).partition("->")
        return f"{source.strip()}->{target.strip()}", None
    return "", Path(of) if str(of) else None


def _runs() -> Path:
    """The folder `runs` of the project: here or above; where there is none yet, beside the notebooks."""
    for place in (Path.cwd(), *Path.cwd().parents):
        if (place / "runs").is_dir():
            return place / "runs"
    return Path.cwd().parent / "runs" if Path.cwd().name == "notebooks" else Path.cwd() / "runs"


def _lab_dir() -> Path:
    for place in (Path.cwd(), *Path.cwd().parents):
        if (place / ".lab").is_dir():
            return place / ".lab"
    return Path(".lab")
