"""`drlib bootstrap`: an address that applications keep in `bootstrap.servers`, which leads to the active cluster.

Rules: options in, lines and metrics out; what is done is `drlib.client.bootstrap`'s. It listens at this machine's loopback
address unless another one is given.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from drlib import decoding
from drlib.cli.log.setup import LogFormat, LogLevel, worker_log, write_line
from drlib.errors import UsageError
from drlib.mirror.status.event_kinds import Level

if TYPE_CHECKING:
    from drlib.client.bootstrap.notes import Note

DEFAULT_LISTEN: Final = ("127.0.0.1:9092",)
DEFAULT_CONNECTIONS: Final = 4000
DEFAULT_IDLE: Final = "10m"
DEFAULT_DRAIN: Final = "10s"

Listen = Annotated[
    list[str] | None,
    typer.Option(metavar="HOST:PORT", help="Where to listen; repeat for more. 127.0.0.1:9092 unless given."),
]
Public = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST:PORT",
        help="What applications have in bootstrap.servers, where that is another name or a load balancer's: "
        "certificates have to have this name, and it must not lead back here.",
    ),
]


def bootstrap(
    file: Annotated[
        Path, typer.Argument(help="Your clusters: their connect-mirror-maker.properties file.", metavar="FILE")
    ],
    listen: Listen = None,
    address: Public = None,
    application: Annotated[
        str, typer.Option(help="Follow the pointer of this application; *: of all.", metavar="NAME")
    ] = "*",
    pointer: Annotated[
        Path | None,
        typer.Option("--pointer", metavar="PATH", help="Follow a pointer file, not the pointer topic of the clusters."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Remember the active cluster here, for a restart while it cannot be read."),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve /metrics (Prometheus) here; port 0: any.")
    ] = None,
    max_connections: Annotated[
        int, typer.Option(metavar="N", help="The most connections at a time.", min=1, max=1_000_000)
    ] = DEFAULT_CONNECTIONS,
    idle: Annotated[
        str, typer.Option(metavar="TIME", help="Close connections that are silent for so long.")
    ] = DEFAULT_IDLE,
    drain: Annotated[
        str, typer.Option(metavar="TIME", help="When it is stopped, how long open connections may take to end.")
    ] = DEFAULT_DRAIN,
    log_format: Annotated[LogFormat, typer.Option(help="Lines of text, or one JSON object a line.")] = LogFormat.TEXT,
    log_level: Annotated[LogLevel, typer.Option(help="The least level that is written.")] = LogLevel.INFO,
) -> None:
    """Serve one address that clients keep in bootstrap.servers; it leads to the active cluster.

    Connections are passed on to that cluster's bootstrap servers. With their first answer clients learn its brokers, and read
    and write there directly. Which cluster is active the pointer says (drlib pointer). Runs until SIGTERM or Ctrl-C.

    Exit code 0: it was ended; 11: no cluster is active, or that cannot be read.
    """
    import asyncio

    from drlib.client.bootstrap.metrics import BootstrapCollector
    from drlib.client.bootstrap.proxy import Limits
    from drlib.client.bootstrap.service import Bootstrap, Options, allow_files
    from drlib.client.pointer import PointerSource
    from drlib.client.pointer_watch import pointer_source
    from drlib.config.quantities import seconds
    from drlib.config.settings import load_mirror_settings
    from drlib.mirror.status.endpoint import serving_metrics
    from drlib.mirror.status.systemd import ServiceManager

    with worker_log(log_format, log_level):
        clusters = load_mirror_settings(file).clusters
        limits = Limits(max_connections, seconds(idle, "--idle"))
        options = Options(
            listen=tuple(map(listening, listen or DEFAULT_LISTEN)),
            public=tuple(map(public, address or ())),
            application=application,
            state=state,
            limits=limits,
            drain_s=seconds(drain, "--drain"),
        )
        allow_files(max_connections)

        def source() -> PointerSource:
            return pointer_source(pointer, tuple(clusters.values()), application)

        served = Bootstrap(clusters, source, options, write_note, ServiceManager.from_environment())
        with nullcontext() if metrics is None else serving_metrics(metrics, BootstrapCollector(served)):
            asyncio.run(served.run())


def listening(text: str) -> tuple[str, int]:
    """The address of --listen. Raises `UsageError`."""
    return _address(text, "--listen", 0)


def public(text: str) -> tuple[str, int]:
    """The address of --address. Raises `UsageError`."""
    return _address(text, "--address", 1)


def _address(text: str, option: str, least_port: int) -> tuple[str, int]:
    try:
        return decoding.address(text, least_port=least_port)
    except decoding.Undecodable as error:
        raise UsageError(f"{option} {text!r} is no address", str(error), "Write 127.0.0.1:9092, for example.") from None


def write_note(note: Note) -> None:
    """Write a note as one line of the log."""
    from drlib import clock
    from drlib.cli.log.lines import LogLine
    from drlib.client.bootstrap.notes import KINDS

    kind = KINDS[note.name]
    is_over = note.status == "resolved"
    write_line(
        LogLine(
            clock.now_ms(),
            Level.INFO if is_over else Level[kind.severity.name],
            note.name,
            note.status,
            entity=note.cluster,
            count=note.count,
            detail=note.detail,
            remedy="" if is_over else kind.remedy,
        )
    )
