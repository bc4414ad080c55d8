"""One folder a run: runs/<UTC>-<runbook>-<id>/, private, with a manifest of what is in it.

Rules: folders 0700, files 0600; `manifest.sha256` is what `sha256sum -c` reads, is written last, and appears whole or
not at all. A run that continues has none until it ends again. Links are neither followed nor listed: what they point to is
not this run's; nor are requests to a run (`abort`, `approved`) that people added after its end.
Not for: whether what a folder says can be relied on (`drlib.drill.run.stored_run`).
"""

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

from drlib.errors import UsageError
from drlib.files import make_folder, open_stored, read_stored, remove_stored, sync_folder, write_whole
from drlib.runs.journal import JOURNAL
from drlib.runs.lock import alone, held
from drlib.runs.scorecard import SCORECARD, Scorecard

MANIFEST: Final = "manifest.sha256"
EXECUTING: Final = ".executing"  # held by the process that executes the run's notebook
NAME: Final = re.compile(r"(\d{8}T\d{6}Z)-([a-z0-9][a-z0-9._-]*)-[0-9a-f]{6}")
MOST_HASHED: Final = 8 << 30  # bytes of one file
_REQUESTS: Final = frozenset({"abort", "approved"})
_LINE: Final = re.compile(r"([0-9a-f]{64})  (.+)")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`first`: the folder of runs was made for it."""

    path: Path
    run_id: str
    first: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """What is wrong with one file of a run. `missing`: it is not there, and nothing else is wrong with it."""

    file: str
    why: str
    missing: bool = False

    def __str__(self) -> str:
        return f"{self.file}: {self.why}"


def create(runs_dir: Path, runbook: str) -> RunFolder:
    """Make a new run folder. Raises `UsageError` where it cannot be."""
    run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{runbook}-{secrets.token_hex(3)}"
    path = (runs_dir / run_id).absolute()
    try:
        first = not runs_dir.exists()
        make_folder(runs_dir)
        path.mkdir(mode=0o700)
        sync_folder(runs_dir)
    except OSError as error:
        raise unwritable(runs_dir, error) from error
    return RunFolder(path, run_id, first)


def opened(run_dir: str | Path, runbook: str) -> Path:
    """The folder of a run that is opened in a notebook: `run_dir`, made where it is not there; empty: a new one under ../runs.

    Raises `UsageError` where it cannot be.
    """
    if not str(run_dir):
        return create(Path("..") / "runs", runbook).path
    path = Path(run_dir).expanduser().absolute()
    try:
        make_folder(path)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "it may not be written to")
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"{path} is not a folder", "it is to hold the files of a run", "Name a folder.") from None
    except OSError as error:
        raise unwritable(path, error) from error
    return path


def discard(run: RunFolder) -> None:
    """Delete the folder of a run that was not begun, and the folder of runs if it was made for it."""
    shutil.rmtree(run.path, ignore_errors=True)
    if run.first:
        with suppress(OSError):  # another run is there meanwhile
            run.path.parent.rmdir()


def refuse_file(runs_dir: Path) -> None:
    """Raises `UsageError` where `runs_dir` is there and is no folder."""
    if runs_dir.exists() and not runs_dir.is_dir():
        raise UsageError(f"{runs_dir} is not a folder", "it is to have the folders of runs", "Give one: --runs-dir.")


def refuse_unusable(runs_dir: Path) -> None:
    """Raises `UsageError` where no run folder can be made in `runs_dir`. Makes nothing."""
    for path in (runs_dir.absolute(), *runs_dir.absolute().parents):
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise unwritable(runs_dir, error) from error
        if not stat.S_ISDIR(mode):
            raise unwritable(runs_dir, NotADirectoryError(errno.ENOTDIR, f"{path} is not a folder"))
        if not os.access(path, os.W_OK | os.X_OK):
            raise unwritable(runs_dir, PermissionError(errno.EACCES, f"{path} may not be written to"))
        return


def unwritable(where: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{where} cannot be written",
        f"{error.strerror or error}, and nothing was begun",
        "Make room, or name another folder.",
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


def conclude(folder: Path, card: Scorecard) -> None:
    """Put the scorecard into it, and seal it where the run has the folder to itself.

    A process that executes the run's notebook seals it at its end.
    """
    unseal(folder)
    card.write(folder / SCORECARD)
    own = NAME.fullmatch(folder.name) is not None or (folder / JOURNAL).exists()
    if own and not held(folder, EXECUTING):
        seal(folder)


def seal(folder: Path) -> Path:
    """Make everything in it private and write the manifest over all files."""
    lines = []
    for name, mode in _entries(folder):
        if stat.S_ISDIR(mode):
            (folder / name).chmod(0o700)
        elif stat.S_ISREG(mode):
            with suppress(FileNotFoundError):  # a process that still writes there took it away
                lines.append(f"{_digest(folder / name, private=True)}  {name}\n")
    manifest = folder / MANIFEST
    write_whole(manifest, "".join(lines))
    return manifest


def unseal(folder: Path) -> None:
    """Remove the manifest: what is in the folder is going to change."""
    remove_stored(folder / MANIFEST)


@contextmanager
def amended(folder: Path, name: str) -> Iterator[None]:
    """While inside, another run changes the file `name` of the run in `folder`. Where that is sealed, and the file is as its
    manifest says, it is so afterwards too."""
    try:
        hashes = dict(listed(folder))
        right = name in hashes and hashes[name] == _digest(folder / name)
    except (OSError, ValueError):
        hashes, right = {}, False
    yield
    if right:
        hashes[name] = _digest(folder / name)
        write_whole(folder / MANIFEST, "".join(f"{digest}  {each}\n" for each, digest in hashes.items()))


def differences(folder: Path, read: Mapping[str, bytes] = MappingProxyType({})) -> tuple[Difference, ...]:
    """What in `folder` is not as its manifest says. Raises OSError where that cannot be read.

    `read` has contents that were read already, which are compared in place of the files'.
    """
    try:
        hashes = listed(folder)
    except ValueError as error:
        return (Difference(MANIFEST, str(error)),)
    found = dict(_entries(folder))
    wrong = []
    for name in sorted(hashes.keys() | (found.keys() - _REQUESTS)):
        mode = found.get(name)
        if mode is None:
            wrong.append(Difference(name, "it is missing", missing=True))
        elif stat.S_ISDIR(mode):
            if name in hashes:
                wrong.append(Difference(name, "it is a folder"))
        elif not stat.S_ISREG(mode):
            wrong.append(Difference(name, "it is not a regular file"))
        elif name not in hashes:
            wrong.append(Difference(name, f"it is not in {MANIFEST}"))
        else:
            try:
                digest = hashlib.sha256(read[name]).hexdigest() if name in read else _digest(folder / name)
            except OSError as error:
                wrong.append(Difference(name, f"it cannot be read ({error.strerror or error})"))
                continue
            if digest != hashes[name]:
                wrong.append(Difference(name, f"it is not what {MANIFEST} says"))
    return tuple(wrong)


def listed(folder: Path) -> Mapping[str, str]:
    """SHA-256 by file, as the manifest in `folder` says. Raises ValueError for another file than drlib writes, OSError."""
    hashes: dict[str, str] = {}
    *lines, last = read_stored(folder / MANIFEST).decode(errors="replace").split("\n")
    for number, line in enumerate((*lines, *([last] if last else ())), 1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in hashes or line is last:
            raise ValueError(f"line {number} was not written by drlib")
        hashes[match[2]] = match[1]
    return hashes


def _entries(folder: Path) -> Iterator[tuple[str, int]]:
    """Names and modes of everything below, in the order of the names, without the manifest. Links are not followed."""
    names = [
        os.path.relpath(os.path.join(where, name), folder)
        for where, folders, files in os.walk(folder)
        for name in (*folders, *files)
    ]
    for name in sorted(names):
        if name != MANIFEST:
            with suppress(FileNotFoundError):
                yield name, (folder / name).lstat().st_mode


def _digest(path: Path, *, private: bool = False) -> str:
    with open_stored(path) as file:
        if private:
            os.fchmod(file.fileno(), 0o600)
        if os.fstat(file.fileno()).st_size > MOST_HASHED:
            raise OSError(f"it is larger than {MOST_HASHED} bytes")
        return hashlib.file_digest(file, "sha256").hexdigest()
