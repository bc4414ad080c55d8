"""What a batch needs of the clusters is asked again while they say that it passes."""

from __future__ import annotations

import threading

import pytest

from drlib.analysis.continuous import stream
from drlib.analysis.continuous.stream import again_while_retriable
from drlib.errors import Unreachable, UsageError

MOVING = Unreachable("reading", "its leader moves", "Wait.")
REFUSED = UsageError("reading", "the journal is another one", "Begin again.")


class Answers:
    """Raises the errors in turn, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


@pytest.fixture(autouse=True)
def without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_KEEP_PAUSE_S", 0.0)


def test_again_while_retriable_asks_until_there_is_an_answer() -> None:
    answers = Answers(MOVING, MOVING)
    assert again_while_retriable(answers, 60, threading.Event()) == "answer"
    assert answers.asked == 3


def test_again_while_retriable_ends_at_an_error_that_does_not_pass() -> None:
    answers = Answers(MOVING, REFUSED, MOVING)
    with pytest.raises(UsageError):
        again_while_retriable(answers, 60, threading.Event())
    assert answers.asked == 2


def test_again_while_retriable_gives_up_after_its_time() -> None:
    answers = Answers(MOVING, MOVING)
    with pytest.raises(Unreachable):
        again_while_retriable(answers, -1, threading.Event())
    assert answers.asked == 1


def test_again_while_retriable_ends_once_it_is_stopped() -> None:
    stopped = threading.Event()
    stopped.set()
    answers = Answers(MOVING, MOVING)
    with pytest.raises(Unreachable):
        again_while_retriable(answers, 60, stopped)
    assert answers.asked == 1
