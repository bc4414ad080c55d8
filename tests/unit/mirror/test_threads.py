"""The memory of threads that come and go."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from repository_root import ROOT

WORKER = """
import contextlib, ctypes, sys, threading
from pathlib import Path
from drlib.config.settings import load_mirror_settings
from drlib.errors import UsageError
from drlib.mirror import worker

with contextlib.suppress(UsageError):  # no flow is enabled
    worker.run(load_mirror_settings(Path(sys.argv[1])))
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.fopen.restype = ctypes.c_void_p, ctypes.c_void_p
together = threading.Barrier(12)

def blocking():
    together.wait()
    libc.malloc(100_000)
    together.wait()

threads = [threading.Thread(target=blocking) for _ in range(12)]
for each in (*threads,):
    each.start()
for each in threads:
    each.join()
out = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, out)
libc.fclose(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are glibc's")
def test_worker_whose_threads_come_and_go_has_few_arenas(tmp_path: Path) -> None:
    """A worker of 900 partitions grew by 11 MB in twelve minutes while its clusters were dead, and by nothing with two."""
    file, said = tmp_path / "mirror.properties", tmp_path / "malloc.xml"
    file.write_text("clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", WORKER, str(file), str(said)]
    subprocess.run(argv, check=True, timeout=100, env=environment, cwd=tmp_path)
    assert said.read_text().count("<heap nr=") <= 2
