"""A console tool ends with the client that started it, also while its cluster is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fix_engine import wait_for


def started(folder: Path, tool: str) -> tuple[subprocess.Popen[bytes], int]:
    """The client with a producer that is a shell script, and the process ID of that."""
    script, pid = folder / "tool", folder / "pid"
    script.write_text(f"#!/bin/sh\necho $$ > {pid}.new; mv {pid}.new {pid}\n{tool}\n")
    script.chmod(0o700)
    given = ["produce", "g", "LEFT", "127.0.0.1:1", "flights", str(folder / "history"), "1000", "0", "", str(script)]
    client = subprocess.Popen([sys.executable, "-m", "drlib.lab.clients.console_client", *given])
    wait_for("the tool runs", pid.exists, 30)
    return client, int(pid.read_text())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_console_producer_that_takes_no_records_ends_with_its_client(tmp_path: Path, number: signal.Signals) -> None:
    """Its cluster is gone: it reads nothing more of its input, which is full then."""
    client, tool = started(tmp_path, "exec sleep 300")
    history = tmp_path / "history"
    seen = [-1]

    def full() -> bool:
        time.sleep(0.5)
        before, size = seen[-1], history.stat().st_size if history.exists() else 0
        seen.append(size)
        return 0 < size == before

    wait_for("its input is full", full, 60)
    client.send_signal(number)
    assert client.wait(60) == (-signal.SIGKILL if number is signal.SIGKILL else 0)
    wait_for("the tool has ended", lambda: not Path(f"/proc/{tool}").exists(), 30)
