"""The report printed on A4, by a Chromium on this machine.

Rules: the browser gets the page as a file, no address that leads anywhere, a profile of its own that is deleted, and an
environment of named variables; it has one minute. What it wrote is a PDF or an error, and is in place whole or not at all.
Not for: what is on paper and what is not (`templates/report.css`).
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from drlib.errors import MissingDependency, UsageError
from drlib.files import read_stored, write_whole
from drlib.outgoing.environment import child_environment

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
MOST_BYTES: Final = 32 << 20
LIMIT_S: Final = 60.0
_INSTEAD: Final = "or take --md, which needs none."


def browser() -> str:
    """The path of a Chromium. Raises `MissingDependency` without one."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise MissingDependency(
            "a report cannot be printed",
            "no Chromium is on PATH",
            f"Install one (Debian and Ubuntu: apt-get install chromium), {_INSTEAD}",
        )
    return found


def write_pdf(page: str, path: Path) -> None:
    """Print the HTML `page` to `path`. Raises `MissingDependency`, `UsageError` where that fails, OSError."""
    program = browser()
    with tempfile.TemporaryDirectory(prefix="drlib-print-") as name:
        folder = Path(name)
        source, printed = folder / "report.html", folder / "report.pdf"
        write_whole(source, page.encode())
        try:
            done = subprocess.run(
                [program, *options(folder, printed), source.as_uri()],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LIMIT_S,
                check=False,
                env=child_environment(),
            )
            data = read_stored(printed, MOST_BYTES)
        except subprocess.TimeoutExpired:
            raise _failed(program, f"it did not end within {LIMIT_S:g} s") from None
        except OSError as error:
            raise _failed(program, f"no page was written ({error.strerror or error})") from error
        if done.returncode or not data.startswith(b"%PDF-"):
            raise _failed(program, f"exit code {done.returncode}, and what it wrote is no PDF")
    write_whole(path, data)


def options(folder: Path, printed: Path) -> tuple[str, ...]:
    """Headless, without any network, as wide as A4 without its margins."""
    return (
        "--headless",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=688,1000",
        "--virtual-time-budget=10000",
        "--no-pdf-header-footer",
        f"--print-to-pdf={printed}",
        *(("--no-sandbox",) if os.geteuid() == 0 else ()),  # Chromium refuses to run as root with it
    )


def _failed(program: str, why: str) -> UsageError:
    return UsageError(f"{Path(program).name} could not print the report", why, f"Try another browser, {_INSTEAD}")
