"""What every lesson does without a cluster: order of cells, predictions, prices of hints, words of checks, what is compared."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from repository_root import ROOT

from drlib.errors import UsageError
from drlib.lab.lab import Lab
from drlib.runs.table import Table
from drlib.training.academy import lesson as every_lesson
from drlib.training.academy import points, progress
from drlib.training.academy.lesson import BREAK, CheckResult
from drlib.training.academy.lessons.l8_names import LATER
from drlib.training.academy.open import LESSONS, lesson_class
from drlib.training.academy.points import Attempt, Teaching

ASKS_A_CLUSTER = {"L1": "", "L8": str(LATER.start)}  # for its question, or for its reference answer
AGAIN = {"L7": "0", "L8": "200"}  # answers to second predictions, as the tests on clusters find them
CALL = re.compile(r"\b(?:lesson|drlib|consumer|active)\.\w+\(")
ANY_TIME = {"check", "hint", "score", "close"}  # what they say first is in tests of their own
# Arguments of what notebooks call or name; all others have none.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "records": ("LEFT", 0), "commit": ({},), "settle": ("recover",), "order_bandwidth": (1e6,), "handle": (None,),
    "keep_for": (24,), "kafka_acls": ("paris", "kafka-acls.sh"), "move": ("lyon", {}), "predict": ("7",),
    "predict_again": ("7",),
}  # fmt: skip


def opened(key: str, folder: Path, *done: str, dry: bool = False, **state: Any) -> Any:
    """A lesson of which only the steps `done` were run, on a lab that is down: no cluster can be asked."""
    lesson = lesson_class(key)
    attempt = Attempt(key, "3fa2", "a lab", 1, dry, steps=done, **state)
    progress.begin(folder, attempt)
    testbed = lesson.testbed_type(Lab(folder / "lab"), key, attempt.tag, lesson.keeps_names)
    return lesson(testbed, attempt, folder, lambda: None)


def cells(key: str) -> list[dict[str, Any]]:
    (path,) = (ROOT / "notebooks" / "academy").glob(f"{key}_*.ipynb")
    found: list[dict[str, Any]] = json.loads(path.read_text())["cells"]
    return found


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def named_calls(key: str) -> list[str]:
    """The methods of the lesson that its notebook calls, or names in its text."""
    texts = "\n".join(map(source, cells(key)))
    return sorted({name for name in re.findall(r"\blesson\.(\w+)\(", texts) if name not in ANY_TIME})


def numbers_in(text: str) -> set[str]:
    return {number.replace(",", "") for number in re.findall(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?![\w-])", text)}


# -- the order of cells ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "name"), [(key, name) for key in LESSONS for name in named_calls(key)])
def test_cell_before_the_first_step_names_that_step(key: str, name: str, tmp_path: Path) -> None:
    lesson = opened(key, tmp_path)
    step, first = lesson.first
    call: Callable[..., object] = getattr(lesson, name)
    if f"lesson.{name}()" == first or name in ("clusters", "reference"):
        return
    if name == "failover":  # a generator for a loop: it says so and ends
        assert list(lesson.failover()) == []
        return
    with pytest.raises(UsageError, match="too early") as refused:
        call(*ARGUMENTS.get(name, ()))
    assert refused.value.why in (
        f"{first} was not run yet",
        "lesson.break_it() was not run yet",
        "lesson.night() was not run yet",
    )
    assert refused.value.remedy == f"Run the cell with {refused.value.why.removesuffix(' was not run yet')} first."
    assert step not in lesson._attempt.steps


def test_failover_before_the_night_names_that_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(opened("L7", tmp_path).failover()) == []
    assert "lesson.night() comes first" in capsys.readouterr().out


@pytest.mark.parametrize("key", LESSONS)
def test_check_before_the_fault_names_each_cell_that_is_missing(key: str, tmp_path: Path) -> None:
    lesson = opened(key, tmp_path)
    step, first = lesson.first
    rows = lesson.check().rows
    assert [row["holds"] for row in rows] == ["not yet"] * 3
    assert {row["next step"] for row in rows} == {f"Run first: {first}, lesson.predict(...), lesson.break_it()"}
    begun = opened(key, tmp_path, step)
    assert {row["next step"] for row in begun.check().rows} == {"Run first: lesson.predict(...), lesson.break_it()"}
    predicted = opened(key, tmp_path, step, prediction="7")
    assert {row["next step"] for row in predicted.check().rows} == {"Run first: lesson.break_it()"}


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize("key", LESSONS)
def test_predict_before_the_first_step_is_refused_and_keeps_nothing(key: str, dry: bool, tmp_path: Path) -> None:
    lesson = opened(key, tmp_path, dry=dry)
    for _ in range(2):
        with pytest.raises(UsageError, match="too early") as refused:
            lesson.predict("7" * (not dry))
        assert refused.value.why == f"{lesson.first[1]} was not run yet"
    kept = progress.read(tmp_path).of(key).current
    assert kept is not None
    assert (kept.prediction, kept.steps) == ("", ())
    assert lesson.score().startswith("A dry run" if dry else "0 of 100")


@pytest.mark.parametrize("key", [key for key in LESSONS if key != "L1"])
def test_fault_and_answer_before_the_prediction_ask_for_it(key: str, tmp_path: Path) -> None:
    lesson = opened(key, tmp_path, lesson_class(key).first[0])
    for call in (lesson.break_it, lesson.truth):
        asked = call()
        assert asked.title == "Your prediction comes first"
        assert asked.note == f"{lesson.question()} Record your answer with lesson.predict(...)."


@pytest.mark.parametrize("key", LESSONS)
def test_answer_before_the_fault_is_refused(key: str, tmp_path: Path) -> None:
    lesson = opened(key, tmp_path, lesson_class(key).first[0], prediction="7")
    with pytest.raises(UsageError, match="too early") as refused:
        lesson.truth()
    assert refused.value.why == "lesson.break_it() was not run yet"


def test_lesson_opened_once_more_names_the_attempt_and_the_best_result(tmp_path: Path) -> None:
    first = opened("L0", tmp_path, *lesson_class("L0").first)
    assert "attempt" not in repr(first).splitlines()[3]
    first.predict("3")
    progress.close(tmp_path, first._attempt)
    assert "attempt        2; the best has 10 points" in repr(opened("L0", tmp_path))


# -- predictions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [key for key in LESSONS if key != "L1"])
def test_predict_of_what_is_no_number_is_not_recorded_and_asked_again(key: str, tmp_path: Path) -> None:
    lesson = opened(key, tmp_path, lesson_class(key).first[0])
    example = 'Record your answer, a number, such as lesson.predict("12").'
    assert lesson.predict().note == f"{lesson.question()} {example}"
    refused = lesson.predict("the same")
    assert refused.title == "No prediction is recorded"
    assert refused.note == f"'the same' is not a number. {lesson.question()} {example}"
    assert lesson.predict("3,000").note.startswith("You wrote: 3,000.")
    assert lesson.predict("other").note.startswith("You wrote: 3,000.")


@pytest.mark.parametrize("key", [key for key in LESSONS if key != "L1"])
def test_answer_is_neither_in_the_question_nor_in_the_cells_behind_it(key: str, tmp_path: Path) -> None:
    """For L1, whose question is about offsets, and with the numbers of a real run, see tests/notebooks/test_academy.py."""
    lesson = opened(key, tmp_path, lesson_class(key).first[0], BREAK, prediction="7")
    answer = ASKS_A_CLUSTER.get(key) or lesson.reference_answer()
    assert points.number_in(answer) is not None
    assert answer not in numbers_in(lesson.question())
    assert answer not in numbers_in(behind(key, "predict"))
    if key in AGAIN:
        assert AGAIN[key] not in numbers_in(lesson.predict_again().note)
        assert AGAIN[key] not in numbers_in(behind(key, "predict-again"))


def behind(key: str, step: str) -> str:
    """The cells behind that of `step` up to and with the next one that runs."""
    book = cells(key)
    (at,) = (n for n, cell in enumerate(book) if f"drlib:step={step}" in cell["metadata"].get("tags", ()))
    following = next(n for n in range(at + 1, len(book)) if book[n]["cell_type"] == "code")
    return "\n".join(source(cell) for cell in book[at + 1 : following + 1])


@pytest.mark.parametrize("key", LESSONS)
def test_truth_compares_with_what_was_measured_and_says_what_the_difference_teaches(key: str, tmp_path: Path) -> None:
    """The measured number is one that no formula of the lesson gives."""

    class Measured(lesson_class(key)):  # type: ignore[misc]
        def measured(self) -> float | None:
            return 1234.0

        def show_truth(self) -> Table:
            return Table("The answer", [], note="As it was.")

    def note(prediction: str) -> str:
        attempt = Attempt(key, "3fa2", "a lab", 1, steps=(Measured.first[0], BREAK), prediction=prediction)
        progress.begin(tmp_path, attempt)
        testbed = Measured.testbed_type(Lab(tmp_path / "lab"), key, "3fa2", Measured.keeps_names)
        return str(Measured(testbed, attempt, tmp_path, lambda: None).truth().note)

    assert note("1,234") == "You wrote: 1,234. That is right: 1,234 was measured. As it was."
    assert Measured.teaching.high in note("9000")
    assert "too high by 7,766" in note("9000")
    assert Measured.teaching.low in note("-5")
    assert "too low by 1,239" in note("-5")


def test_what_differences_teach_is_said_once() -> None:
    taught = [text for key in LESSONS for text in (lesson_class(key).teaching.high, lesson_class(key).teaching.low)]
    assert len(set(taught)) == 2 * len(LESSONS)
    assert all(text.endswith(".") and len(text) > 40 for text in taught)


@pytest.mark.parametrize(
    ("prediction", "measured", "says"),
    [
        ("3,000", 3000.0, "That is right: 3,000 was measured."),
        ("2 500", 3000.0, "3,000 was measured: your prediction was too low by 500. It was less."),
        ("-1", 40.0, "40 was measured: your prediction was too low by 41. It was less."),
        ("7", 2.25, "2.25 was measured: your prediction was too high by 4.75. It was more."),
        ("the same", 3000.0, ""),
        ("7", None, "The answer is compared with your prediction when it is there."),
        ("٣", 3.0, ""),
        ("880", 889.0, "889 was measured: your prediction was too low by 9. It was less."),
    ],
)
def test_prediction_is_graded_beside_what_was_measured(prediction: str, measured: float | None, says: str) -> None:
    assert points.graded(prediction, measured, Teaching("It was more.", "It was less.", "it is there")) == says


def test_prediction_within_what_a_measurement_allows_is_right() -> None:
    roughly = Teaching("It was more.", "It was less.", within=0.1)
    assert points.graded("880", 800.0, roughly).startswith("That is right")
    assert points.graded("881", 800.0, roughly).endswith("It was more.")


def test_answers_kept_from_the_fault_are_measured_without_a_cluster(tmp_path: Path) -> None:
    cases: tuple[tuple[str, dict[str, int], float | None], ...] = (
        ("L4", {"tail": 100, "later": 300}, 25),
        ("L4", {"tail": 100}, None),
        ("L6", {"client": 871_400}, 871),
        ("L6", {}, None),
        ("L7", {"known": 80, "committed": 250}, 80),
        ("L8", {}, None),  # before the second prediction
    )
    for key, numbers, measured in cases:
        assert opened(key, tmp_path, lesson_class(key).first[0], BREAK, numbers=numbers).measured() == measured


# -- hints and checks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", LESSONS)
def test_hint_says_its_price_first_and_costs_when_it_is_taken(key: str, tmp_path: Path) -> None:
    lesson = opened(key, tmp_path, passed=(1,))
    for number in points.HINTS:
        before = lesson.score()
        for _ in range(2):
            priced = lesson.hint(number).note
            assert "5 of 100 points" in priced
            assert f"lesson.hint({number}, take=True)" in priced
            assert lesson.hints[number - 1] not in priced
        assert lesson.score() == before
        assert lesson.hints[number - 1] in lesson.hint(number, take=True).note
        assert lesson.score() == f"{30 - 5 * number} of 100 points."
        assert lesson.hints[number - 1] in lesson.hint(number).note  # it is paid for
        assert lesson.score() == f"{30 - 5 * number} of 100 points."
    with pytest.raises(UsageError, match="no hint 4"):
        lesson.hint(4)


def solution(key: str) -> set[str]:
    """The calls of the lesson's hints."""
    return {call for hint in lesson_class(key).hints for call in CALL.findall(hint)}


