"""The learner's progress file: private, replaced as a whole, one attempt at a time on a lab; and `drlib academy`."""

from __future__ import annotations

import re
import resource
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from drlib.cli.process import run_command
from drlib.errors import UsageError
from drlib.training.academy import points, progress
from drlib.training.academy.open import LESSONS, lesson_class, open_lesson, title_of
from drlib.training.academy.points import Attempt


def attempt(lesson: str = "L1", tag: str = "3fa2", lab: str = "one") -> Attempt:
    return Attempt(lesson, tag, lab, 1)


def test_read_without_file_is_empty_and_creates_none(tmp_path: Path) -> None:
    assert progress.read(tmp_path / "none").lessons == {}
    assert progress.forget(tmp_path / "none") == ()
    assert not (tmp_path / "none").exists()


def test_update_is_read_back_from_a_private_file(tmp_path: Path) -> None:
    progress.begin(tmp_path, attempt())
    after = progress.update(tmp_path, attempt(), lambda one: points.with_step(one, "write", {"at": 4}))
    assert progress.read(tmp_path).of("L1").current == after
    assert (tmp_path / progress.FILE).stat().st_mode & 0o777 == 0o600


def test_disk_that_is_full_is_said_and_the_record_stays_as_it_was(tmp_path: Path) -> None:
    progress.begin(tmp_path, attempt())
    before = (tmp_path / progress.FILE).read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))  # an append beyond it fails, as on a full disk
    try:
        with pytest.raises(UsageError, match=r"progress.json was not written.*Make room, then run the cell again"):
            progress.update(tmp_path, attempt(), lambda one: points.with_step(one, "write"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / progress.FILE).read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file cannot be written"):
        progress.begin(tmp_path / "file", attempt())


def test_begin_ends_other_lessons_on_the_same_lab(tmp_path: Path) -> None:
    progress.begin(tmp_path, attempt())
    progress.begin(tmp_path, attempt("L3", "aaaa", "elsewhere"))
    progress.begin(tmp_path, attempt("L2", "b00c"))
    with pytest.raises(UsageError, match="L1 has ended"):
        progress.update(tmp_path, attempt(), lambda one: points.with_passed_check(one, 1))
    assert progress.read(tmp_path).of("L1").best is None
    progress.update(tmp_path, attempt("L3", "aaaa", "elsewhere"), lambda one: points.with_passed_check(one, 1))


def test_attempt_of_another_record_is_refused_while_one_is_open_on_the_lab(tmp_path: Path) -> None:
    """Two learners: the opening deletes the topics and groups of every attempt before."""
    lab, ours, theirs = (tmp_path / name for name in ("lab", "ours", "theirs"))
    lab.mkdir()
    with progress.alone_on(lab, ours) as begin:
        begin(attempt())
    assert not progress.is_replaced(ours, attempt(), lab)
    prepared = False
    with (
        pytest.raises(UsageError, match="has an open attempt at L1") as refused,
        progress.alone_on(lab, theirs),
    ):
        prepared = True
    assert not prepared
    assert f"drlib.open_lesson('L1', lab_dir, '{ours}').close()" in refused.value.remedy
    (tmp_path / "link").symlink_to(ours)
    with progress.alone_on(lab, tmp_path / "link") as begin:  # the same record
        begin(attempt(tag="b00c"))
    progress.close(ours, attempt(tag="b00c"))
    with progress.alone_on(lab, theirs) as begin:
        begin(attempt("L2", "cafe"))
    assert progress.is_replaced(ours, attempt(tag="b00c"), lab)
    (theirs / progress.FILE).write_text("{")  # whether it is open is not known
    with pytest.raises(UsageError, match="has an open attempt at L2"), progress.alone_on(lab, ours):
        pass
    progress.forget(theirs)
    with progress.alone_on(lab, ours):
        pass


def test_close_leaves_a_newer_attempt_unchanged(tmp_path: Path) -> None:
    progress.begin(tmp_path, attempt())
    progress.begin(tmp_path, attempt(tag="b00c"))
    assert progress.close(tmp_path, attempt()).closed
    current = progress.read(tmp_path).of("L1").current
    assert current is not None
    assert (current.tag, current.closed) == ("b00c", False)


@pytest.mark.parametrize("text", ['{"lessons": {"L1": 7}}', "", "{", "null", "[]", "\x00\xff", '{"progress": {}}'])
def test_read_invalid_file_is_refused_and_reset_deletes_it(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / progress.FILE).write_text(text)
    with pytest.raises(UsageError, match="not a valid record of lessons") as refused:
        progress.read(tmp_path)
    assert refused.value.remedy.endswith(f"drlib academy reset --dir {tmp_path}")
    assert command(["status", "--dir", str(tmp_path)], monkeypatch) == 2
    assert command(["reset", "L1", "--dir", str(tmp_path)], monkeypatch) == 2  # one lesson of an invalid file
    assert "Traceback" not in capsys.readouterr().err
    assert command(["reset", "--dir", str(tmp_path)], monkeypatch) == 0
    assert progress.read(tmp_path).lessons == {}


def test_read_folder_instead_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / progress.FILE).mkdir()
    with pytest.raises(UsageError, match="cannot be read"):
        progress.read(tmp_path)


