"""The console's panel of applications: who uses the topics, how each moves, and who was left behind by a move.

Rules: groups come first and producers after them, as the inventory has them; a shortened list says how much it leaves out. What
is not known is said. Text from outside is escaped.
Not for: asking (`drlib.ui.console.watcher`).
"""

from __future__ import annotations

from collections.abc import Iterator

from drlib import formats
from drlib.drill.inventory.rules import Application, Inventory, Way
from drlib.formats import html_text
from drlib.ui.console.show.style import ODD, ROWS, WARN, chip, more, table
from drlib.ui.console.state import Applications

TITLE = "Applications, and how they move"
_HEADS = ("cluster", "application", "kind", "members", "clients", "moves")


def application_lines(seen: Applications) -> list[str]:
    """The panel as text."""
    if seen.inventory is None:
        return list(seen.left)
    rows = seen.inventory.applications
    found = [
        f"application {row.name} ({row.cluster}, {row.kind.value}): {_members(row)}, {row.way.value}" for row in rows
    ]
    return [*seen.left, *found[:ROWS], *more(len(rows), "application"), *_unknown(seen.inventory)]


def application_html(seen: Applications) -> Iterator[str]:
    """The panel as parts of a page; nothing before it was asked for."""
    yield from (
        f"<p>{chip('▲', 'left behind', WARN) if not line.startswith(' ') else ''} {html_text(line)}</p>"
        for line in seen.left
    )
    if seen.inventory is None:
        return
    yield table(
        TITLE, _HEADS, list(map(_row, seen.inventory.applications)), "no application uses the topics", wide=True
    )
    yield from (f"<p>{chip('?', 'not known', ODD)} {html_text(line)}</p>" for line in _unknown(seen.inventory))


def _row(row: Application) -> tuple[str, ...]:
    clients = ", ".join(filter(None, (", ".join(row.clients), ", ".join(row.hosts))))
    how = f"{row.way.value}: {row.how}" if row.way is Way.BY_HAND else row.way.value
    return row.cluster, row.name, row.kind.value, _members(row), clients, how


def _members(row: Application) -> str:
    if row.members is not None:
        return f"{row.members} member{'' if row.members == 1 else 's'}"
    return (
        row.state or ("" if row.last_ms is None else f"last record {formats.second(row.last_ms)}") or "members unknown"
    )


def _unknown(inventory: Inventory) -> list[str]:
    lines = [f"applications of {alias}: it does not answer ({why})" for alias, why in inventory.silent.items()]
    return lines + [f"applications of {alias}: {why}" for alias, those in inventory.unknown.items() for why in those]