def texts_in(function: ast.AST) -> list[str]:
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


@pytest.mark.parametrize("key", LESSONS)
def test_checks_have_no_text_with_a_call_of_the_solution(key: str) -> None:
    """Every text in the code of checks, and in the constants of the module, but docstrings, hints and what is no check."""
    module = import_module(LESSONS[key][0])
    tree = ast.parse(inspect.getsource(module))
    checks = [
        node
        for part in (tree, ast.parse(inspect.getsource(every_lesson)))
        for node in ast.walk(part)
        if isinstance(node, ast.FunctionDef) and (node.name == "verify" or "check" in node.name or "fully" in node.name)
    ]
    assert len(checks) > 4
    constants = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    texts = [text for node in (*checks, *constants) for text in texts_in(node)]
    said = {call for text in texts for call in CALL.findall(text)}
    assert not said & solution(key)
    assert not said - {"lesson.break_it(", lesson_class(key).first[1].removesuffix(")")}, (
        "a call in a check that is no step of the notebook"
    )


@pytest.mark.parametrize("key", LESSONS)
def test_check_that_does_not_hold_says_what_is_missing_and_which_hint_there_is(key: str, tmp_path: Path) -> None:
    class Missing(lesson_class(key)):  # type: ignore[misc]
        result = CheckResult(False, "2 of 3", "One is missing.")

        def verify(self, number: int) -> CheckResult:
            return self.result

    attempt = Attempt(key, "3fa2", "a lab", 1, steps=(Missing.first[0], BREAK), prediction="7")
    progress.begin(tmp_path, attempt)
    testbed = Missing.testbed_type(Lab(tmp_path / "lab"), key, "3fa2", Missing.keeps_names)
    lesson = Missing(testbed, attempt, tmp_path, lambda: None)
    assert lesson.check(1).rows[0]["next step"] == "One is missing. lesson.hint(1) helps."
    lesson.hint(1, take=True)
    assert lesson.check(1).rows[0]["next step"] == "One is missing. lesson.hint(2) helps."
    lesson.hint(2, take=True)
    lesson.hint(3, take=True)
    assert lesson.check(1).rows[0]["next step"] == "One is missing. lesson.hint(3) helps."
    Missing.result = CheckResult(False, "2 of 3", "It is gone.", for_good=True)
    again = f"It is gone. Start again: drlib.open_lesson('{key}', lab_dir, run_dir, again=True)"
    assert lesson.check(1).rows[0]["next step"] == again


