"""JupyterLab as a part of the product: one command, the first notebook open, no dialogs or notifications in the way.

Rules: it listens on 127.0.0.1 only and keeps its token; figures follow its theme (`figures.dark`), and a saved notebook says
where widgets were (`saved_widgets`); kernel connections are encrypted where kernels support it; no news,
updates or extension catalogue are fetched. Settings, workspaces and configuration are in the product's own folder, so
`~/.jupyter` is neither read nor changed; each start has its own workspace, as a restored one would open documents whose
kernels are dead. The server is a child process that ends with this one; the files of one start are removed with it, settings
made in JupyterLab stay. Its kernels run `kernel_startup.py`, unless the user has a PYTHONSTARTUP.
Not for: starting a lab, which the notebooks do.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from drlib import decoding
from drlib.errors import MissingDependency, Unreachable, UsageError
from drlib.files import read_stored, write_whole
from drlib.lab.ports import free_ports
from drlib.lab.processes import ProcessRegistry, wait_until
from drlib.outgoing import http_request
from drlib.ui import saved_widgets
from drlib.ui.figures import dark

FIRST: Final = Path("notebooks") / "00_start_here.ipynb"
HOST: Final = "127.0.0.1"
READY_S: Final = 90.0
END_S: Final = 10.0
MOST_BYTES: Final = 1 << 20  # of an answer of its own server
# Code in text breaks in a narrow cell: it would scroll, and JupyterLab does not make that reachable by keyboard.
WRAPPED: Final = ".jp-MarkdownOutput :is(pre, code) { white-space: pre-wrap; overflow-wrap: anywhere; }\n"
CSS: Final = Path("config") / "custom" / "custom.css"  # where jupyter-server looks for it
_NAME: Final = "jupyterlab"
_TAIL: Final = 12

# Dialogs and notifications that JupyterLab would show by itself. Source: the schemas it installs (share/jupyter/lab/schemas).
OVERRIDES: Final[Mapping[str, Mapping[str, object]]] = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/extensionmanager-extension:plugin": {"enabled": False},
    "@jupyterlab/docmanager-extension:plugin": {
        "renameUntitledFileOnSave": False,
        "autosaveInterval": 10,
    },  # a reload finds it
    "@jupyterlab/notebook-extension:tracker": {
        "autoStartDefaultKernel": True
    },  # else "Select Kernel" may stand in the way
    "@jupyterlab/apputils-extension:kernels-settings": {
        "commsOverSubshells": "perCommTarget"
    },  # clicks while a cell runs
}


class JupyterLab:
    """A server on the project in `project`, which has notebooks/00_start_here.ipynb. A context manager.

    `port` 0 is any free one; `arguments` go to `jupyter lab` as they are; `state` is where settings stay.
    """

    def __init__(
        self,
        project: Path,
        *,
        port: int = 0,
        browser: bool = True,
        arguments: Sequence[str] = (),
        state: Path | None = None,
    ) -> None:
        self.project = project.absolute()
        self._port = port
        self._browser = browser
        self._arguments = tuple(arguments)
        self._state = state or own_folder()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._registry: ProcessRegistry | None = None
        self.url = ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Self:
        """Start it, and return when it serves; `url` then is where, with the token.

        Raises `UsageError` (the port is taken), `MissingDependency`, `Unreachable` (it did not come up).
        """
        prepare(self._state)
        port = self._port or free_ports(1)[0]
        self._folder = tempfile.TemporaryDirectory(prefix="drlib-notebook-")  # 0700, gone with the server
        run_dir = Path(self._folder.name)
        self._registry = ProcessRegistry(run_dir)
        try:
            self._registry.start(
                _NAME,
                command(port, browser=self._browser, state=self._state, run=run_dir, arguments=self._arguments),
                log=run_dir / "jupyterlab.log",
                env=environment(self._state, run_dir / "runtime"),
                cwd=self.project,
            )
            self.url = self._wait(run_dir / "runtime", port)
        except BaseException:
            self.close()
            raise
        return self

    def wait(self, over: Callable[[], bool]) -> None:
        """Wait until `over` is set, or the server ended by itself (File > Shut Down)."""
        wait_until(lambda: over() or not self.alive, float("inf"), every_s=0.1)

    @property
    def alive(self) -> bool:
        return self._registry is not None and self._registry.alive(_NAME)

    def close(self) -> None:
        """End the server and its kernels. Safe to repeat; labs and workers that are to outlive a kernel do."""
        if self._registry is not None:
            self._registry.stop_all(deadline_s=END_S)
            self._registry = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _wait(self, runtime: Path, port: int) -> str:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            for file in runtime.glob("jpserver-*.json"):
                token = _token(file)
                if token is not None and _answers(f"http://{HOST}:{port}/api"):
                    return f"http://{HOST}:{port}/lab/tree/{quote(str(FIRST))}?token={token}"
            if not self.alive:
                raise _failed(self._tail(), port)
            time.sleep(0.05)
        raise Unreachable("JupyterLab did not start", f"it did not answer within {READY_S:g} s", "Try again.")

    def _tail(self) -> list[str]:
        log = Path(self._folder.name) / "jupyterlab.log" if self._folder else None
        return log.read_text(errors="replace").splitlines()[-_TAIL:] if log is not None and log.exists() else []


def find_project(start: Path) -> Path:
    """The folder with the notebooks: `start` or one above it. Raises `UsageError`."""
    for place in (start, *start.absolute().parents):
        if (place / FIRST).is_file():
            return place
    raise UsageError(
        f"{FIRST} was not found",
        f"it is neither in {start.absolute()} nor in a folder above it",
        "Run it in the folder that has them, or copy them into this one: drlib notebook --copy",
    )


def own_folder() -> Path:
    """Where settings stay between starts: XDG's state folder of this user."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "drlib" / "jupyterlab"


