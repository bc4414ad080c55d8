"""The table says what is not known, keeps foreign text on its line, and JSON has every field."""

from __future__ import annotations

import io
import json
from pathlib import Path

from drlib.drill.inventory.kept import KeptInventory
from drlib.drill.inventory.left_behind import Moved, Stand
from drlib.drill.inventory.rules import Application, Inventory, Kind, Way
from drlib.drill.session.left_behind import LeftBehind, Move
from drlib.ui.inventory import inventory_json, left_behind_json, render_inventory, render_left_behind
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
NOTES = {"paris": ("when groups were last active: no right",)}
FOUND = Inventory((ROW,), {"paris": ("producers: not authorized",)}, {"lyon": "refused"}, NOTES)
LEFT = LeftBehind(
    Move(Path("runs/r1"), KeptInventory("paris", "lyon", "r1", 1000, Inventory((ROW,))), 2000),
    (Moved(ROW, Stand.THERE, "it has 2 members"), Moved(ROW, Stand.GONE, "the group does not exist")),
    FOUND,
)


def shown(inventory: Inventory) -> str:
    out = io.StringIO()
    plain_console(file=out, width=200).print(render_inventory(inventory, ("lyon", "paris")))
    return out.getvalue()


def test_inventory_table_says_what_is_silent_and_not_known() -> None:
    text = shown(FOUND)
    assert "lyon does not answer: refused" in text
    assert "paris: at least 1 application" in text
    assert "not known: producers: not authorized" in text
    assert "not known, and not needed: when groups were last active: no right" in text
    assert "\x1b" not in text
    assert "10.0.0.7" in text


def test_inventory_in_a_narrow_terminal_has_each_name_whole() -> None:
    """A table of nine columns has three to eight letters for each at 80."""
    for render, said in ((render_inventory(FOUND, ("paris",)), "state"), (render_left_behind(LEFT), "why")):
        out = io.StringIO()
        plain_console(file=out, width=80).print(render)
        lines = out.getvalue().splitlines()
        assert any(line.startswith("billing") for line in lines)
        for value in ("consumer group", "pointer or address", "app-1", "10.0.0.7"):
            assert any(line.rstrip().endswith(f" {value}") for line in lines), value
        assert any(line.startswith(f"  {said} ") for line in lines)
        assert "\x1b" not in out.getvalue()


def test_inventory_table_of_a_cluster_without_applications_says_so() -> None:
    assert "paris: 0 applications" in shown(Inventory((), {}, {}))


def test_inventory_json_has_every_field_and_none_for_unknown() -> None:
    document = json.loads(inventory_json(FOUND))
    (row,) = document["applications"]
    assert (row["kind"], row["way"], row["last_ms"]) == ("consumer group", "pointer or address", None)
    assert document["silent"] == {"lyon": "refused"}
    assert document["notes"] == {"paris": ["when groups were last active: no right"]}
    assert document["unknown"] == {"paris": ["producers: not authorized"]}


def test_left_behind_table_says_who_is_where_and_why() -> None:
    out = io.StringIO()
    plain_console(file=out, width=200).print(render_left_behind(LEFT))
    text = out.getvalue()
    assert "left on paris: 1 still there, 1 gone, since the move to lyon at 1970-01-01 00:00:02 UTC" in text
    assert "it has 2 members" in text
    assert "10.0.0.7" in text
    assert "\x1b" not in text


def test_left_behind_json_counts_those_who_are_left() -> None:
    document = json.loads(left_behind_json(LEFT))
    assert (document["run"], document["source"], document["left"], document["moved_ms"]) == ("r1", "paris", 1, 2000)
    assert [row["stand"] for row in document["applications"]] == ["still there", "gone"]
