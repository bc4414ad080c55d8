"""What commands say of a file: one line, in time, where its patterns take too long; of flows what is different between them."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import drlib, error_line
from repository_root import ROOT

from drlib.cli.mirror.config import common_values, of_any_flow
from drlib.config.explain import explain

TWO = """clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
A->B.enabled = true
B->A.enabled = true
topics = orders
A->B.groups = billing
"""
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


def test_values_that_all_enabled_flows_have_are_shown_once(tmp_path: Path) -> None:
    (tmp_path / "mirror.properties").write_text(TWO)
    done = drlib("config", "explain", str(tmp_path / "mirror.properties"))
    tables = done.stdout.split("every enabled flow", 1)[1]
    common, forth, back = re.split(r"^A->B +$|^B->A +$", tables, flags=re.MULTILINE)
    assert "line 6: topics" in common
    assert "line 6: topics" not in forth + back
    assert [re.findall(r"^│ (\S+)", each, re.MULTILINE) for each in (forth, back)] == [["enabled", "groups"]] * 2
    assert ("billing" in forth, "billing" in back) == (True, False)


def test_common_values_one_flow_has_a_table_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mirror.properties").write_text(TWO)
    values = explain(tmp_path / "mirror.properties").values
    one = [value for value in values if value.scope == "A->B"]
    assert common_values([]) == common_values([one]) == []
    changed = [replace(value, value="other") if value.key == "topics" else value for value in one]
    assert [value.key for value in one if of_any_flow(value) not in common_values([one, changed])] == ["topics"]
    assert len(common_values([one, one])) == len(one)
