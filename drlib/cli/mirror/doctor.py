"""`drlib doctor`: look, print what was found, and let the exit code be the gate.

Rules: the table goes to stdout, or one JSON document with `--json`; why the gate is closed goes to stderr as every error
does, with exit code 3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from drlib.drill.readiness.checks.objectives import Objectives
from drlib.drill.readiness.score import MINIMUM, gate

_DEFAULT = Objectives()


def doctor(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    flow: Annotated[
        str | None, typer.Option(help="One flow, e.g. 'LEFT->RIGHT'; all enabled ones when left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    minimum: Annotated[int, typer.Option("--min-score", help="The score the gate asks for.", min=0, max=100)] = MINIMUM,
    rpo_records: Annotated[int, typer.Option(help="Records a failover may lose.", min=0)] = _DEFAULT.rpo_records,
    rpo_seconds: Annotated[
        float, typer.Option(help="Seconds of records a failover may lose.", min=0)
    ] = _DEFAULT.rpo_seconds,
    drill_days: Annotated[int, typer.Option(help="A drill is due every so many days.", min=1)] = _DEFAULT.drill_days,
    runs: Annotated[Path, typer.Option("--runs-dir", help="Where run folders are.")] = Path("runs"),
    at: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="A worker's --metrics address; repeat for more.")
    ] = None,
) -> None:
    """How ready the flows of FILE are for a failover: a score from 0 to 100, what is wrong, and how to mend it.

    Only looks. Exit code 0: ready; 3: below --min-score, or something is critical.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.drill.readiness.doctor import doctor as examine
    from drlib.model import Flow
    from drlib.ui.terminal.doctor import readiness_of
    from drlib.ui.terminal.readiness_json import as_json_text

    objectives = Objectives(rpo_records, rpo_seconds, drill_days)
    chosen = Flow.parse(flow) if flow is not None else None
    found = examine(load_mirror_settings(file), flow=chosen, objectives=objectives, runs=runs, addresses=at or ())
    if as_json:
        print(as_json_text(found, minimum))
    else:
        Console(highlight=False).print(readiness_of(found, minimum))
    gate(found, minimum)
