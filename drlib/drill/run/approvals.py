"""Approvals given in a run's folder: the file `approved`, one line each, `STEP` or `STEP by NAME`.

Rules: a line is appended in one write, so that several people and an editor can add lines; no line is ever removed. What is in
the file counts when the step is reached, whichever process runs it.
Not for: approvals given with the run's request (`--approve`), which are in `run.json`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from drlib.errors import UsageError
from drlib.files import read_stored

APPROVED_FILE: Final = "approved"
MOST_BYTES: Final = 1 << 20
UNNAMED: Final = "file"  # a line without a name
_BY: Final = " by "


def read(run_dir: Path) -> Mapping[str, str]:
    """Who approved each step, the first one where several did."""
    try:
        text = read_stored(run_dir / APPROVED_FILE, MOST_BYTES).decode()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{run_dir / APPROVED_FILE} cannot be read", str(error), "Write one line a step.") from None
    approvals: dict[str, str] = {}
    for line in text.splitlines():
        step, _, by = line.strip().partition(_BY)
        if step:
            approvals.setdefault(step.strip(), by.strip() or UNNAMED)
    return approvals


def write(run_dir: Path, step: str, by: str) -> str:
    """Approve `step` in the name of `by`; the name as it was written. Raises `UsageError` for an empty one."""
    name = " ".join(by.split())
    if not name:
        raise UsageError(f"step {step} is not approved", "no name was given", "Say who approves it.")
    handle = os.open(run_dir / APPROVED_FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(handle).st_size
        begun = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # an editor left the last line without its end
        os.write(handle, ("\n" * begun + f"{step}{_BY}{name}\n").encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    return name
