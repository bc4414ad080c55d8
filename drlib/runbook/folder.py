"""One folder a run: runs/<UTC>-<runbook>-<id>/, private, with a manifest of what is in it.

Rules: folders 0700, files 0600; `manifest.sha256` is what `sha256sum -c` reads, is written last, and appears whole or
not at all. Links are neither followed nor listed: what they point to is not this run's.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

MANIFEST = "manifest.sha256"


@dataclass(frozen=True, slots=True)
class RunFolder:
    path: Path
    run_id: str


def create(runs_dir: Path, runbook: str) -> RunFolder:
    """Make a new run folder."""
    run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{runbook}-{secrets.token_hex(3)}"
    path = (runs_dir / run_id).absolute()
    runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700)
    return RunFolder(path, run_id)


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
    draft = folder / f".{MANIFEST}.{secrets.token_hex(6)}"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.writelines(lines)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(manifest)
    return manifest


def broken(folder: Path) -> tuple[str, ...]:
    """Names that are missing, not what the manifest says, or not in it at all."""
    listed = {line[66:]: line[:64] for line in (folder / MANIFEST).read_text().splitlines()}  # 64 hex digits, 2 spaces
    found = {_name(path, folder): path for path in _entries(folder) if path.is_file()}
    changed = [name for name, digest in listed.items() if name not in found or _digest(found[name]) != digest]
    return (*changed, *sorted(found.keys() - listed.keys()))


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
