"""What every lesson does without a cluster: a prediction that comes too early is refused, and nothing of it is kept."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from drlib.errors import UsageError
from drlib.lab.lab import Lab
from drlib.training.academy import points, progress
from drlib.training.academy.lesson import Lesson
from drlib.training.academy.open import LESSONS
from drlib.training.academy.points import Attempt

FIRST = {
    "L1": "lesson.write()",
    "L7": "lesson.traffic()",
    "L8": "lesson.traffic()",
}  # their questions are about the clusters


def opened(key: str, folder: Path, *, dry: bool) -> Lesson:
    """A lesson of which no cell was run, on a lab that is down."""
    module, name = LESSONS[key]
    lesson: type[Lesson] = getattr(import_module(module), name)
    attempt = Attempt(key, "3fa2", "a lab", 1, dry)
    progress.begin(folder, attempt)
    testbed = lesson.testbed_type(Lab(folder / "lab"), key, attempt.tag, lesson.keeps_names)
    return lesson(testbed, attempt, folder, lambda: None)


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize("key", FIRST)
def test_predict_before_the_first_cell_is_refused_and_keeps_nothing(key: str, dry: bool, tmp_path: Path) -> None:
    lesson = opened(key, tmp_path, dry=dry)
    for _ in range(2):
        with pytest.raises(UsageError, match="too early") as refused:
            lesson.predict("7" * (not dry))
        assert refused.value.why == f"{FIRST[key]} was not run yet"
    kept = progress.read(tmp_path).of(key).current
    assert kept is not None
    assert (kept.prediction, kept.steps) == ("", ())
    assert lesson.score().startswith("A dry run" if dry else "0 of 100")


@pytest.mark.parametrize("key", [key for key in LESSONS if key not in FIRST])
def test_predict_of_what_is_no_number_is_not_recorded_and_asked_again(key: str, tmp_path: Path) -> None:
    lesson = opened(key, tmp_path, dry=False)
    refused = lesson.predict("the same")
    assert refused.title == "No prediction is recorded"
    assert refused.note == f"'the same' is not a number. {lesson.question()}"
    assert lesson.predict("3,000").note.startswith("You wrote: 3,000.")
    assert lesson.predict("other").note.startswith("You wrote: 3,000.")


@pytest.mark.parametrize(
    ("prediction", "answer", "says"),
    [
        ("3,000", "3000", "That is right."),
        ("2 500", "3000", "The answer is 3,000: you were off by 500."),
        ("-1", "40", "The answer is 40: you were off by 41."),
        ("0.5", "2.25", "The answer is 2.25: you were off by 1.75."),
        ("the same", "3000", ""),
        ("7", "unknown", ""),
        ("٣", "3", ""),
    ],
)
def test_prediction_is_graded_beside_the_answer(prediction: str, answer: str, says: str) -> None:
    assert points.graded(prediction, answer) == says


@pytest.mark.parametrize("key", [key for key in LESSONS if key not in FIRST])
def test_predict_of_a_question_about_no_cluster_may_come_first(key: str, tmp_path: Path) -> None:
    lesson = opened(key, tmp_path, dry=False)
    assert lesson.predict("7").note.startswith("You wrote: 7.")
    kept = progress.read(tmp_path).of(key).current
    assert kept is not None
    assert kept.prediction == "7"
