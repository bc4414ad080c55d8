"""Texts of lesson L7 that no broker is needed for."""

from __future__ import annotations

from drlib.training.academy.lessons import l7_secured as l7


def test_each_difference_between_prediction_and_answer_has_its_own_explanation() -> None:
    cases = ((0, 0), (170, 170), (0, 170), (len(l7.TAIL), 0), (7, 0))
    assert len({l7._difference(predicted, measured) for predicted, measured in cases}) == len(cases)
    assert "drlib failback" in l7._difference(len(l7.TAIL), 0)


def test_subscriptions_are_those_of_the_document_by_group() -> None:
    rows = [{"group": "l7-1a2b-billing", "subscribe": ["paris.orders", "orders"], "re_reads": 0}]
    document = {"event": "applications", "target": "lyon", "groups": rows}
    assert l7._subscriptions(document) == {"l7-1a2b-billing": ["paris.orders", "orders"]}
