"""`drlib witness`: keep asking the clusters of a file from this host, and say what it sees to those who decide on a failover.

Rules: it only connects, and serves `/witness` at one address until SIGTERM or SIGINT, to those who hold the token of FILE. It
says every change of an answer.
"""

import signal
import ssl
import threading
from pathlib import Path
from typing import Annotated, Final

import typer

from drlib.errors import DrlibError, UsageError
from drlib.outgoing.terminal import show

_LOOK_S: Final = 0.2


def witness(
    file: Annotated[Path, typer.Argument(help="A connect-mirror-maker.properties file.", metavar="FILE")],
    at: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Where to say it. Beyond this machine FILE has to name drlib.witness.token."
        ),
    ] = "127.0.0.1:9470",
    certificate: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Use TLS: the certificate of this host's name, then its issuers.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="PEM", help="The private key of --certificate.")] = None,
) -> None:
    """Say what this host sees of the clusters, for `drlib failover --witness` and runbooks, until SIGTERM or SIGINT.

    Run it at a third place, whose network fails with neither cluster. Exit code 0: it was ended.
    """
    from drlib.config.settings import load_mirror_settings
    from drlib.drill.witness.evidence import Answer
    from drlib.drill.witness.login import token_to_serve
    from drlib.drill.witness.look import answers
    from drlib.drill.witness.service import Witness
    from drlib.kafka.security.cluster_settings import ClusterSettings

    def ask(cluster: ClusterSettings) -> Answer:
        return answers([cluster])[cluster.alias]

    settings = load_mirror_settings(file)
    clusters, tls = tuple(settings.clusters.values()), _tls(certificate, key)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    serving = Witness(at, clusters, ask, token=token_to_serve(settings), tls=tls)
    said: dict[str, Answer] = {}
    try:
        show(f"says what it sees of {', '.join(each.alias for each in clusters)} at {serving.address}")
        while not ended.wait(_LOOK_S):
            if isinstance(serving.failure, DrlibError):
                raise serving.failure
            for alias, seen in serving.seen().items():
                if said.get(alias) is not seen.answer:
                    said[alias] = seen.answer
                    show(f"{alias}: {seen.answer}")
    finally:
        serving.close()


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Raises `UsageError` for one without the other, and for files that are no certificate with its key."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--certificate and --key", "only one of them is given", "Give both, or none.")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--certificate {certificate} with --key {key}", str(error), "Give PEM files; the key is not encrypted."
        ) from error
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted")
