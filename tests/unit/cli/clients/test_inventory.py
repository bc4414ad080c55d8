"""`drlib inventory` for what it refuses."""

from __future__ import annotations

from pathlib import Path

from command_line import drlib, error_line


def test_inventory_without_an_answer_or_a_flow_says_so(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = paris, lyon\nparis.bootstrap.servers = 127.0.0.1:1\nlyon.bootstrap.servers = 127.0.0.1:2\n"
    )
    assert "has no enabled flow" in error_line(drlib("inventory", str(file)), 2)
    assert "no application is known" in error_line(drlib("inventory", str(file), "--flow", "paris->lyon"), 11)
    assert "has no flow paris->rome" in error_line(drlib("inventory", str(file), "--flow", "paris->rome"), 2)
