"""Errors in one line."""

from __future__ import annotations

import pytest

from drlib.errors import DrlibError, explain


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), "ValueError: no"),
        (ExceptionGroup("a", [ExceptionGroup("b", [KeyError("k"), ValueError("v")])]), "KeyError: 'k'"),
    ],
)
def test_explain_unexpected_error_is_named_with_its_type(error: Exception, text: str) -> None:
    assert explain(error) == text


def test_explain_own_error_speaks_for_itself() -> None:
    own = DrlibError("what happened", "why", "next")
    assert explain(ExceptionGroup("tasks", [own])) == str(own)


def test_own_error_whose_reason_is_a_sentence_has_one_full_stop() -> None:
    assert str(DrlibError("it ended", "the step failed. Correct it.", "See its journal.")) == (
        "it ended: the step failed. Correct it. See its journal."
    )
