"""`drlib size`: size workers, lanes and memory for a flow over a link, by formulas, and with `--measure` on a lab's link.

Rules: connects to nothing without `--measure`. Exit code 0: the link carries the flow; 3: it does not, or an outage given with
`--outage` loses records.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from drlib.errors import ReadinessError
from drlib.outgoing.terminal import show

_RETENTION = "7d"


def size(
    rate: Annotated[str, typer.Option(help="Rate of the producers, compressed as in their batches, e.g. 5MB/s.")],
    rtt: Annotated[str, typer.Option(help="Round-trip time of the link, e.g. 200ms.")],
    bandwidth: Annotated[str, typer.Option(help="Bandwidth of the link, each way, e.g. 1Gb/s (b is bits, B bytes).")],
    partitions: Annotated[int, typer.Option(help="Mirrored partitions.", min=1)],
    retention: Annotated[
        str, typer.Option(help="Retention of the source's topics; Kafka's default is 7d.")
    ] = _RETENTION,
    outage: Annotated[
        list[str] | None, typer.Option(help="Duration without a mirror, e.g. 6h; repeat for more.")
    ] = None,
    measure: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Measure, too, on the lab in DIR, which is started if it does not run. About a minute."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Size a link: what sequential fetching reaches, what drlib mirror reaches, workers, lanes, memory, catching up.

    Exit code 0: the link carries the flow and no outage loses records; 3: otherwise.
    """
    from drlib.ui.sizing.sizing import OUTAGES, Sizing

    sizing = Sizing(rate, rtt, bandwidth, partitions, retention=retention, outages=outage or OUTAGES)
    trial = sizing.measure(measure, bandwidth, rtt) if measure is not None else None
    if as_json:
        document: dict[str, object] = {**asdict(sizing.size), "outages": [asdict(each) for each in sizing.outages]}
        if trial is not None:
            document["measured"] = [asdict(measurement) for measurement in trial.tried.found]
        show(json.dumps(document, indent=2))
    else:
        sections = [sizing.link(), sizing.needs(), sizing.after_outages()]
        sections += [trial.link(), trial.workers()] if trial is not None else []
        show("\n\n".join(map(repr, sections)))
    given_outages = sizing.outages if outage else ()
    raise typer.Exit(
        0 if sizing.size.enough and not any(each.lost for each in given_outages) else ReadinessError.exit_code
    )
