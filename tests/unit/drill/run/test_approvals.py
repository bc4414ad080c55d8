"""The file of approvals: who approved what of which plan, as people and editors leave it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from drlib.drill.run import approvals
from drlib.drill.run.approvals import MOST_BYTES, Approvals, line
from drlib.errors import UsageError

PLAN, OTHER = "a1" * 32, "b2" * 32


def test_approvals_line_is_a_step_of_a_plan_with_or_without_a_name(tmp_path: Path) -> None:
    assert approvals.read(tmp_path, PLAN) == Approvals()
    (tmp_path / "approved").write_text(
        f"fence of {PLAN}\r\n\n  move of {PLAN} by Grace Hopper \nmove of {PLAN} by Ada\nfence of {PLAN} by Ada"
    )
    assert approvals.read(tmp_path, PLAN) == Approvals({"fence": "file", "move": "Grace Hopper"})
    assert approvals.write(tmp_path, "verify", PLAN, " Ada\nmove ") == "Ada move"
    assert approvals.read(tmp_path, PLAN).by == {"fence": "file", "move": "Grace Hopper", "verify": "Ada move"}
    assert (tmp_path / "approved").read_text().endswith(f"fence of {PLAN} by Ada\nverify of {PLAN} by Ada move\n")
    assert (tmp_path / "approved").stat().st_mode & 0o777 in (0o600, 0o644)  # ours, or the editor's


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (f"move of {OTHER}", "line 1 of approved is for plan b2b2b2b2b2b2, and the run's is a1a1a1a1a1a1"),
        (f"move of {OTHER} by Ada", "is for plan b2b2b2b2b2b2"),
        (f"\n# why\nmove of {OTHER}", "line 3 of approved is for plan"),
        ("move", "line 1 of approved names no plan"),
        ("move by Ada", "line 1 of approved names no plan"),
        (f"move by Ada of {PLAN} {PLAN}", "names no plan"),
        (f"move of {PLAN[:12]}", "names no plan"),
        (f"move of {PLAN.upper()}", "names no plan"),
        (f"move of {PLAN}{PLAN}", "names no plan"),
        (f"move of {PLAN}0 by Ada", "names no plan"),
        (f" of {PLAN}", "names no plan"),
        (f"move of {PLAN} by {'x' * 300}", "names no plan"),
    ],
)
def test_approval_of_another_plan_or_of_none_counts_for_nothing_and_is_named(
    tmp_path: Path, written: str, why: str
) -> None:
    (tmp_path / "approved").write_text(written)
    read = approvals.read(tmp_path, PLAN)
    assert read.by == {}
    assert why in "; ".join(read.refused)
    approvals.write(tmp_path, "move", PLAN, "Grace")
    assert approvals.read(tmp_path, PLAN).by == {"move": "Grace"}


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda p: p.write_bytes(b"\xff"), "not UTF-8"),
        (lambda p: p.write_bytes(b"x" * (MOST_BYTES + 1)), "larger than"),
        (lambda p: p.mkdir(), "cannot be read"),
        (os.mkfifo, "not a regular file"),
        (lambda p: p.symlink_to(p.with_name("elsewhere")), "symbolic link"),
        (lambda p: p.symlink_to("nowhere"), "symbolic link"),
        (lambda p: p.symlink_to(p.name), "symbolic link"),
    ],
    ids=["binary", "huge", "folder", "pipe", "link", "dangling link", "loop"],
)
def test_approvals_file_that_is_none_approves_nothing(tmp_path: Path, make: Callable[[Path], object], why: str) -> None:
    (tmp_path / "elsewhere").write_text(line("move", PLAN))
    make(tmp_path / "approved")
    read = approvals.read(tmp_path, PLAN)
    assert read.by == {}
    assert why in "; ".join(read.refused)


def test_approvals_empty_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Say who"):
        approvals.write(tmp_path, "fence", PLAN, "\n ")
    assert not (tmp_path / "approved").exists()
