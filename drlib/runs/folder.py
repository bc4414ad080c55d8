"""One folder a run: runs/<UTC>-<runbook>-<id>/, private, with a manifest of what is in it.

Rules: folders 0700, files 0600; `manifest.sha256` is what `sha256sum -c` reads, is written last, and appears whole or
not at all. Links are neither followed nor listed: what they point to is not this run's.
"""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from drlib.errors import UsageError
from drlib.files import read_stored, write_whole
from drlib.runs.lock import alone

MANIFEST = "manifest.sha256"
EXECUTING = ".executing"  # held by the process that executes the run's notebook


@dataclass(frozen=True, slots=True)
class RunFolder:
    path: Path
    run_id: str


def create(runs_dir: Path, runbook: str) -> RunFolder:
    """Make a new run folder. Raises `UsageError` where it cannot be."""
    run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{runbook}-{secrets.token_hex(3)}"
    path = (runs_dir / run_id).absolute()
    try:
        runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
    except OSError as error:
        raise unwritable(runs_dir, error) from error
    return RunFolder(path, run_id)


def unwritable(where: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{where} cannot be written", f"{error.strerror or error}, and nothing was begun", "Make room, or name another."
    )


def executing(folder: Path) -> AbstractContextManager[None]:
    """While inside, no other process executes the run in `folder`. Raises `LeaseHeld` when one does."""
    return alone(folder, EXECUTING, "another process executes it", "Let it end, or: drlib abort RUN.")


def set_aside(folder: Path, name: str) -> Path | None:
    """Keep an earlier `name` under the next number, as `executed-1.ipynb`; None when there is none."""
    path = folder / name
    if not path.exists():
        return None
    number = next(n for n in count(1) if not path.with_stem(f"{path.stem}-{n}").exists())
    return path.rename(path.with_stem(f"{path.stem}-{number}"))


def seal(folder: Path) -> Path:
    """Make everything in it private and write the manifest over all files."""
    lines = []
    for path in _entries(folder):
        if path.is_dir():
            path.chmod(0o700)
        elif path.is_file():
            path.chmod(0o600)
            lines.append(f"{_digest(path)}  {_name(path, folder)}\n")
    manifest = folder / MANIFEST
    write_whole(manifest, "".join(lines))
    return manifest


def broken(folder: Path) -> tuple[str, ...]:
    """Names that are missing, not what the manifest says, or not in it at all."""
    listed = {
        line[66:]: line[:64] for line in read_stored(folder / MANIFEST).decode(errors="replace").splitlines()
    }  # 64 hex digits, 2 spaces
    files = {_name(path, folder): path for path in _entries(folder) if path.is_file()}
    changed = [name for name, digest in listed.items() if name not in files or _digest(files[name]) != digest]
    return (*changed, *sorted(files.keys() - listed.keys()))


def _entries(folder: Path) -> Iterator[Path]:
    """Files and folders below, in the order of their names, without links and the manifest."""
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink() and path.relative_to(folder).as_posix() != MANIFEST:
            yield path


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
