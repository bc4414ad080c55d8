"""`drlib config explain`: every value that counts, where it comes from and what it means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from drlib.config.explain import Explanation, explain

config_app = typer.Typer(help="Configuration files, explained.", no_args_is_help=True)


@config_app.callback()
def config() -> None:
    """Configuration files, explained."""


@config_app.command("explain")
def explain_command(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    key: Annotated[str | None, typer.Argument(help="Only this key, with or without a cluster or flow.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, of flows that are not enabled too.")] = False,
) -> None:
    """Say what every key comes to: for which flow or cluster, from which line or by default, and what it means."""
    found = explain(file, key)
    if as_json:
        print(json.dumps(_document(found), indent=2))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    enabled = {str(flow.flow) for flow in found.settings.enabled_flows}
    scopes = dict.fromkeys(value.scope for value in found.values)
    left_out = []
    for scope in scopes:
        if key is None and "->" in scope and scope not in enabled:
            left_out.append(scope)
            continue
        console.print(_table(found, scope, "" if scope in enabled or "->" not in scope else " (not enabled)"))
    if left_out:
        console.print(f"Not enabled: {', '.join(left_out)}; --json has their values too.", highlight=False)
    if found.notices:
        console.print(_notices(found))


def _table(found: Explanation, scope: str, note: str) -> Table:
    table = Table(title=f"{scope}{note}", title_justify="left", title_style="bold")
    for name in ("key", "value", "from", "meaning"):
        table.add_column(name, overflow="fold")
    for value in found.values:
        if value.scope == scope:
            origin = f"line {value.line}: {value.written}" if value.line else "default"
            table.add_row(
                *map(Text, (value.key, value.value, "\n".join([origin, *map(_lost, value.overridden)]), value.meaning))
            )
    return table


def _lost(place: str) -> str:
    return f"(not {place})"


def _notices(found: Explanation) -> Table:
    table = Table(title="Worth knowing", title_justify="left", title_style="bold")
    for name in ("line", "key", "why"):
        table.add_column(name, overflow="fold")
    for notice in found.notices:
        table.add_row(*map(Text, (str(notice.line or "-"), notice.key, notice.text)))
    return table


def _document(found: Explanation) -> dict[str, object]:
    return {
        "file": str(found.settings.path),
        "enabled_flows": [str(flow.flow) for flow in found.settings.enabled_flows],
        "values": [
            {
                "scope": value.scope,
                "key": value.key,
                "value": value.value,
                "origin": f"{found.settings.path}:{value.line}" if value.line else "default",
                "written": value.written or None,
                "read_from": list(value.places),
                "overridden": list(value.overridden),
                "meaning": value.meaning,
            }
            for value in found.values
        ],
        "notices": [{"line": n.line or None, "key": n.key, "why": n.text} for n in found.notices],
    }
