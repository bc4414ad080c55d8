"""Locks of a run on a file system that has none, as NFS without its lock service: the kernel answers ENOLCK."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

FLOCK = {"x86_64": 73, "aarch64": 32}
# A filter of the kernel (seccomp): whatever this process asks by flock(2) is answered with ENOLCK, 37.
REFUSING = """
import ctypes, struct
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, {number}), (0x06, 0, 0, 0x00050000 | 37), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
from pathlib import Path
from drlib.errors import UsageError
from drlib.runs.lock import alone, held
folder = Path({folder!r})
for ask in (lambda: alone(folder, ".lock", "why", "remedy").__enter__(), lambda: held(folder, ".lock")):
    try:
        ask()
    except UsageError as error:
        print(error)
"""


@pytest.mark.skipif(platform.machine() not in FLOCK, reason="the number of flock(2) is known for these machines only")
def test_lock_where_there_are_none_is_refused_with_what_to_do(tmp_path: Path) -> None:
    program = REFUSING.format(number=FLOCK[platform.machine()], folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("takes no locks (No locks available)" in line and "--runs-dir" in line for line in lines)
