"""What positions in topics that both directions copy cost, and what is shown between two translations."""

from __future__ import annotations

from drlib.mirror.monitor.groups.shared_positions import UNKNOWN, SharedFound, due_after
from drlib.model import TopicPartition, Translation, TranslationKind

ORDERS = TopicPartition("orders", 0)


def test_translation_costs_at_most_a_fifth_of_the_time() -> None:
    assert due_after(10.0, 12.0) == 20.0
    assert due_after(10.0, 10.0) == 10.0
    assert due_after(10.0, 9.0) == 9.0, "a clock that goes back holds nothing up"


def test_position_that_was_not_asked_about_is_unknown() -> None:
    exact = Translation(7, TranslationKind.EXACT)
    found = SharedFound({("billing", ORDERS): exact})
    assert found.at(("billing", ORDERS)) == exact
    assert found.at(("shipping", ORDERS)) == UNKNOWN