# -- the end -----------------------------------------------------------------------------------------------------------


def test_close_of_a_lesson_that_was_replaced_leaves_the_lab_to_the_other_one(tmp_path: Path) -> None:
    ended: list[str] = []
    attempt = Attempt("L0", "3fa2", "a lab", 1)
    progress.begin(tmp_path, attempt)
    testbed = lesson_class("L0").testbed_type(Lab(tmp_path / "lab"), "L0", "3fa2")
    lesson = lesson_class("L0")(testbed, attempt, tmp_path, lambda: ended.append("L0"))
    progress.begin(tmp_path, Attempt("L1", "b00c", "a lab", 2))
    assert lesson.close().title == "L0 is closed"
    assert ended == []
    other = progress.read(tmp_path).of("L1").current
    assert other is not None
    assert not other.closed


def test_close_leaves_the_lab_to_another_learner_who_has_it_now(tmp_path: Path) -> None:
    ended: list[str] = []
    lab, attempt = Lab(tmp_path / "lab"), Attempt("L0", "3fa2", "a lab", 1)
    lab.root.mkdir()
    with progress.alone_on(lab.root, tmp_path / "ours") as begin:
        begin(attempt)
    progress.forget(tmp_path / "ours")
    with progress.alone_on(lab.root, tmp_path / "theirs") as begin:
        begin(Attempt("L1", "b00c", "a lab", 2))
    testbed = lesson_class("L0").testbed_type(lab, "L0", "3fa2")
    lesson_class("L0")(testbed, attempt, tmp_path / "ours", lambda: ended.append("L0")).close()
    assert ended == []


def test_notice_of_the_opening_is_shown_with_the_lesson(tmp_path: Path) -> None:
    attempt = Attempt("L0", "3fa2", "a lab", 1)
    testbed = lesson_class("L0").testbed_type(Lab(tmp_path / "lab"), "L0", "3fa2")
    lesson = lesson_class("L0")(
        testbed, attempt, tmp_path, lambda: None, "A new attempt: the one before cannot be continued."
    )
    assert "A new attempt: the one before cannot be continued. 0 of 100 points." in repr(lesson)
