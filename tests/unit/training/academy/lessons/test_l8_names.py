"""Texts of lesson L8 that no broker is needed for."""

from __future__ import annotations

from drlib.training.academy.lessons import l8_names as l8


def test_each_difference_between_prediction_and_answer_has_its_own_explanation() -> None:
    said = {l8._difference(predicted, 200) for predicted in (200, 0, 70, 260)}
    assert len(said) == 4
    assert "prefixed names" in l8._difference(0, 200)
    assert "prefixed names" not in l8._difference(0, 0)
