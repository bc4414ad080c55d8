"""`drlib mirror --spark`: check the options and print progress. Not for: running workers (`drlib.mirror.spark.driver`)."""

from collections.abc import Sequence
from pathlib import Path

from drlib.analysis.spark.session import spark_session
from drlib.cli.log.worker_lines import StatePrinter, write_message, write_notices
from drlib.config.settings import load_mirror_settings
from drlib.errors import UsageError
from drlib.mirror.spark.driver import SparkMirrorOptions, mirror_on_spark
from drlib.mirror.spark.rules import addresses, parse_settings
from drlib.mirror.status.worker_status import WorkerStatus


def on_spark(
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
    addresses(master)
    spark_conf = parse_settings(pairs)
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