def prepare(state: Path) -> None:
    """Make the folders, and write what JupyterLab takes as its defaults, and the style sheet."""
    for part in ("application", "settings", "config", CSS.parent):
        (state / part).mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(state / CSS, dark.style_sheet() + WRAPPED)
    write_whole(state / "application" / "overrides.json", json.dumps(OVERRIDES, indent=1) + "\n")


def command(port: int, *, browser: bool, state: Path, run: Path, arguments: Sequence[str] = ()) -> list[str]:
    """The command line; `run` is the folder of this start alone. Source: `jupyter lab --help-all`."""
    return [
        *(sys.executable, "-P", "-m", "jupyterlab"),
        f"--ServerApp.ip={HOST}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",  # the printed address must be the one it listens on
        "--ServerApp.password_required=False",
        f"--ServerApp.open_browser={browser}",
        f"--LabApp.open_browser={browser}",
        f"--LabApp.default_url=/lab/tree/{quote(str(FIRST))}",
        f"--LabApp.app_settings_dir={state / 'application'}",
        f"--LabApp.user_settings_dir={state / 'settings'}",
        f"--LabApp.workspaces_dir={run / 'workspaces'}",
        "--LabApp.news_url=",  # nothing is fetched even if a user turns the setting on
        "--LabApp.extension_manager=readonly",
        "--LabApp.custom_css=True",
        f"--ContentsManager.pre_save_hook={saved_widgets.__name__}.{saved_widgets.before_save.__name__}",
        "--KernelManager.transport_encryption=auto",
        *(["--ServerApp.allow_root=True"] if os.geteuid() == 0 else []),  # containers; it listens to this machine alone
        *arguments,
    ]


def environment(state: Path, runtime: Path) -> dict[str, str]:
    """Environment variables besides those of this process."""
    package = str(Path(__file__).parents[2])  # the package may be run from its source tree without being installed
    return {
        "JUPYTER_CONFIG_DIR": str(state / "config"),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYTHONPATH": os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONSTARTUP": os.environ.get("PYTHONSTARTUP") or str(Path(__file__).with_name("kernel_startup.py")),
    }


def _token(file: Path) -> str | None:
    """The token in the server's info file; None while it is being written."""
    try:
        server = decoding.json_value(read_stored(file))
    except (OSError, ValueError):
        return None
    return str(server["token"]) if isinstance(server, dict) and "token" in server else None


def _answers(url: str) -> bool:
    try:
        request = http_request.Request(http_request.parse(url), timeout_s=2.0, secret=True)
        return http_request.fetch(request, MOST_BYTES).status == HTTPStatus.OK
    except http_request.NoAnswer:
        return False


def _failed(tail: list[str], port: int) -> Exception:
    text = "\n".join(tail)
    if "already in use" in text:
        return UsageError(
            f"port {port} is taken", "another process listens on it", "Leave --port out to use a free port."
        )
    if "No module named" in text:
        return MissingDependency(
            "JupyterLab is not installed", tail[-1].strip(), "Install it: pip install 'drlib[notebooks]'"
        )
    last = next((line for line in reversed(tail) if line.strip()), "it ended without output")
    return Unreachable("JupyterLab did not start", last, "Check the arguments after --.")
