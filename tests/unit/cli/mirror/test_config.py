"""What commands say of a file whose patterns take too long: one line, in time, before any cluster is asked."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from command_line import drlib, error_line
from repository_root import ROOT

SLOW = "(a|aa)+b"
MIRROR = f"""clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
A->B.enabled = true
A->B.topics = {SLOW}
"""


@pytest.mark.parametrize("command", [("config", "explain"), ("doctor",), ("mirror",)])
def test_command_with_a_pattern_that_takes_too_long_ends_in_time(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "mirror.properties").write_text(MIRROR)
    began = time.monotonic()
    line = error_line(drlib(*command, str(tmp_path / "mirror.properties")), 2)
    assert f"`{SLOW}` take too long" in line
    assert time.monotonic() - began < 50  # of which the process' start, on a busy machine, may be most


def test_runbook_with_a_pattern_that_takes_too_long_ends_in_time(tmp_path: Path) -> None:
    text = (ROOT / "runbooks" / "emergency-failover.yaml").read_text()
    assert '[".*"]' in text
    slow = text.replace('[".*"]', f'["{SLOW}"]').replace("../notebooks", str(ROOT / "notebooks"))
    (tmp_path / "book.yaml").write_text(slow)
    (tmp_path / "mirror.properties").write_text(MIRROR.replace(SLOW, "orders"))
    line = error_line(drlib("plan", str(tmp_path / "book.yaml"), str(tmp_path / "mirror.properties")), 2)
    assert "take too long" in line
