"""`drlib copy`: copy topics from one cluster to another, named by aliases of a file, by addresses or by clients' files.

Rules: the options of `kafka-mirror-maker.sh` (MirrorMaker 1) mean the same: the clusters are those of `--consumer.config` and
`--producer.config`, `--include` or `--whitelist` are the topics. In the consumer's file `auto.offset.reset` counts, if set.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlib.cli.log.setup import LogFormat, LogLevel, worker_log
from drlib.config.quantities import DEFAULT_MEMORY, parse_memory
from drlib.errors import UsageError

if TYPE_CHECKING:
    from drlib.config.settings import MirrorSettings
    from drlib.config.start_rule import StartRule
    from drlib.kafka.security.cluster_settings import ClusterSettings

Memory = Annotated[str, typer.Option(metavar="SIZE", help="Memory limit of the worker, for all topics together.")]


def copy(
    source: Annotated[str | None, typer.Option("--from", help="An alias of FILE, or HOST:PORT[,HOST:PORT...].")] = None,
    target: Annotated[str | None, typer.Option("--to", help="An alias of FILE, or HOST:PORT[,HOST:PORT...].")] = None,
    topics: Annotated[
        str | None,
        typer.Option(
            "--topics", "--include", "--whitelist", help="Java patterns of whole names, separated by commas or |."
        ),
    ] = None,
    consumer_config: Annotated[
        Path | None,
        typer.Option("--consumer.config", metavar="FILE", help="MirrorMaker 1's consumer file, instead of --from."),
    ] = None,
    producer_config: Annotated[
        Path | None,
        typer.Option("--producer.config", metavar="FILE", help="MirrorMaker 1's producer file, instead of --to."),
    ] = None,
    file: Annotated[Path | None, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")] = None,
    from_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Client properties of --from HOST:PORT: security.protocol, ssl.*, sasl.*."),
    ] = None,
    to_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Client properties of --to HOST:PORT, likewise.")
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(help="Copy to PREFIX.topic; without it topics keep their names.")
    ] = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End when all records that exist at the start are copied.")
    ] = False,
    status: Annotated[Path | None, typer.Option(help="Write the worker's status to this JSON file.")] = None,
    memory: Memory = DEFAULT_MEMORY,
) -> None:
    """Copy topics exactly once until SIGTERM, or until caught up. A second run resumes where the first one ended."""
    from drlib.config.patterns import selection
    from drlib.config.settings import load_mirror_settings
    from drlib.config.start_rule import EARLIEST
    from drlib.files import refuse_unwritable

    with worker_log(LogFormat.TEXT, LogLevel.INFO):
        memory_bytes = parse_memory(memory)
        settings = load_mirror_settings(file) if file is not None else None
        patterns = selection.split_list(topics or "")
        if not patterns:
            raise UsageError("--topics is empty", "there is nothing to copy", "Give a Java pattern such as 'orders.*'.")
        selection.validate(patterns)
        if prefix is not None:
            _check_prefix(prefix)
        if status is not None:
            refuse_unwritable(status, "--status")
        from_cluster, start = _client(consumer_config, "--consumer.config", "--from", source or from_config)
        to_cluster, _ = _client(producer_config, "--producer.config", "--to", target or to_config)
        from drlib.cli.log.worker_lines import StatePrinter, write_message
        from drlib.mirror.copy_topics import CopyRequest, prepare

        request = CopyRequest(
            from_cluster or _secured(parse_cluster(source or "", "--from", settings), "--from", settings, from_config),
            to_cluster or _secured(parse_cluster(target or "", "--to", settings), "--to", settings, to_config),
            patterns,
            prefix,
            until_caught_up,
            start or EARLIEST,
        )
        prepared = prepare(request)
        names = {partition.topic for partition in prepared.ends}
        records = sum(prepared.left.values())
        what = f"copying {len(names)} topics, {len(prepared.ends)} partitions, at most {records} records"
        write_message("Copy", f"{what}, from {request.source.alias} to {request.target.alias}", status="started")
        prepared.run(status_path=status, memory_bytes=memory_bytes, on_state=StatePrinter())
        if until_caught_up and not prepared.left:
            write_message("Copy", "caught up: all records that existed at the start are copied", status="caught up")


def _client(
    path: Path | None, option: str, other: str, given: object | None
) -> tuple[ClusterSettings | None, StartRule | None]:
    """The cluster of a file of MirrorMaker 1 and where it begins, where the file is given. Raises `UsageError`."""
    from drlib.cli.log.worker_lines import write_notices
    from drlib.config.settings import load_client_file

    if path is None:
        return None, None
    if given is not None:
        raise UsageError(f"{option} does not go with {other}", "both name a cluster", "Leave one of them out.")
    found = load_client_file(path)
    write_notices(path, found.notices)
    return found.cluster, found.start


def parse_cluster(text: str, option: str, settings: MirrorSettings | None) -> ClusterSettings:
    """The cluster of an alias of the file, or at addresses. Raises `UsageError`."""
    from drlib import decoding
    from drlib.config.patterns import selection
    from drlib.kafka.security.cluster_settings import ClusterSettings

    if settings is not None and text in settings.clusters:
        return settings.clusters[text]
    addresses = selection.split_list(text)
    for address in addresses:
        try:
            decoding.address(address)
        except decoding.Undecodable:
            known = f"an alias ({', '.join(settings.clusters)}) or " if settings is not None else ""
            why = f"it is not {known}host:port"
            raise UsageError(f"{option} {text} names no cluster", why, "Correct it.") from None
    if not addresses:
        raise UsageError(f"{option} is empty", "there is no cluster to reach", "Give HOST:PORT.")
    return ClusterSettings(text, addresses)


def _secured(
    cluster: ClusterSettings, option: str, settings: MirrorSettings | None, client_file: Path | None
) -> ClusterSettings:
    """`cluster` with the security settings of `client_file`, where there is one. Raises `UsageError`."""
    from drlib.cli.log.worker_lines import write_notices
    from drlib.config.settings import load_client_settings

    if client_file is None:
        return cluster
    if settings is not None and cluster.alias in settings.clusters:
        raise UsageError(
            f"{option}-config does not go with the alias {cluster.alias}",
            f"{settings.path} has the settings of {cluster.alias}",
            f"Give {option} as HOST:PORT, or leave {option}-config out.",
        )
    secured, notices = load_client_settings(client_file, cluster.alias, cluster.bootstrap_servers)
    write_notices(client_file, notices)
    return secured


def _check_prefix(prefix: str) -> None:
    from drlib.config.replication_policy import ALIAS_LETTERS

    if not prefix or not set(prefix) <= ALIAS_LETTERS:
        raise UsageError(
            f"--prefix '{prefix}' cannot be part of a topic name",
            "it has other characters",
            "Use letters, digits, `.`, `_`, `-`.",
        )
