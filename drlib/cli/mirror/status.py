"""`drlib status`: its options, and which go together. Not for: asking and printing (`drlib.cli.mirror.status_observer`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from drlib.errors import UsageError


def refuse_no_addresses(at: Sequence[str]) -> None:
    """Raises `UsageError` for an address of `--at` at which nothing can be asked."""
    from drlib import decoding

    for address in at:
        try:
            decoding.address(address)
        except decoding.Undecodable as error:
            raise UsageError(
                f"--at {address!r} is not an address", str(error), "Write 127.0.0.1:9464, for example."
            ) from None


def status(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Redraw until q or Ctrl-C.")] = False,
    groups: Annotated[
        bool, typer.Option("--groups", help="Also show consumer groups: lag, and where they would resume.")
    ] = False,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST:PORT", help="The --metrics address of a worker (drlib mirror); repeat for more."),
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
    from drlib.config.settings import load_mirror_settings

    if as_json and watch:
        raise UsageError("--json and --watch do not go together", "JSON is printed once", "Give only one.")
    refuse_no_addresses(at or ())
    settings = load_mirror_settings(file)
    from drlib.cli.mirror.status_observer import StatusObserver, print_once
    from drlib.cli.mirror.status_observer import watch as watch_status

    observer = StatusObserver(settings, addresses=at or (), files=worker_file or (), groups=groups, runs_dir=runs)
    code = watch_status(observer, rows=rows) if watch else print_once(observer, as_json_text=as_json, rows=rows)
    raise typer.Exit(code)
