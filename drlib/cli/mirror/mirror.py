"""`drlib mirror`: run one worker, or workers on Spark. Not for: what a worker does (`drlib.mirror.worker`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlib.cli.log.setup import LogFormat, LogLevel, worker_log
from drlib.cli.mirror.copy import Memory
from drlib.config.quantities import DEFAULT_MEMORY, parse_memory
from drlib.errors import UsageError

if TYPE_CHECKING:
    from drlib.mirror.status.worker_status import WorkerStatus

PropertiesFile = Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")]


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
    from drlib.config.settings import load_mirror_settings
    from drlib.files import refuse_unwritable

    with worker_log(log_format, log_level):
        memory_bytes = parse_memory(memory)
        if spark is not None:
            _on_spark(file, spark, workers, spark_conf or (), memory_bytes, metrics, status_file)
            return
        if workers is not None or spark_conf:
            raise UsageError(
                "--workers and --spark-conf are for --spark",
                "without Spark each worker is a command of its own",
                "Give --spark MASTER, or start this command once per worker.",
            )
        settings = load_mirror_settings(file)
        if status_file is not None:
            refuse_unwritable(status_file, "--status")
        from drlib.cli.log.worker_lines import StatePrinter, write_notices
        from drlib.mirror import worker

        write_notices(file, settings.notices)
        worker.run(
            settings,
            status_path=status_file,
            metrics_address=metrics,
            memory_bytes=memory_bytes,
            on_state=StatePrinter(),
        )


def _on_spark(
    file: Path,
    master: str,
    workers: int | None,
    pairs: Sequence[str],
    memory_bytes: int,
    metrics: str | None,
    status_file: Path | None,
) -> None:
    """Mirror until SIGTERM or SIGINT. Raises `UsageError` for options that do not go with Spark."""
    if status_file is not None:
        raise UsageError(
            "--spark and --status do not go together",
            "the workers run on other machines, and --status is one file here",
            "Ask the clusters with 'drlib status FILE'; --metrics 0.0.0.0:0 adds each worker's own detail.",
        )
    from drlib.mirror.spark.rules import addresses, parse_settings

    addresses(master)
    spark_conf = parse_settings(pairs)
    from drlib.analysis.spark.session import spark_session
    from drlib.cli.log.worker_lines import StatePrinter, write_message, write_notices
    from drlib.config.settings import load_mirror_settings
    from drlib.mirror.spark.driver import SparkMirrorOptions, mirror_on_spark

    write_notices(file, load_mirror_settings(file).notices)
    printers: dict[int, StatePrinter] = {}

    def on_state(number: int, state: WorkerStatus) -> None:
        printers.setdefault(number, StatePrinter(f"worker {number}"))(state)

    mirror_on_spark(
        SparkMirrorOptions(file, master, 1 if workers is None else workers, memory_bytes, metrics, spark_conf),
        start_session=spark_session,
        report=lambda text: write_message("Spark", text),
        on_state=on_state,
    )
