"""`drlib doctor`: print the readiness of flows; the exit code is the gate.

Rules: the table goes to stdout, or one JSON document with `--json`; the reason of a closed gate goes to stderr as an error,
with exit code 3. With `--metrics` it checks again and again until it is stopped, with a line for each flow, and no gate.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from drlib import clock
from drlib.cli import print_error
from drlib.cli.mirror.status import refuse_no_addresses
from drlib.drill.readiness.checks.objectives import Objectives
from drlib.drill.readiness.role import Role
from drlib.drill.readiness.score import MINIMUM, gate
from drlib.errors import DrlibError, UsageError
from drlib.formats import one_line
from drlib.outgoing.terminal import show
from drlib.ui.terminal.plain_console import plain_console

if TYPE_CHECKING:
    from drlib.drill.readiness.score import Readiness

_DEFAULT = Objectives()
_EVERY: Final = "5m"


def doctor(
    file: Annotated[
        Path, typer.Argument(help="Your clusters: their connect-mirror-maker.properties file.", metavar="FILE")
    ],
    flow: Annotated[str | None, typer.Option(help="One flow; all enabled ones unless given.", metavar="A->B")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    minimum: Annotated[
        int, typer.Option("--min-score", help="The least score that is ready.", min=0, max=100, metavar="N")
    ] = MINIMUM,
    rpo_records: Annotated[
        int, typer.Option(help="Objective: how many records a failover may lose.", min=0, metavar="N")
    ] = _DEFAULT.rpo_records,
    rpo_seconds: Annotated[
        float, typer.Option(help="Objective: how many seconds of records it may lose.", min=0, metavar="S")
    ] = _DEFAULT.rpo_seconds,
    drill_days: Annotated[
        int, typer.Option(help="Warn when no drill passed for so many days.", min=1, metavar="N")
    ] = _DEFAULT.drill_days,
    runs: Annotated[
        Path, typer.Option("--runs-dir", help="Where the folders of past drills are.", metavar="DIR")
    ] = Path("runs"),
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT", help="Where a worker serves its metrics (drlib mirror --metrics); repeat for more."
        ),
    ] = None,
    textfile: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Also write a file for node_exporter's textfile collector (.prom)."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Check again and again, and serve the result to Prometheus here (/metrics); port 0: any.",
        ),
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --metrics: how long between two checks; 5m unless given.")
    ] = None,
    rights: Annotated[
        bool,
        typer.Option(
            "--rights", help="Print kafka-acls.sh commands with the least rights of each role; ask no cluster."
        ),
    ] = False,
    role: Annotated[Role | None, typer.Option(help="With --rights: this role alone.")] = None,
    mirror_principal: Annotated[
        str | None, typer.Option("--principal-mirror", metavar="User:NAME", help="With --rights: who has this role.")
    ] = None,
    drill_principal: Annotated[
        str | None, typer.Option("--principal-drill", metavar="User:NAME", help="The same of drills.")
    ] = None,
    doctor_principal: Annotated[
        str | None, typer.Option("--principal-doctor", metavar="User:NAME", help="The same of this command.")
    ] = None,
    audit_principal: Annotated[
        str | None, typer.Option("--principal-audit", metavar="User:NAME", help="The same of audits.")
    ] = None,
) -> None:
    """Show how ready the flows of FILE are for a failover: a score from 0 to 100, findings, and how to fix them.

    It changes nothing. Drills on FILE begin only where it finds their flow ready.

    Exit code 0: ready; 3: a score below --min-score, or a critical finding.
    """
    principals = {
        Role.MIRROR: mirror_principal,
        Role.DRILL: drill_principal,
        Role.DOCTOR: doctor_principal,
        Role.AUDIT: audit_principal,
    }
    if every is not None and metrics is None:
        raise UsageError("--every", "it is how often --metrics checks", "Give --metrics as well.")
    if rights:
        _print_rights(file, flow, role, principals)
        return
    given = ["--role"] if role is not None else []
    given += [f"--principal-{each}" for each, name in principals.items() if name is not None]
    if given:
        raise UsageError(" and ".join(given), "they are for the commands of --rights", "Give --rights as well.")
    refuse_no_addresses(at or ())
    from drlib.config.settings import load_mirror_settings
    from drlib.model import Flow

    objectives = Objectives(rpo_records, rpo_seconds, drill_days)
    only_flow = Flow.parse(flow) if flow is not None else None
    settings = load_mirror_settings(file)
    from drlib.config.quantities import seconds
    from drlib.drill.readiness.doctor import doctor as check_readiness
    from drlib.drill.run.request import ClusterTarget
    from drlib.drill.session import unfinished_runs
    from drlib.files import refuse_unwritable, write_whole
    from drlib.ui.terminal.doctor import render_readiness
    from drlib.ui.terminal.readiness_json import as_json_text

    def check() -> Sequence["Readiness"]:
        return check_readiness(settings, flow=only_flow, objectives=objectives, runs=runs, addresses=at or ())

    if metrics is not None:
        if textfile is not None or as_json:
            raise UsageError("--metrics", "it does not go with --textfile and --json", "Give one of them.")
        _serve(metrics, seconds(_EVERY if every is None else every, "--every"), minimum, check)
        return
    if textfile is not None:
        refuse_unwritable(textfile, "--textfile")
    asked = [each for each in settings.enabled_flows if only_flow in (None, each.flow)]
    place = ClusterTarget(properties=file.absolute())
    unfinished = unfinished_runs.find([(each.flow, settings.clusters[each.flow.target]) for each in asked], runs, place)
    report = check()
    if textfile is not None:
        from drlib.drill.readiness.metrics import textfile as page

        write_whole(textfile, page(report, minimum), mode=0o644)  # another user's node_exporter reads it
    if as_json:
        show(as_json_text(report, minimum, unfinished))
    else:
        for line in unfinished_runs.lines(unfinished, clock.now_ms()):
            show(one_line(line))
        plain_console().print(render_readiness(report, minimum))
    gate(report, minimum)


def _serve(address: str, every_s: float, minimum: int, check: Callable[[], Sequence["Readiness"]]) -> None:
    """Check and serve until the process is stopped. Raises `UsageError` for an address at which it cannot listen."""
    from drlib.drill.readiness.metrics import ReadinessCollector
    from drlib.mirror.status.endpoint import serving_metrics

    collector = ReadinessCollector(minimum)
    with serving_metrics(address, collector) as listening:
        show(f"metrics at http://{listening}/metrics")
        while True:
            try:
                flows = check()
            except DrlibError as error:
                collector.update(None)
                print_error(str(error))
            else:
                collector.update(flows)
                for each in flows:
                    show(one_line(f"{each.flow}: {each.score} of 100, {'' if each.ready(minimum) else 'not '}ready"))
            time.sleep(every_s)


def _print_rights(file: Path, flow: str | None, role: Role | None, principals: Mapping[Role, str | None]) -> None:
    """Print what every role, or `role` alone, needs for the enabled flows of `file`, or for `flow`. Raises `UsageError`."""
    from drlib.config.settings import load_mirror_settings
    from drlib.model import Flow

    for each, name in principals.items():
        if name is not None and not all(name.partition(":")):
            raise UsageError(
                f"--principal-{each} {name!r} is no principal",
                "it is not TYPE:NAME",
                f"Write User:{name.strip(':') or 'NAME'}.",
            )
    settings = load_mirror_settings(file)
    from drlib.drill.readiness.required_rights import flows_of, lines, required_rights

    for chosen in flows_of(settings, Flow.parse(flow) if flow is not None else None):
        for each in Role if role is None else (role,):
            for line in lines(required_rights(settings, chosen, each), settings.clusters, principals.get(each) or ""):
                show(line)
