"""`drlib size`: what carries a flow over a link, from formulas alone, or measured on the lab's link beside them.

Rules: nothing is connected to unless `--measure` asks for a lab. Exit code 0: the flow is carried; 3: it is not, or an outage
that was asked about loses records.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from drlib.errors import ReadinessError

_RETENTION = "7d"


def size(
    rate: Annotated[str, typer.Option(help="What producers write, as it is in batches, e.g. 5MB/s.")],
    rtt: Annotated[str, typer.Option(help="Round trip of the link, e.g. 200ms.")],
    bandwidth: Annotated[str, typer.Option(help="Of the link, each way, e.g. 1Gb/s (b is bits, B bytes).")],
    partitions: Annotated[int, typer.Option(help="Partitions that are mirrored.", min=1)],
    retention: Annotated[str, typer.Option(help="Of the source's topics; Kafka's own default is 7d.")] = _RETENTION,
    outage: Annotated[list[str] | None, typer.Option(help="A time without a mirror, e.g. 6h; repeat for more.")] = None,
    measure: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Measure it too, on the lab in DIR; one is started there if none runs. About a minute."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Size a link: what one client after another reaches, what drlib mirror does, workers, lanes, memory, catching up.

    Exit code 0: the flow is carried and no outage loses records; 3: it is not, or one does.
    """
    from drlib.ui.sizing.sizing import OUTAGES, Sizing

    sizing = Sizing(rate, rtt, bandwidth, partitions, retention=retention, outages=outage or OUTAGES)
    trial = sizing.measure(measure, bandwidth, rtt) if measure is not None else None
    if as_json:
        told: dict[str, object] = {**asdict(sizing.size), "outages": [asdict(each) for each in sizing.outages]}
        if trial is not None:
            told["measured"] = [asdict(one) for one in trial.tried.found]
        print(json.dumps(told, indent=2))
    else:
        shown = [sizing.link(), sizing.needs(), sizing.after_outages()]
        shown += [trial.link(), trial.workers()] if trial is not None else []
        print("\n\n".join(map(repr, shown)))
    asked = [each for each in sizing.outages if outage]
    raise typer.Exit(0 if sizing.size.enough and not any(each.lost for each in asked) else ReadinessError.exit_code)
