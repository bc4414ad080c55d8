"""A run's folder is private, and its manifest tells of every change, loss and addition."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from drlib.runs import folder as folders


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def broken(folder: Path) -> tuple[str, ...]:
    return tuple(each.file for each in folders.differences(folder))


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


def test_run_folder_names_have_time_and_runbook_and_are_unique(tmp_path: Path) -> None:
    first, second = (folders.create(tmp_path, "drill") for _ in range(2))
    assert first.path != second.path
    assert first.path.name == first.run_id
    stamp, _, rest = first.run_id.partition("-")
    assert (len(stamp), stamp[8], stamp[-1]) == (16, "T", "Z")
    assert rest.startswith("drill-")


def test_run_folder_is_private_whatever_the_umask(sealed: Path) -> None:
    assert {mode(p) for p in [sealed, sealed.parent, sealed / "history"]} == {0o700}
    assert {mode(p) for p in sealed.rglob("*") if p.is_file()} == {0o600}


def test_manifest_is_readable_by_sha256sum(sealed: Path) -> None:
    output = subprocess.run(
        ["sha256sum", "-c", "--strict", folders.MANIFEST], cwd=sealed, capture_output=True, text=True, check=True
    )
    assert output.stdout == "history/a.jsonl: OK\nscorecard.json: OK\n"
    assert broken(sealed) == ()


def test_manifest_changed_missing_and_added_files_are_reported(sealed: Path) -> None:
    (sealed / "history" / "a.jsonl").write_text("two\n")
    (sealed / "scorecard.json").unlink()
    (sealed / "late.txt").write_text("x")
    assert broken(sealed) == ("history/a.jsonl", "late.txt", "scorecard.json")


def test_seal_again_covers_later_files_and_leaves_no_draft(sealed: Path) -> None:
    (sealed / "late.txt").write_text("x")
    folders.seal(sealed)
    assert broken(sealed) == ()
    assert sorted(p.name for p in sealed.iterdir()) == ["history", "late.txt", "manifest.sha256", "scorecard.json"]


def test_seal_does_not_follow_links(sealed: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("theirs")
    outside.chmod(0o644)
    (sealed / "link").symlink_to(outside)
    folders.seal(sealed)
    assert mode(outside) == 0o644
    assert "link" not in (sealed / folders.MANIFEST).read_text()


def test_differences_request_that_was_sealed_is_compared_and_a_later_one_is_not(sealed: Path) -> None:
    (sealed / "abort").write_text("operator\n")
    assert broken(sealed) == ()
    (sealed / "approved").write_text("one\n")
    folders.seal(sealed)
    (sealed / "approved").write_text("two\n")
    assert broken(sealed) == ("approved",)
