"""The files beside a report, with size and SHA-256."""

import hashlib
from pathlib import Path
from typing import Final

from drlib.files import open_stored

NAME: Final = "report.html"
NOT_HASHED: Final = frozenset({NAME, "manifest.sha256"})  # written after, or together with, the page


def digests(folder: Path) -> tuple[tuple[str, int, str], ...]:
    """(name, bytes, SHA-256) of each file beside the report, by name; hidden files and links are left out."""
    rows = []
    for path in sorted(folder.iterdir()):
        if path.name in NOT_HASHED or path.name.startswith(".") or path.is_symlink() or not path.is_file():
            continue
        with open_stored(path) as file:
            rows.append((path.name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()))
    return tuple(rows)
