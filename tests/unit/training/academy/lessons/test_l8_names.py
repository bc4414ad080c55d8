"""Texts of lesson L8 that no broker is needed for."""

from __future__ import annotations

from drlib.training.academy.lessons import l8_names as l8


def test_text_that_is_no_order_is_none() -> None:
    assert [l8._order(text) for text in ("order 7", "order", "7", "order -1", "orders 7", "")] == [
        7,
        -1,
        -1,
        -1,
        -1,
        -1,
    ]


def test_each_difference_between_prediction_and_answer_has_its_own_explanation() -> None:
    said = {l8._difference(predicted, 200) for predicted in (200, 0, 70, 260)}
    assert len(said) == 4
    assert "prefixed names" in l8._difference(0, 200)
    assert "prefixed names" not in l8._difference(0, 0)
