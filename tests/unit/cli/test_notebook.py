"""`drlib notebook`: what it copies."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.cli.notebook import copy_shipped
from drlib.runbook.file import find


def test_copy_shipped_brings_notebooks_and_runbooks_and_keeps_what_is_there(tmp_path: Path) -> None:
    own = tmp_path / "runbooks" / "failover-drill.yaml"
    own.parent.mkdir()
    own.write_text("mine")
    copy_shipped(tmp_path)
    assert own.read_text() == "mine"
    for name, suffix in (("notebooks", ".ipynb"), ("runbooks", ".yaml")):
        shipped = {
            p.relative_to(ROOT / name) for p in (ROOT / name).rglob(f"*{suffix}") if ".ipynb_check" not in str(p)
        }
        assert {p.relative_to(tmp_path / name) for p in (tmp_path / name).rglob("*") if p.is_file()} == shipped
    first = Path("notebooks") / "00_start_here.ipynb"
    assert (tmp_path / first).read_bytes() == (ROOT / first).read_bytes()


def test_copy_shipped_leaves_checkpoints_of_jupyterlab_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = tmp_path / "shipped"
    for path in ("L0.ipynb", ".ipynb_checkpoints/L0-checkpoint.ipynb"):
        (shipped / path).parent.mkdir(parents=True, exist_ok=True)
        (shipped / path).write_text("{}")
    monkeypatch.setattr(find, "shipped", lambda name: shipped)
    copy_shipped(tmp_path / "mine")
    assert [p.name for p in sorted((tmp_path / "mine" / "notebooks").rglob("*"))] == ["L0.ipynb"]
