"""A run's folder is private, and its manifest tells of every change, loss and addition."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from drlib.errors import UsageError
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


@pytest.mark.parametrize("runs", ["runs", "new/runs"])
def test_run_folder_is_on_disk_once_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: str) -> None:
    on_disk = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: on_disk.add(Path(os.readlink(f"/proc/self/fd/{descriptor}"))))
    run = folders.create(tmp_path / runs, "drill")
    assert on_disk == {each for each in run.path.parents if each.is_relative_to(tmp_path)}
    on_disk.clear()
    folders.opened(run.path / "in" / "a notebook", "drill")
    assert on_disk == {run.path, run.path / "in"}


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


def test_file_that_another_run_amends_is_as_the_manifest_says_unless_it_was_not_before(sealed: Path) -> None:
    name, card = "history/a.jsonl", sealed / "scorecard.json"
    card.write_text("forged")
    with folders.amended(sealed, name):
        (sealed / name).write_text("amended\n")
    assert broken(sealed) == ("scorecard.json",)
    (sealed / name).write_text("forged\n")
    with folders.amended(sealed, name):
        (sealed / name).write_text("amended once more\n")
    assert broken(sealed) == (name, "scorecard.json")
    folders.unseal(sealed)
    with folders.amended(sealed, name):
        (sealed / name).write_text("of a run that goes on\n")
    assert not (sealed / folders.MANIFEST).exists()


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


@pytest.mark.parametrize("place", ["file", "file/runs", "file/a/b"])
def test_folder_of_runs_that_is_or_lies_below_a_file_is_refused_before_anything(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot be written"):
        folders.refuse_unusable(tmp_path / place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_folder_of_runs_that_may_not_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the kernel's answer is given here."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(UsageError, match="may not be written to"):
        folders.refuse_unusable(tmp_path / "a" / "b")
    (tmp_path / "ours").mkdir()
    folders.refuse_unusable(tmp_path / "ours")
    assert [path.name for path in tmp_path.iterdir()] == ["ours"]


def test_run_that_was_not_begun_is_discarded_with_the_folder_made_for_it(tmp_path: Path) -> None:
    first = folders.create(tmp_path / "runs", "drill")
    second = folders.create(tmp_path / "runs", "drill")
    folders.discard(first)  # the other one is there still
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [second.run_id]
    folders.discard(second)
    assert (tmp_path / "runs").is_dir()  # it was there before
    folders.discard(folders.create(tmp_path / "new", "drill"))
    assert not (tmp_path / "new").exists()
