"""The file of approvals: who approved what, as people and editors leave it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.drill.run import approvals
from drlib.errors import UsageError


def test_approvals_line_is_a_step_with_or_without_a_name(tmp_path: Path) -> None:
    assert approvals.read(tmp_path) == {}
    (tmp_path / "approved").write_text("fence\n\n  move by Grace Hopper \nfence by Ada")  # no end of line
    assert approvals.read(tmp_path) == {"fence": "file", "move": "Grace Hopper"}
    assert approvals.write(tmp_path, "verify", " Ada\nmove ") == "Ada move"
    assert approvals.read(tmp_path) == {"fence": "file", "move": "Grace Hopper", "verify": "Ada move"}
    assert (tmp_path / "approved").read_text().endswith("fence by Ada\nverify by Ada move\n")
    assert (tmp_path / "approved").stat().st_mode & 0o777 in (0o600, 0o644)  # ours, or the editor's


def test_approvals_empty_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Say who"):
        approvals.write(tmp_path, "fence", "\n ")
    assert not (tmp_path / "approved").exists()
