"""What the step says of an inventory: its rows, its table in the report, and what it rests on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.drill.actions.applications import inventory
from drlib.drill.actions.applications.inventory import HEADS, basis, cells, evidence, known, row, table
from drlib.drill.inventory.kept import KeptInventory
from drlib.drill.inventory.rules import Application, Inventory, Kind, Way

HOUR_MS = 3_600_000
ROW = Application(
    "paris", Kind.GROUP, "billing", "stable", 2, ("b-1",), ("10.0.0.1",), ("orders",), 5000, Way.EITHER, "how"
)
BY_HAND = replace(ROW, name="connect-x", kind=Kind.SINK, way=Way.BY_HAND)
WRITER = replace(ROW, name="producer ID 7", kind=Kind.IDEMPOTENT, members=None, clients=(), hosts=())
KEPT = KeptInventory("paris", "lyon", "r2", 3 * HOUR_MS, Inventory((ROW, BY_HAND, WRITER)))


def test_rows_have_who_and_how_and_nothing_made_up() -> None:
    assert cells(ROW) == (
        "billing", "consumer group", "pointer or address: how", "2", "b-1", "10.0.0.1", "orders", "1970-01-01 00:00:05",
        "now",
    )  # fmt: skip
    assert dict(zip(HEADS, cells(WRITER), strict=True))["members"] == ""
    assert dict(zip(HEADS, cells(replace(ROW, members=None)), strict=True))["members"] == "unknown"
    assert row(ROW)["how"] == "how"
    assert known(replace(ROW, known_by="run r1", as_of_ms=7000)) == "by run r1, as of 1970-01-01 00:00:07"
    assert known(replace(ROW, members=None, unknown="not authorized")) == "not authorized"


def test_basis_says_whether_the_source_answered_and_how_old_the_rest_is() -> None:
    assert basis(KEPT) == "as paris answered at 1970-01-01 03:00:00 UTC"
    silent = replace(KEPT, inventory=Inventory((), silent={"paris": "refused"}))
    assert "no earlier run kept an inventory, so others may be missing" in basis(silent)
    assert basis(replace(silent, older="r1", older_ms=HOUR_MS)).endswith("by the inventory of run r1, 2 h old")
    in_part = replace(KEPT, inventory=Inventory((), {"paris": ("groups: no answer",)}))
    assert basis(in_part).startswith("paris answered in part")


def test_evidence_counts_who_moves_by_hand() -> None:
    found = evidence(replace(KEPT, left_out=4), ["transactions by the target: no answer"])
    assert (found["applications"], found["by_hand"], found["move_by_hand"]) == (7, 1, "connect-x")
    assert found["not_known"] == "transactions by the target: no answer"


def test_table_has_all_and_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table(KEPT, "inventory")
    assert (len(whole.rows), whole.left_out, whole.file) == (3, 0, "")
    assert whole.caption.startswith("Who uses the topics of paris, as paris answered")
    monkeypatch.setattr(inventory, "MOST_SCORED", 2)
    cut = table(replace(KEPT, left_out=5), "inventory")
    assert (len(cut.rows), cut.left_out, cut.file) == (2, 6, "details/inventory.rows.json")
