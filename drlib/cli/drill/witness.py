"""`drlib witness`: keep asking the clusters of a file from this host, and say what it sees to those who decide on a failover.

Rules: it only connects, and serves `/witness` at one address until SIGTERM or SIGINT, to those who hold the token of FILE. It
says every change of an answer.
"""

import ssl
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer

from drlib.errors import DrlibError, UsageError
from drlib.files import read_given_bytes
from drlib.outgoing.terminal import show
from drlib.runs.signals import SignalSafeEvent, handled

_LOOK_S: Final = 0.2
_MOST_PEM: Final = 1 << 20


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
    ended = SignalSafeEvent()
    serving = Witness(at, clusters, ask, token=token_to_serve(settings), tls=tls)
    said: dict[str, str] = {}
    with handled(lambda *_: ended.set()), closing(serving):
        show(f"says what it sees of {', '.join(each.alias for each in clusters)} at {serving.address}")
        while not ended.wait(_LOOK_S):
            if isinstance(serving.failure, DrlibError):
                raise serving.failure
            for alias, seen in serving.seen().items():
                refused = serving.refused.get(alias)
                line = f"{alias}: {seen.answer}" + (f" ({refused})" if refused else "")
                if said.get(alias) != line:
                    said[alias] = line
                    show(line)


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Raises `UsageError` for one without the other, and for files that are no certificate with its key."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--certificate and --key", "only one of them is given", "Give both, or none.")
    _refuse_other_than("certificate", "CERTIFICATE", f"--certificate {certificate}", certificate)
    _refuse_other_than("private key", "PRIVATE KEY", f"--key {key}", key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(certificate)
    except ssl.SSLError as error:
        raise UsageError(
            f"--certificate {certificate} cannot be used", f"it is damaged ({error.reason})", "Give a whole PEM file."
        ) from error
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        why = f"it is damaged ({error.reason})"
        if error.reason == "KEY_VALUES_MISMATCH":
            why = f"it is not the key of {certificate}"
        raise UsageError(
            f"--key {key} cannot be used", why, "Give the key that the certificate was made with."
        ) from error
    except ValueError as error:
        raise UsageError(f"--key {key} cannot be used", str(error), "Give a key that is not encrypted.") from error
    return context


def _refuse_other_than(what: str, label: str, option: str, path: Path) -> None:
    """Raises `UsageError` for a file that cannot be read, and for one that has no PEM block of `label`."""
    try:
        content = read_given_bytes(path, _MOST_PEM)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{option} cannot be read", why, f"Give the PEM file of the {what}.") from None
    if f"{label}-----".encode() not in content:
        raise UsageError(
            f"{option} has no {what}", f"it has no line -----BEGIN {label}-----", f"Give the PEM file of the {what}."
        )


def _no_password() -> str:
    raise ValueError("it is encrypted")
