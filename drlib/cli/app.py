"""The commands. Each parses, calls one function below and prints; decisions live elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from drlib.cli.config import config_app
from drlib.cli.copy import copy
from drlib.cli.doctor import doctor
from drlib.cli.flows import parse_flow
from drlib.cli.service import service_app
from drlib.cli.sizes import DEFAULT_MEMORY, Memory, parse_memory
from drlib.errors import UsageError
from drlib.model import GroupTranslation

app = typer.Typer(
    name="drlib",
    help="Mirror Kafka clusters exactly, and practise failing over.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
lab_app = typer.Typer(help="Real Kafka clusters on this machine.", no_args_is_help=True)
app.add_typer(lab_app, name="lab")
app.add_typer(config_app, name="config")
app.add_typer(service_app, name="service")

app.command("copy")(copy)
app.command("doctor")(doctor)

LAB_DIR = Path(".lab")
PropertiesFile = Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")]
LabDirectory = Annotated[Path, typer.Option("--dir", help="Where the lab keeps its state.")]


@app.command()
def mirror(
    file: PropertiesFile,
    status_file: Annotated[
        Path | None, typer.Option("--status", help="Write the worker's status to this JSON file.")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Serve /metrics (Prometheus) and /status here, e.g. 127.0.0.1:9464; port 0: any."
        ),
    ] = None,
    memory: Memory = DEFAULT_MEMORY,
) -> None:
    """Mirror every enabled flow of FILE until SIGTERM or SIGINT."""
    from drlib.cli.states import StatePrinter
    from drlib.config.settings import load_mirror_settings
    from drlib.mirror import worker

    memory_bytes = parse_memory(memory)
    settings = load_mirror_settings(file)
    errors = Console(stderr=True)
    for notice in settings.notices:
        errors.print(f"{file}:{notice.line}: {notice.key}: {notice.text}", style="yellow", highlight=False)
    worker.run(
        settings,
        status_path=status_file,
        metrics_address=metrics,
        memory_bytes=memory_bytes,
        on_state=StatePrinter(errors),
    )


@app.command()
def status(
    file: PropertiesFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Redraw until q or Ctrl-C.")] = False,
    groups: Annotated[
        bool, typer.Option("--groups", help="Consumer groups too: lag, and where they would resume.")
    ] = False,
    at: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="A worker's --metrics address; repeat for more.")
    ] = None,
    worker_file: Annotated[
        list[Path] | None, typer.Option("--file", help="A worker's --status file; repeat for more.")
    ] = None,
    rows: Annotated[int, typer.Option(help="How many partitions to show of each flow.", min=1)] = 12,
) -> None:
    """How every enabled flow of FILE is: lanes, lag, time to catch up, what retention leaves, events and remedies.

    Asks the clusters, so it works from any machine and when every worker is dead; a worker that can be heard adds its
    detail. Exit code 0: all is well; 3: something is open or no worker runs; 11: nobody answers.
    """
    from drlib.cli.status import Watch, once, until_quit
    from drlib.config.settings import load_mirror_settings

    if as_json and watch:
        raise UsageError("--json and --watch do not go together", "JSON is printed once", "Leave one of them out.")
    looking = Watch(load_mirror_settings(file), addresses=at or (), files=worker_file or (), groups=groups)
    code = until_quit(looking, rows=rows) if watch else once(looking, as_json_text=as_json, rows=rows)
    raise typer.Exit(code)


@app.command()
def translate(
    file: PropertiesFile,
    flow: Annotated[str, typer.Option(help="The flow, e.g. 'LEFT->RIGHT'.")],
    group: Annotated[list[str] | None, typer.Option(help="A group; repeat for more. All when left out.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what the committed positions of groups are on the other cluster: exact, behind by n, or why not."""
    from drlib.config.settings import load_mirror_settings
    from drlib.mirror.translate import translate_groups

    found = translate_groups(load_mirror_settings(file), parse_flow(flow), group)
    if as_json:
        print(json.dumps([_row(item) for item in found], indent=2))
        return
    table = Table(title=f"Positions for {flow}")
    for name in ("group", "source", "position", "target", "translated", "meaning"):
        table.add_column(name, justify="right" if name in {"position", "translated"} else "left")
    for item in found:
        there = item.translation
        meaning = there.kind.value + (f" by {there.records}" if there.records else "")
        offset = "-" if there.offset is None else str(there.offset)
        table.add_row(item.group, str(item.source), str(item.source_offset), str(item.target), offset, meaning)
    Console().print(table)


def _row(item: GroupTranslation) -> dict[str, object]:
    return {
        "group": item.group,
        "topic": item.source.topic,
        "partition": item.source.partition,
        "position": item.source_offset,
        "target_topic": item.target.topic,
        "offset": item.translation.offset,
        "kind": item.translation.kind.value,
        "records": item.translation.records,
        "as_of_ms": item.as_of_ms,
    }


@app.command()
def run(
    runbook: Annotated[Path, typer.Argument(help="A file of runbooks/.", metavar="RUNBOOK")],
    parameter: Annotated[list[str] | None, typer.Option("-p", "--parameter", help="NAME=VALUE")] = None,
    lab: Annotated[bool, typer.Option("--lab", help="Start the lab for it, and stop it afterwards.")] = False,
    runs_dir: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("runs"),
) -> None:
    """Execute a runbook: its notebook through papermill, with verdict, scorecard and report."""
    from drlib.cli.running import run_runbook

    raise typer.Exit(run_runbook(runbook, parameter or [], lab=lab, runs_dir=runs_dir))


@lab_app.command("up")
def lab_up(directory: LabDirectory = LAB_DIR) -> None:
    """Start clusters LEFT and RIGHT and the link between them."""
    from drlib.lab.lab import Lab

    console = Console(stderr=True)
    lab = Lab(directory, detach=True, on_event=lambda text: console.print(text, highlight=False))
    lab.up()
    print(f"LEFT  {lab.clusters['LEFT'].bootstrap}\nRIGHT {lab.clusters['RIGHT'].bootstrap}")
    print(f"Properties: {lab.write_properties()}\nStop it with: drlib lab down --dir {directory}")


@lab_app.command("status")
def lab_status(directory: LabDirectory = LAB_DIR) -> None:
    """What runs, with its pid."""
    from drlib.lab.lab import Lab

    table = Table()
    for name in ("process", "pid", "state"):
        table.add_column(name)
    for process in Lab.attach(directory).status():
        table.add_row(process.name, str(process.pid), "running" if process.alive else "gone")
    Console().print(table)


@lab_app.command("down")
def lab_down(directory: LabDirectory = LAB_DIR) -> None:
    """Stop everything the lab started and remove its data."""
    from drlib.lab.lab import Lab

    Lab.attach(directory).down()
    print("The lab is down.")
