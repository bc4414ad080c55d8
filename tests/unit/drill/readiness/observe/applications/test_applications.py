"""Which topics have producers that are applications."""

from __future__ import annotations

from pathlib import Path

from drlib.config.settings import load_mirror_settings
from drlib.drill.readiness.observe.applications.applications import written_by_applications

FILE = """clusters = paris, lyon
paris.bootstrap.servers = p:1
lyon.bootstrap.servers = l:1
paris->lyon.enabled = true
lyon->paris.enabled = true
topics = orders.*
"""


def test_heartbeats_are_mirrored_and_no_applications_topic(tmp_path: Path) -> None:
    """Their producer is the mirror, and after a move it would be left behind for ever."""
    (tmp_path / "mm2.properties").write_text(FILE)
    flows = load_mirror_settings(tmp_path / "mm2.properties").flows
    names = ["orders", "heartbeats", "lyon.heartbeats", "clicks", "lyon.orders"]
    assert any(each.mirrors_topic("heartbeats") for each in flows)
    assert written_by_applications(names, flows) == ["orders"]
