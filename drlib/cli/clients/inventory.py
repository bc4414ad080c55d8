"""`drlib inventory`: who uses the topics of flows, how each moves, and who was left behind by a move. Only asks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlib.errors import ReadinessError, Unreachable, UsageError
from drlib.outgoing.terminal import write_document

if TYPE_CHECKING:
    from drlib.config.settings import MirrorSettings


def inventory(
    file: Annotated[
        Path, typer.Argument(help="Your clusters: their connect-mirror-maker.properties file.", metavar="FILE")
    ],
    flow: Annotated[str, typer.Option(metavar="A->B", help="One flow; all enabled ones unless given.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    left_behind: Annotated[
        str,
        typer.Option(
            metavar="RUN", help="After RUN, which moved applications: who is still on the cluster that was left."
        ),
    ] = "",
    runs_dir: Annotated[Path, typer.Option(help="Where the folder of RUN is.", metavar="DIR")] = Path("runs"),
) -> None:
    """List consumer and share groups, Kafka Streams, Connect and producers of the flows' clusters, and how each moves.

    It changes nothing, and works while a cluster is down.

    Exit code 0: the list is complete, or with --left-behind: none is left, and the cluster has answered all; 3: a part is
    unknown, or an application may still be there; 11: no cluster answers.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.drill.readiness.observe.applications.applications import take_inventory
    from drlib.model import Flow
    from drlib.ui.inventory import inventory_json, render_inventory
    from drlib.ui.terminal.plain_console import plain_console

    settings = load_mirror_settings(file)
    if left_behind:
        if flow:
            raise UsageError("--flow and --left-behind", "the flow is that of the run", "Leave --flow out.")
        raise typer.Exit(_left_behind(settings, runs_dir, left_behind, as_json=as_json))
    if flow:
        wanted = Flow.parse(flow)
        flows = [settings.flow(wanted.source, wanted.target)]
    else:
        flows = list(settings.enabled_flows)
    if not flows:
        raise UsageError(f"{file} has no enabled flow", "an inventory is of flows", "Give --flow A->B.")
    found, _ = take_inventory(settings, flows)
    aliases = sorted({alias for each in flows for alias in (each.flow.source, each.flow.target)})
    if len(found.silent) == len(aliases):
        why = "; ".join(f"{alias}: {reason}" for alias, reason in sorted(found.silent.items()))
        raise Unreachable("no application is known", why, "Start one of the clusters.")
    if as_json:
        write_document(inventory_json(found) + "\n")
    else:
        plain_console().print(render_inventory(found, aliases), soft_wrap=False)
    raise typer.Exit(ReadinessError.exit_code if found.silent or found.unknown else 0)


def _left_behind(settings: MirrorSettings, runs_dir: Path, run: str, *, as_json: bool) -> int:
    """Print who was left behind by a run; the exit code."""
    from drlib.drill.session import left_behind
    from drlib.ui.inventory import left_behind_json, render_left_behind
    from drlib.ui.terminal.plain_console import plain_console

    found = left_behind.look(settings, left_behind.of_run(runs_dir, run))
    if as_json:
        write_document(left_behind_json(found) + "\n")
    else:
        plain_console().print(render_left_behind(found), soft_wrap=False)
    return ReadinessError.exit_code if found.left or found.unknown else 0
