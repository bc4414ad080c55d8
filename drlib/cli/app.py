"""The command tree, and the commands mirror and status.

Rules: a command parses, calls one function below and prints; decisions are made in other packages.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from drlib.cli.academy import academy_app
from drlib.cli.bootstrap import bootstrap
from drlib.cli.drill.drills import abort, plan, run
from drlib.cli.drill.failback import failback
from drlib.cli.drill.failover import failover
from drlib.cli.drill.init import init
from drlib.cli.drill.inventory import inventory
from drlib.cli.drill.runs import runs_app, schedule_app
from drlib.cli.drill.witness import witness
from drlib.cli.incident import incident_app
from drlib.cli.lab import lab_app
from drlib.cli.log.setup import LogFormat, LogLevel, worker_log
from drlib.cli.mirror.config import config_app
from drlib.cli.mirror.copy import Memory, copy
from drlib.cli.mirror.doctor import doctor
from drlib.cli.mirror.remirror import remirror
from drlib.cli.mirror.service import service_app
from drlib.cli.mirror.size import size
from drlib.cli.mirror.translate import translate
from drlib.cli.notebook import notebook
from drlib.cli.pointer import pointer_app
from drlib.config.quantities import DEFAULT_MEMORY, parse_memory
from drlib.errors import UsageError
from drlib.outgoing.terminal import show

app = typer.Typer(
    name="drlib",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(lab_app, name="lab")
app.add_typer(academy_app, name="academy")
app.add_typer(config_app, name="config")
app.add_typer(incident_app, name="incident")
app.add_typer(pointer_app, name="pointer")
app.add_typer(service_app, name="service")

app.command("bootstrap")(bootstrap)
app.command("copy")(copy)
app.command("doctor")(doctor)
app.command("failover")(failover)
app.command("failback")(failback)
app.command("init")(init)
app.command("inventory")(inventory)
app.command("notebook")(notebook)
app.add_typer(runs_app, name="runs")
app.add_typer(schedule_app, name="schedule")
app.command("plan")(plan)
app.command("remirror")(remirror)
app.command("run")(run)
app.command("abort")(abort)
app.command("size")(size)
app.command("translate")(translate)
app.command("witness")(witness)

PropertiesFile = Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")]


def _print_version(wanted: bool) -> None:
    if wanted:
        show(f"drlib {version('drlib')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Mirror Kafka clusters exactly, and practise failing over."""


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
    log_format: Annotated[LogFormat, typer.Option(help="Lines of text, or one JSON object a line.")] = LogFormat.TEXT,
    log_level: Annotated[LogLevel, typer.Option(help="The least level that is written.")] = LogLevel.INFO,
    spark: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER", help="Run the workers as Spark tasks: local[N], spark://HOST:PORT, yarn, k8s://URL."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Number of workers on Spark; 1 unless given.")
    ] = None,
    spark_conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A Spark setting; repeat for more.")
    ] = None,
) -> None:
    """Mirror every enabled flow of FILE until SIGTERM or SIGINT."""
    from drlib.cli.log.worker_lines import StatePrinter, write_notices
    from drlib.config.settings import load_mirror_settings
    from drlib.mirror import worker

    with worker_log(log_format, log_level):
        memory_bytes = parse_memory(memory)
        if spark is not None:
            from drlib.cli.mirror.spark import on_spark

            on_spark(file, spark, workers, spark_conf or (), memory_bytes, metrics, status_file)
            return
        if workers is not None or spark_conf:
            raise UsageError(
                "--workers and --spark-conf are for --spark",
                "without Spark each worker is a command of its own",
                "Give --spark MASTER, or start this command once per worker.",
            )
        settings = load_mirror_settings(file)
        write_notices(file, settings.notices)
        worker.run(
            settings,
            status_path=status_file,
            metrics_address=metrics,
            memory_bytes=memory_bytes,
            on_state=StatePrinter(),
        )


@app.command()
def status(
    file: PropertiesFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Redraw until q or Ctrl-C.")] = False,
    groups: Annotated[
        bool, typer.Option("--groups", help="Also show consumer groups: lag, and where they would resume.")
    ] = False,
    at: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="A worker's --metrics address; repeat for more.")
    ] = None,
    worker_file: Annotated[
        list[Path] | None, typer.Option("--file", help="A worker's --status file; repeat for more.")
    ] = None,
    rows: Annotated[int, typer.Option(help="How many partitions of each flow to show.", min=1)] = 12,
    runs: Annotated[Path, typer.Option("--runs-dir", help="Where run folders are.")] = Path("runs"),
) -> None:
    """Show every enabled flow of FILE: lanes, lag, time to catch up, time until retention, events and remedies.

    Asks the clusters, so it works from any machine and when every worker is dead; workers that can be reached add their
    detail. Exit code 0: no problem; 3: an event is open or no worker runs; 11: no cluster answers.
    """
    from drlib.cli.mirror.status import StatusObserver, print_once
    from drlib.cli.mirror.status import watch as watch_status
    from drlib.config.settings import load_mirror_settings

    if as_json and watch:
        raise UsageError("--json and --watch do not go together", "JSON is printed once", "Give only one.")
    observer = StatusObserver(
        load_mirror_settings(file), addresses=at or (), files=worker_file or (), groups=groups, runs_dir=runs
    )
    code = watch_status(observer, rows=rows) if watch else print_once(observer, as_json_text=as_json, rows=rows)
    raise typer.Exit(code)
