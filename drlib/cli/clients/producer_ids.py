"""`drlib producer-ids`: how far the producer IDs of a flow's clusters are apart; with `--separate` they are set apart.

Rules: without `--separate` one producer ID is used up at each broker, and nothing else is changed. Not for: which producers
collide now, which `drlib doctor` lists.
"""

import asyncio
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlib.cli.drill.confirmation import confirm_name
from drlib.drill.producer_ids import distance
from drlib.errors import ReadinessError, UsageError
from drlib.outgoing.terminal import show

if TYPE_CHECKING:
    from drlib.config.settings import MirrorSettings
    from drlib.model import Flow

_SHOWN_S = 5.0


def producer_ids(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    flow: Annotated[str, typer.Option(metavar="A->B", help="The flow; the only enabled one unless given.")] = "",
    separate: Annotated[
        bool,
        typer.Option("--separate", help="Use the target's producer IDs up until they are --ids ahead of the source's."),
    ] = False,
    wanted: Annotated[
        int,
        typer.Option("--ids", min=distance.LEAST, max=distance.MOST, help="How many IDs the clusters are to be apart."),
    ] = distance.COUNT,
    yes: Annotated[str, typer.Option(metavar="CLUSTER", help="The target's name, instead of typing it.")] = "",
) -> None:
    """Show which producer IDs a flow's clusters give out next, or set them apart, once, before producers are ever redirected.

    Exit code 0: they are apart, by half of --ids at least; 3: they are not; 9: the name was not confirmed; 11: a cluster does
    not answer.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.model import Flow

    settings = load_mirror_settings(file)
    if flow:
        chosen = Flow.parse(flow)
        settings.flow(chosen.source, chosen.target)
    elif len(settings.enabled_flows) == 1:
        chosen = settings.enabled_flows[0].flow
    else:
        raise UsageError(
            f"{file} has {len(settings.enabled_flows)} enabled flows", "one is compared", "Give --flow A->B."
        )
    source, target = asyncio.run(_next_ids(settings, chosen))
    for each in (source, target):
        show(f"{each.alias} gives out producer IDs from {each.oldest + 1:,} on, at brokers {_listed(each.by_broker)}.")
    until = distance.goal(source, target, wanted)
    if until is None:
        show(
            f"They are {distance.between(source, target):,} apart: until one has given out as many, "
            "a new producer has no other one's ID."
        )
        return
    if not separate:
        show(
            f"They are not {wanted:,} apart: a producer that is redirected can meet one with its ID. To set them apart, once: "
            f"drlib producer-ids {shlex.quote(str(file))} --flow {shlex.quote(str(chosen))} --separate"
        )
        raise typer.Exit(ReadinessError.exit_code)
    _confirm(target, until, yes)
    target = asyncio.run(_use_up(settings, target, until))
    show(
        f"{target.alias} gives out producer IDs from {target.oldest + 1:,} on, {distance.between(source, target):,} ahead of "
        f"{source.alias}. Producers that ran before keep theirs until they begin again: drlib doctor {shlex.quote(str(file))}"
    )


def _listed(by_broker: Mapping[int, int]) -> str:
    return ", ".join(f"{node} ({newest + 1:,})" for node, newest in sorted(by_broker.items()))


def _confirm(target: distance.NextIds, until: int, yes: str) -> None:
    show(
        f"About {until - target.oldest:,} producer IDs of {target.alias} are used up, of 2^63: a minute or two for a million. "
        f"It cannot be undone. Producers of {target.alias} that begin meanwhile may wait for some seconds.",
        error=True,
    )
    confirm_name(target.alias, yes, f"no producer ID of {target.alias} was used up", "use its producer IDs up")


async def _next_ids(settings: "MirrorSettings", flow: "Flow") -> tuple[distance.NextIds, distance.NextIds]:
    from drlib.drill.producer_ids.separate import read_next_ids
    from drlib.kafka.admin.connect import wire_client

    clusters = settings.clusters[flow.source], settings.clusters[flow.target]
    found = []
    for cluster in clusters:
        async with wire_client(cluster, client_id="drlib-producer-ids") as client:
            found.append(await read_next_ids(client, cluster.alias))
    return found[0], found[1]


async def _use_up(settings: "MirrorSettings", target: distance.NextIds, until: int) -> distance.NextIds:
    from drlib.drill.producer_ids.separate import use_up
    from drlib.kafka.admin.connect import wire_client

    began = shown = time.monotonic()

    def progress(newest: Mapping[int, int]) -> None:
        nonlocal shown
        now, least = time.monotonic(), min(newest.values())
        if now - shown < _SHOWN_S:
            return
        shown = now
        rate = (least - target.oldest) / (now - began)
        left = f", about {(until - least) / rate:,.0f} s left" if rate > 0 else ""
        show(f"  {target.alias}: {least:,} of {until:,}{left}", error=True)

    async with wire_client(settings.clusters[target.alias], client_id="drlib-producer-ids") as client:
        await client.connect()
        return await use_up(client, target, until, progress)
