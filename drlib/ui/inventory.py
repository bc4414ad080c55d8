"""Render an inventory of applications for a terminal and as JSON.

Rules: complete and sorted; what is not known is said. Times are UTC. Text from outside is one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from drlib import formats
from drlib.drill.inventory.rules import Application, Inventory, Kind
from drlib.drill.session.left_behind import LeftBehind, headline
from drlib.ui.terminal.plain_console import headed

_COLUMNS = ("kind", "name", "state", "members", "client IDs", "hosts", "topics", "last active (UTC)", "moves")
_LEFT = ("where", "kind", "name", "client IDs", "hosts", "last active (UTC)", "moves", "why")
_TABLE_WIDTH = 120  # columns of a terminal


def render_inventory(inventory: Inventory, aliases: Iterable[str]) -> RenderableType:
    """A table for each cluster, and what is not known of it."""
    parts: list[RenderableType] = []
    for alias in aliases:
        rows = [row for row in inventory.applications if row.cluster == alias]
        parts.append(Text(_headline(inventory, alias, len(rows)), style="bold"))
        parts += [_line(f"not known: {why}", "yellow") for why in inventory.unknown.get(alias, ())]
        parts += [_line(f"not known, and not needed: {why}", "dim") for why in inventory.notes.get(alias, ())]
        if rows:
            parts.append(_Rows(_COLUMNS, map(_cells, rows)))
            reasons = dict.fromkeys(f"{row.kind.value}, {row.way.value}: {row.how}" for row in rows)
            parts += [Text(), *map(_line, reasons)]
            parts += [_line(f"not known of {row.name}: {row.unknown}", "yellow") for row in rows if row.unknown]
        parts.append(Text())
    return Group(*parts)


def _headline(inventory: Inventory, alias: str, count: int) -> str:
    if (why := inventory.silent.get(alias)) is not None:
        return formats.one_line(f"{alias} does not answer: {why}")
    known = "at least " if alias in inventory.unknown else ""
    return f"{alias}: {known}{count} application{'' if count == 1 else 's'}"


class _Rows:
    """A table; where it is too narrow for one, each row is a list: names would be folded to a few letters a line."""

    def __init__(self, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
        self._columns, self._rows = columns, tuple(rows)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if options.max_width >= _TABLE_WIDTH:
            table = headed(*self._columns)
            for row in self._rows:
                table.add_row(*map(_line, row))
            yield table
            return
        width = max(map(len, self._columns))
        for row in self._rows:
            cells = dict(zip(self._columns, row, strict=True))
            yield _line(cells.pop("name"), "bold")
            item = Table.grid(padding=(0, 1, 0, 0))
            item.add_column(min_width=width + 2, no_wrap=True)
            item.add_column(overflow="fold")
            for name, cell in cells.items():
                if cell:
                    item.add_row(Text(f"  {name}"), _line(cell))
            yield item


def _cells(row: Application) -> tuple[str, ...]:
    return (
        row.kind.value,
        row.name,
        row.state,
        "" if row.kind in (Kind.TRANSACTIONAL, Kind.IDEMPOTENT) else formats.cell(row.members),
        ", ".join(row.clients),
        ", ".join(row.hosts),
        ", ".join(row.topics),
        "" if row.last_ms is None else formats.second(row.last_ms),
        row.way.value,
    )


def render_left_behind(found: LeftBehind) -> RenderableType:
    """Who was left behind by a move, and who is gone."""
    kept = found.move.kept
    parts: list[RenderableType] = [Text(formats.one_line(headline(found)), style="bold")]
    age = formats.second(kept.taken_ms)
    parts.append(_line(f"inventory of run {kept.run}, taken at {age} UTC", "dim"))
    parts += [_line(f"not known: {why}", "yellow") for why in found.unknown]
    rows = [
        (
            each.stand.value,
            each.application.kind.value,
            each.application.name,
            ", ".join(each.application.clients),
            ", ".join(each.application.hosts),
            "" if each.application.last_ms is None else formats.second(each.application.last_ms),
            each.application.way.value,
            each.why,
        )
        for each in found.applications
    ]
    return Group(*parts, *([_Rows(_LEFT, rows)] if rows else []))


def left_behind_json(found: LeftBehind) -> str:
    """One document: the move, how many are left, what has no answer (`unknown`), and each application with where it is."""
    kept = found.move.kept
    rows = [{**_as_json(each.application), "stand": each.stand.value, "why": each.why} for each in found.applications]
    document = {
        "run": kept.run,
        "source": kept.source,
        "target": kept.target,
        "taken_ms": kept.taken_ms,
        "moved_ms": found.move.moved_ms,
        "left": len(found.left),
        "unknown": list(found.unknown),
        "applications": rows,
    }
    return json.dumps(document, indent=2)


def _as_json(row: Application) -> dict[str, object]:
    return {**asdict(row), "kind": row.kind.value, "way": row.way.value}


def _line(text: str, style: str = "") -> Text:
    return Text(formats.one_line(text), style=style)


def inventory_json(inventory: Inventory) -> str:
    """One document: `applications`, and `unknown`, `silent` and `notes` by cluster."""
    rows = [_as_json(row) for row in inventory.applications]
    unknown = {alias: list(why) for alias, why in inventory.unknown.items()}
    notes = {alias: list(why) for alias, why in inventory.notes.items()}
    document = {"applications": rows, "unknown": unknown, "silent": dict(inventory.silent), "notes": notes}
    return json.dumps(document, indent=2)
