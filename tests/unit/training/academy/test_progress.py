"""The learner's file: private, whole, one attempt at a time on a lab; and what `drlib academy` makes of it."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from drlib.cli import main
from drlib.errors import UsageError
from drlib.training.academy import points, progress
from drlib.training.academy.lesson import Lesson
from drlib.training.academy.open import LESSONS, open_lesson, title_of
from drlib.training.academy.points import Attempt


def attempt(lesson: str = "L1", tag: str = "3fa2", lab: str = "one") -> Attempt:
    return Attempt(lesson, tag, lab, 1)


def test_nothing_learnt_yet_is_no_error_and_leaves_no_file(tmp_path: Path) -> None:
    assert progress.read(tmp_path / "none").lessons == {}
    assert progress.forget(tmp_path / "none") == ()
    assert not (tmp_path / "none").exists()


def test_what_is_written_is_read_and_belongs_to_its_owner(tmp_path: Path) -> None:
    progress.begin(tmp_path, attempt())
    after = progress.update(tmp_path, attempt(), lambda one: points.with_step(one, "write", {"at": 4}))
    assert progress.read(tmp_path).of("L1").current == after
    assert (tmp_path / progress.FILE).stat().st_mode & 0o777 == 0o600


def test_a_lesson_ends_when_another_is_begun_on_its_lab(tmp_path: Path) -> None:
    progress.begin(tmp_path, attempt())
    progress.begin(tmp_path, attempt("L3", "aaaa", "elsewhere"))
    progress.begin(tmp_path, attempt("L2", "b00c"))
    with pytest.raises(UsageError, match="L1 has ended"):
        progress.update(tmp_path, attempt(), lambda one: points.with_passed_check(one, 1))
    assert progress.read(tmp_path).of("L1").best is None
    progress.update(tmp_path, attempt("L3", "aaaa", "elsewhere"), lambda one: points.with_passed_check(one, 1))


def test_an_attempt_that_was_replaced_is_not_written_over(tmp_path: Path) -> None:
    progress.begin(tmp_path, attempt())
    progress.begin(tmp_path, attempt(tag="b00c"))
    assert progress.close(tmp_path, attempt()).closed
    current = progress.read(tmp_path).of("L1").current
    assert current is not None
    assert (current.tag, current.closed) == ("b00c", False)


@pytest.mark.parametrize("text", ['{"lessons": {"L1": 7}}', "", "{", "null", "[]", "\x00\xff", '{"progress": {}}'])
def test_a_file_of_something_else_is_refused_with_the_way_out_of_it(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / progress.FILE).write_text(text)
    with pytest.raises(UsageError, match="no record of lessons") as refused:
        progress.read(tmp_path)
    assert refused.value.remedy.endswith(f"drlib academy reset --dir {tmp_path}")
    assert command(["status", "--dir", str(tmp_path)], monkeypatch) == 2
    assert command(["reset", "L1", "--dir", str(tmp_path)], monkeypatch) == 2  # one lesson of what cannot be read
    assert "Traceback" not in capsys.readouterr().err
    assert command(["reset", "--dir", str(tmp_path)], monkeypatch) == 0
    assert progress.read(tmp_path).lessons == {}


def test_a_folder_in_the_files_place_is_told(tmp_path: Path) -> None:
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
def test_points_that_were_written_by_hand_count_for_nothing(stands: str, wanted: str, tmp_path: Path) -> None:
    progress.begin(tmp_path, attempt())
    progress.update(tmp_path, attempt(), lambda one: points.with_prediction(one, "52"))
    progress.update(tmp_path, attempt(), lambda one: points.with_hint(one, 1))
    path = tmp_path / progress.FILE
    written = path.read_text()
    changed = re.sub(r"\s+", " ", written).replace(re.sub(r"\s+", " ", stands), wanted)
    assert changed != re.sub(r"\s+", " ", written), "there is nothing to forge"
    path.write_text(changed)
    with pytest.raises(UsageError, match="points are earned at clusters"):
        progress.read(tmp_path)
    with pytest.raises(UsageError, match="points are earned at clusters"):
        progress.update(tmp_path, attempt(), lambda one: points.with_passed_check(one, 1))
    path.write_text(re.sub(r"\s+", " ", written))  # spaces are nobody's points
    assert progress.read(tmp_path).of("L1").best == 10


def test_each_hint_costs_once_and_a_new_attempt_is_counted(tmp_path: Path) -> None:
    progress.begin(tmp_path, attempt())
    for hint, left in ((1, 95), (1, 95), (2, 90), (3, 85), (3, 85)):
        now = progress.update(tmp_path, attempt(), lambda one, read=hint: points.with_hint(one, read))  # type: ignore[misc]
        assert points.total(replace(now, prediction="52", passed=points.CHECKS)) == left
    progress.begin(tmp_path, attempt(tag="b00c"))
    assert progress.read(tmp_path).of("L1").attempts == 2


@pytest.mark.parametrize(("name", "answers"), [("L7", ""), ("", ""), ("L1", "all of them")])
def test_a_slip_is_told_before_a_lab_is_started(name: str, answers: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        open_lesson(name, tmp_path / "lab", tmp_path, answers=answers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", list(LESSONS))
def test_a_lesson_has_its_key_a_title_three_hints_and_three_claims(key: str) -> None:
    from importlib import import_module

    module, name = LESSONS[key]
    found: type[Lesson] = getattr(import_module(module), name)
    assert found.key == key
    assert title_of(key)
    assert len({*found.hints}) == len({*found.claims}) == 3


def command(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["drlib", "academy", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_the_command_shows_every_lesson_and_forgets_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    progress.begin(tmp_path, attempt())
    progress.update(tmp_path, attempt(), lambda one: points.with_passed_check(points.with_prediction(one, "52"), 2))
    assert command(["status", "--dir", str(tmp_path)], monkeypatch) == 0
    said = capsys.readouterr().out
    assert all(key in said for key in LESSONS)
    assert "1 of 3 checks, under way" in said
    assert f"40 of {100 * len(LESSONS)} points" in said
    assert command(["reset", "l1", "--dir", str(tmp_path)], monkeypatch) == 0
    assert "Forgotten: L1" in capsys.readouterr().out
    assert progress.read(tmp_path).lessons == {}
    assert command(["reset", "L9", "--dir", str(tmp_path)], monkeypatch) == 2
