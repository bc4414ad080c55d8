"""A run's folder is private, and its manifest tells of every change, loss and addition."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from drlib.runs import folder as folders


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    before = os.umask(0)
    try:
        run = folders.create(tmp_path / "runs", "drill")
        (run.path / "history").mkdir()
        (run.path / "history" / "a.jsonl").write_text("one\n")
        (run.path / "scorecard.json").write_text("{}")
        folders.seal(run.path)
    finally:
        os.umask(before)
    return run.path


def test_names_say_when_and_what_and_never_meet(tmp_path: Path) -> None:
    first, second = (folders.create(tmp_path, "drill") for _ in range(2))
    assert first.path != second.path
    assert first.path.name == first.run_id
    stamp, _, rest = first.run_id.partition("-")
    assert (len(stamp), stamp[8], stamp[-1]) == (16, "T", "Z")
    assert rest.startswith("drill-")


def test_everything_is_private_whatever_the_umask(sealed: Path) -> None:
    assert {mode(p) for p in [sealed, sealed.parent, sealed / "history"]} == {0o700}
    assert {mode(p) for p in sealed.rglob("*") if p.is_file()} == {0o600}


def test_the_manifest_is_what_sha256sum_reads(sealed: Path) -> None:
    told = subprocess.run(
        ["sha256sum", "-c", "--strict", folders.MANIFEST], cwd=sealed, capture_output=True, text=True, check=True
    )
    assert told.stdout == "history/a.jsonl: OK\nscorecard.json: OK\n"
    assert folders.broken(sealed) == ()


def test_a_change_a_loss_and_an_addition_are_told(sealed: Path) -> None:
    (sealed / "history" / "a.jsonl").write_text("two\n")
    (sealed / "scorecard.json").unlink()
    (sealed / "late.txt").write_text("x")
    assert folders.broken(sealed) == ("history/a.jsonl", "scorecard.json", "late.txt")


def test_sealing_again_covers_what_came_later_and_leaves_no_draft(sealed: Path) -> None:
    (sealed / "late.txt").write_text("x")
    folders.seal(sealed)
    assert folders.broken(sealed) == ()
    assert sorted(p.name for p in sealed.iterdir()) == ["history", "late.txt", "manifest.sha256", "scorecard.json"]


def test_a_link_is_not_followed(sealed: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    outside.chmod(0o644)
    (sealed / "link").symlink_to(outside)
    folders.seal(sealed)
    assert mode(outside) == 0o644
    assert "link" not in (sealed / folders.MANIFEST).read_text()
