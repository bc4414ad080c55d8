"""One folder a run: runs/<UTC>-<runbook>-<id>/, private, with a manifest of what is in it.

Rules: folders 0700, files 0600; `manifest.sha256` is what `sha256sum -c` reads and is written last.
"""

from __future__ import annotations

import hashlib
import secrets
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
    """Make every file private and write the manifest over all of them."""
    lines = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST):
        path.chmod(0o600)
        lines.append(f"{_digest(path)}  {path.relative_to(folder).as_posix()}\n")
    manifest = folder / MANIFEST
    manifest.write_text("".join(lines))
    manifest.chmod(0o600)
    return manifest


def broken(folder: Path) -> tuple[str, ...]:
    """Names that are missing or not what the manifest says."""
    found = []
    for line in (folder / MANIFEST).read_text().splitlines():
        digest, _, name = line.partition("  ")
        path = folder / name
        if not path.is_file() or _digest(path) != digest:
            found.append(name)
    return tuple(found)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