@pytest.mark.parametrize(
    ("stands", "wanted"),
    [
        ('"passed": []', '"passed": [1, 2, 3]'),
        ('"best": 10', '"best": 100'),
        ('"hints": [\n       1\n      ]', '"hints": []'),
        ('"prediction": "52"', '"prediction": "700"'),
        ('"dry": false', '"dry": true'),
    ],
)
def test_read_edited_file_is_refused_by_its_digest(stands: str, wanted: str, tmp_path: Path) -> None:
    progress.begin(tmp_path, attempt())
    progress.update(tmp_path, attempt(), lambda one: points.with_prediction(one, "52"))
    progress.update(tmp_path, attempt(), lambda one: points.with_hint(one, 1))
    path = tmp_path / progress.FILE
    written = path.read_text()
    changed = re.sub(r"\s+", " ", written).replace(re.sub(r"\s+", " ", stands), wanted)
    assert changed != re.sub(r"\s+", " ", written), "the file does not have this text"
    path.write_text(changed)
    with pytest.raises(UsageError, match="points are earned at clusters"):
        progress.read(tmp_path)
    with pytest.raises(UsageError, match="points are earned at clusters"):
        progress.update(tmp_path, attempt(), lambda one: points.with_passed_check(one, 1))
    path.write_text(re.sub(r"\s+", " ", written))  # white space does not count
    assert progress.read(tmp_path).of("L1").best == 10


def test_update_hint_costs_once_and_new_attempts_are_counted(tmp_path: Path) -> None:
    progress.begin(tmp_path, attempt())
    for hint, left in ((1, 95), (1, 95), (2, 90), (3, 85), (3, 85)):
        now = progress.update(tmp_path, attempt(), lambda one, read=hint: points.with_hint(one, read))  # type: ignore[misc]
        assert points.total(replace(now, prediction="52", passed=points.CHECKS)) == left
    progress.begin(tmp_path, attempt(tag="b00c"))
    assert progress.read(tmp_path).of("L1").attempts == 2


@pytest.mark.parametrize(("name", "answers"), [("L9", ""), ("", ""), ("L1", "all of them")])
def test_open_lesson_wrong_argument_is_refused_before_a_lab_starts(name: str, answers: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        open_lesson(name, tmp_path / "lab", tmp_path, answers=answers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", list(LESSONS))
def test_lesson_class_has_key_title_three_hints_and_three_claims(key: str) -> None:
    found = lesson_class(key)
    assert found.key == key
    assert title_of(key)
    assert len({*found.hints}) == len({*found.claims}) == 3


def command(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["drlib", "academy", *arguments])
    return run_command()


def test_academy_command_shows_every_lesson_and_resets_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    progress.begin(tmp_path, attempt())
    progress.update(tmp_path, attempt(), lambda one: points.with_passed_check(points.with_prediction(one, "52"), 2))
    assert command(["status", "--dir", str(tmp_path)], monkeypatch) == 0
    said = capsys.readouterr().out
    assert all(key in said for key in LESSONS)
    assert "1 of 3 checks, open" in said
    assert f"40 of {100 * len(LESSONS)} points" in said
    assert command(["reset", "l1", "--dir", str(tmp_path)], monkeypatch) == 0
    assert "Deleted: L1" in capsys.readouterr().out
    assert progress.read(tmp_path).lessons == {}
    assert command(["reset", "L9", "--dir", str(tmp_path)], monkeypatch) == 2
