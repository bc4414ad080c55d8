"""Records lost in an incident."""

from __future__ import annotations

from drlib.lab.checker.history import History, Mirrored, Produced, ProducedStatus
from drlib.training.incidents.lab.measure import lost_records


def _row(name: str, status: ProducedStatus = ProducedStatus.ACKED) -> Produced:
    return Produced(name, "k", 0, "LEFT", "flights", 0, 0, 0, 0, status)


def test_lost_records_counts_acknowledged_records_missing_where_required() -> None:
    history = History(produced=(_row("a"), _row("b"), _row("c"), _row("d", ProducedStatus.IN_DOUBT)))
    a, b = (Mirrored("t", 0, n, name, "k", 0, 0) for n, name in enumerate("ab"))
    assert lost_records(history, "flights", (a, b), (), recovered=True) == 1
    assert lost_records(history, "flights", (a,), (b,), recovered=True) == 2, "it is over, and still not on RIGHT"
    assert lost_records(history, "flights", (a,), (b,), recovered=False) == 1, "it may still cross"
    assert lost_records(history, "flights", (a,), None, recovered=False) is None
    assert lost_records(history, "flights", None, (a,), recovered=True) is None
    assert lost_records(History(missing=("flights.jsonl",)), "flights", (a,), (b,), recovered=True) is None
    assert lost_records(History(), "flights", (a, b), (), recovered=True) is None, "a count over nothing is no count"
    assert lost_records(history, "bookings", (a, b), (), recovered=True) is None
