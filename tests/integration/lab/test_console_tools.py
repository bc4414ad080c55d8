"""A console tool ends with the client that started it, also while its cluster is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deadline import standstill
from fix_engine import wait_for


def started(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The client with a producer that is a shell script, and the process ID of that."""
    script, pid = folder / "tool", folder / "pid"
    script.write_text(f"#!/bin/sh\necho $$ > {pid}.new; mv {pid}.new {pid}\nexec sleep 300\n")
    script.chmod(0o700)
    given = ["produce", "g", "LEFT", "127.0.0.1:1", "flights", str(folder / "history"), "1000", "0", "", str(script)]
    client = subprocess.Popen([sys.executable, "-m", "drlib.lab.clients.console_client", *given])
    wait_for("the tool runs", pid.exists, 30)
    return client, int(pid.read_text())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_console_producer_that_takes_no_records_ends_with_its_client(tmp_path: Path, number: signal.Signals) -> None:
    """Its cluster is gone: it reads nothing more of its input, which is full then."""
    client, tool = started(tmp_path)

    def written() -> int:
        return (tmp_path / "history").stat().st_size

    wait_for("records are written", lambda: written() > 0, 30)
    assert standstill(written, 1 << 30, still_s=2.0), "its input is full"
    client.send_signal(number)
    assert client.wait(60) == (-signal.SIGKILL if number is signal.SIGKILL else 0)
    wait_for("the tool has ended", lambda: not Path(f"/proc/{tool}").exists(), 30)
