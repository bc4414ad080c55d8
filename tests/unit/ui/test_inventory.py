"""The table says what is not known, keeps foreign text on its line, and JSON has every field."""

from __future__ import annotations

import io
import json

from drlib.drill.inventory.observe import Inventory
from drlib.drill.inventory.rules import Application, Kind, Way
from drlib.ui.inventory import inventory_json, render_inventory
from drlib.ui.terminal.plain_console import plain_console

ROW = Application(
    "paris",
    Kind.GROUP,
    "billing\x1b[31m",
    "stable",
    2,
    ("app-1",),
    ("10.0.0.7",),
    ("orders",),
    None,
    Way.EITHER,
    "moves",
)
FOUND = Inventory((ROW,), {"paris": ("producers: not authorized",)}, {"lyon": "refused"})


def shown(inventory: Inventory) -> str:
    out = io.StringIO()
    plain_console(file=out, width=200).print(render_inventory(inventory, ("lyon", "paris")))
    return out.getvalue()


def test_inventory_table_says_what_is_silent_and_not_known() -> None:
    text = shown(FOUND)
    assert "lyon does not answer: refused" in text
    assert "paris: at least 1 application" in text
    assert "not known: producers: not authorized" in text
    assert "\x1b" not in text
    assert "10.0.0.7" in text


def test_inventory_table_of_a_cluster_without_applications_says_so() -> None:
    assert "paris: 0 applications" in shown(Inventory((), {}, {}))


def test_inventory_json_has_every_field_and_none_for_unknown() -> None:
    document = json.loads(inventory_json(FOUND))
    (row,) = document["applications"]
    assert (row["kind"], row["way"], row["last_ms"]) == ("consumer group", "pointer or address", None)
    assert document["silent"] == {"lyon": "refused"}
    assert document["unknown"] == {"paris": ["producers: not authorized"]}
