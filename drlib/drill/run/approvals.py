"""Approvals given in a run's folder: the file `approved`, one line each, `STEP of PLAN` or `STEP of PLAN by NAME`.

Rules: PLAN is the whole hash of the plan that the approver has seen; a line for another plan, or for none, approves nothing,
and the run says so while it waits. A line is appended in one write, so that several people and an editor can add lines; no
line is ever removed. What is in the file counts when the step is reached, whichever process runs it.
Not for: approvals given with the run's request (`--approve`), which are in `run.json`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from drlib.errors import UsageError
from drlib.files import read_stored, stored_descriptor, sync_folder

APPROVED_FILE: Final = "approved"
MOST_BYTES: Final = 1 << 20
UNNAMED: Final = "file"  # a line without a name
_DIGITS: Final = 12  # of a hash, in a message
_LINE: Final = re.compile(r"(\S.*?) of ([0-9a-f]{64})(?: by (\S.{0,199}))?")


@dataclass(frozen=True, slots=True)
class Approvals:
    """`by`: who approved each step, the first one where several did. `refused`: why other lines approve nothing."""

    by: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()


def line(step: str, plan: str) -> str:
    """The line that approves `step` of the plan with the hash `plan`."""
    return f"{step} of {plan}"


def read(run_dir: Path, plan: str) -> Approvals:
    """What the file says of the plan with the hash `plan`. A file that cannot be read approves nothing."""
    try:
        text = read_stored(run_dir / APPROVED_FILE, MOST_BYTES, trusted=True).decode()
    except FileNotFoundError:
        return Approvals()
    except OSError as error:
        return Approvals(refused=(f"{APPROVED_FILE} cannot be read ({error.strerror or error})",))
    except UnicodeDecodeError:
        return Approvals(refused=(f"{APPROVED_FILE} is not UTF-8",))
    by: dict[str, str] = {}
    refused = []
    for number, written in enumerate(text.split("\n"), 1):
        match = _LINE.fullmatch(written.strip())
        if match is not None and match[2] == plan:
            by.setdefault(match[1], match[3] or UNNAMED)
        elif match is not None:
            other = f"plan {match[2][:_DIGITS]}, and the run's is {plan[:_DIGITS]}"
            refused.append(f"line {number} of {APPROVED_FILE} is for {other}")
        elif written.strip():
            refused.append(f"line {number} of {APPROVED_FILE} names no plan")
    return Approvals(by, tuple(refused))


def write(run_dir: Path, step: str, plan: str, by: str) -> str:
    """Approve `step` of `plan` in the name of `by`; the name as it was written. Raises `UsageError` for an empty one, and
    where the file is none."""
    name = " ".join(by.split())[:200]
    if not name:
        raise UsageError(f"step {step} is not approved", "no name was given", "Say who approves it.")
    try:
        handle = stored_descriptor(run_dir / APPROVED_FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND, trusted=True)
    except OSError as error:
        why = f"{APPROVED_FILE} cannot be written ({error.strerror or error})"
        raise UsageError(f"step {step} is not approved", why, f"Remove {run_dir / APPROVED_FILE}.") from error
    try:
        size = os.fstat(handle).st_size
        begun = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # an editor left the last line without its end
        os.write(handle, ("\n" * begun + f"{line(step, plan)} by {name}\n").encode())
        os.fsync(handle)
        sync_folder(run_dir)
    finally:
        os.close(handle)
    return name
