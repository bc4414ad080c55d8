"""`drlib config`: explain every effective value of a file, or make a file of Connect's or Strimzi's form.

Rules: what all enabled flows have in common is shown once, so that a flow's own table has what is different there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table

from drlib.cli import print_error
from drlib.formats import one_line
from drlib.outgoing.terminal import show, write_document
from drlib.ui.terminal.plain_console import plain_console

if TYPE_CHECKING:
    from drlib.config.explain import Effective, Explanation

EVERY_FLOW: Final = "every enabled flow"

config_app = typer.Typer(help="Explain and convert configuration files.", no_args_is_help=True, add_completion=False)


@config_app.callback()
def config() -> None:
    """Explain and convert configuration files."""


@config_app.command("explain")
def explain_command(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    key: Annotated[str | None, typer.Argument(help="Only this key, with or without a cluster or flow.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with flows that are not enabled.")] = False,
) -> None:
    """Show the effective value of every key: for which flow or cluster, from which line or by default, and its meaning."""
    from drlib.config.explain import explain

    explanation = explain(file, key)
    if as_json:
        show(json.dumps(_document(explanation), indent=2))
        return
    console = plain_console()
    if not console.is_terminal:
        console = plain_console(width=200)
    enabled = {str(flow.flow) for flow in explanation.settings.enabled_flows}
    scopes: dict[str, list[Effective]] = {}
    for value in explanation.values:
        scopes.setdefault(value.scope, []).append(value)
    if common := common_values([scopes.get(name, []) for name in sorted(enabled)]):
        console.print(_table(common, EVERY_FLOW, ""))
        known = set(common)
        scopes = {
            name: [value for value in values if name not in enabled or of_any_flow(value) not in known]
            for name, values in scopes.items()
        }
    hidden = []
    for scope, values in scopes.items():
        if key is None and "->" in scope and scope not in enabled:
            hidden.append(scope)
            continue
        if not values:
            continue
        console.print(_table(values, scope, "" if scope in enabled or "->" not in scope else " (not enabled)"))
    if hidden:
        console.print(f"Not enabled: {', '.join(hidden)}; --json has their values too.")
    if explanation.notices:
        console.print(_notices(explanation))


@config_app.command("import")
def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="MirrorMaker 2's connectors as JSON for Kafka Connect, or a KafkaMirrorMaker2 of Strimzi.",
            metavar="FILE...",
        ),
    ],
) -> None:
    """Print a connect-mirror-maker.properties file that mirrors the same; what has no counterpart is named on standard error.

    Secrets are never printed: references stay as they are, other values become ${env:NAME}.
    """
    from drlib.config.imports import import_files

    file = import_files(files)
    write_document(file.text())
    for line in file.left_out:
        print_error(f"not converted: {line}")


def of_any_flow(value: Effective) -> Effective:
    """The value without its flow."""
    return replace(value, scope=EVERY_FLOW, places=())


def common_values(flows: Sequence[Sequence[Effective]]) -> list[Effective]:
    """What several flows have in common: the same value from the same line. Pure; empty for one flow."""
    if len(flows) < 2:
        return []
    others = [{of_any_flow(value) for value in flow} for flow in flows[1:]]
    return [each for each in map(of_any_flow, flows[0]) if all(each in other for other in others)]


def _table(values: Sequence[Effective], scope: str, note: str) -> Table:
    table = Table(title=f"{scope}{note}", title_justify="left", title_style="bold")
    for name in ("key", "value", "from", "meaning"):
        table.add_column(name, overflow="fold")
    for value in values:
        origin = f"line {value.line}: {value.written}" if value.line else "default"
        origins = "\n".join(map(one_line, [origin, *(f"(not {place})" for place in value.overridden)]))
        table.add_row(one_line(value.key), one_line(value.value), origins, value.meaning)
    return table


def _notices(explanation: Explanation) -> Table:
    table = Table(title="Notices", title_justify="left", title_style="bold")
    for name in ("line", "key", "why"):
        table.add_column(name, overflow="fold")
    for notice in explanation.notices:
        table.add_row(str(notice.line or "-"), one_line(notice.key), one_line(notice.text))
    return table


def _document(explanation: Explanation) -> dict[str, object]:
    return {
        "file": str(explanation.settings.path),
        "enabled_flows": [str(flow.flow) for flow in explanation.settings.enabled_flows],
        "values": [
            {
                "scope": value.scope,
                "key": value.key,
                "value": value.value,
                "origin": f"{explanation.settings.path}:{value.line}" if value.line else "default",
                "written": value.written or None,
                "read_from": list(value.places),
                "overridden": list(value.overridden),
                "meaning": value.meaning,
            }
            for value in explanation.values
        ],
        "notices": [{"line": n.line or None, "key": n.key, "why": n.text} for n in explanation.notices],
    }
