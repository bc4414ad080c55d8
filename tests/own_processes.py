"""What a run has left behind on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def processes_of(place: Path) -> list[str]:
    """Command lines of processes that name a path under `place`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(place) in line:
                found.append(line[:200])
    return found
