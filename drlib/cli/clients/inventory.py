"""`drlib inventory`: who uses the topics of flows, and how each moves. Only asks."""

from pathlib import Path
from typing import Annotated

import typer

from drlib.errors import ReadinessError, Unreachable, UsageError
from drlib.outgoing.terminal import write_document


def inventory(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    flow: Annotated[str, typer.Option(metavar="A->B", help="One flow; all enabled ones unless given.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List consumer groups, Kafka Streams, Connect and producers of the flows' clusters, and how each moves.

    Works while a cluster is down. Exit code 0: complete; 3: a cluster or a question has no answer; 11: no cluster answers.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.drill.inventory.observe import take_inventory
    from drlib.model import Flow
    from drlib.ui.inventory import inventory_json, render_inventory
    from drlib.ui.terminal.plain_console import plain_console

    settings = load_mirror_settings(file)
    if flow:
        wanted = Flow.parse(flow)
        flows = [settings.flow(wanted.source, wanted.target)]
    else:
        flows = list(settings.enabled_flows)
    if not flows:
        raise UsageError(f"{file} has no enabled flow", "an inventory is of flows", "Give --flow A->B.")
    found = take_inventory(settings, flows)
    aliases = sorted({alias for each in flows for alias in (each.flow.source, each.flow.target)})
    if len(found.silent) == len(aliases):
        why = "; ".join(f"{alias}: {reason}" for alias, reason in sorted(found.silent.items()))
        raise Unreachable("no application is known", why, "Start one of the clusters.")
    if as_json:
        write_document(inventory_json(found) + "\n")
    else:
        plain_console().print(render_inventory(found, aliases), soft_wrap=False)
    raise typer.Exit(ReadinessError.exit_code if found.silent or found.unknown else 0)
