"""Of which topics it is not known what crossed late."""

from __future__ import annotations

from drlib.drill.actions.moving.late_records import without_end


def test_topics_of_which_the_pointer_has_an_end_are_known() -> None:
    assert without_end(["orders"], {"orders": (4,), "gone": (1,)}) == ""


def test_topics_without_an_end_are_named_and_not_counted_as_nothing() -> None:
    assert without_end(["invoices", "orders"], {"orders": (4,)}).startswith("of invoices it is not known")
    assert "t0, t1, t2, t3, t4 and 3 more" in without_end([f"t{n}" for n in range(8)], {})
