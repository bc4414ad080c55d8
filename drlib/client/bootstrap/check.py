"""Check, before clients are let in, that connections do not come back here, and that certificates have the address.

Rules: only asks. Addresses are compared by what their names resolve to on this machine, and as text with the address that
applications set, which may be a load balancer's. A cluster that does not answer is not checked, and that is said; it is no
reason not to start, as the cluster that fails is the reason for this command.
Not for: certificates of clients, or anything that a client's connection itself shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drlib import decoding
from drlib.client.bootstrap import notes
from drlib.client.bootstrap.notes import Note
from drlib.client.bootstrap.rules import Address, CertificateName, leading_here
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.connect import first_answer
from drlib.kafka.security import tls
from drlib.kafka.security.cluster_settings import ClusterSettings

CHECK_S: Final = 5.0
_WRONG_NAME: Final = frozenset({62, 64})  # OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH
_ANY: Final = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, slots=True)
class Own:
    """Where this process listens, and `public`: what applications set, as host and port."""

    listening: tuple[Address, ...]
    public: tuple[Address, ...] = ()


async def refuse_loop(clusters: Iterable[ClusterSettings], own: Own) -> None:
    """Raises `UsageError` where a bootstrap server of the file is one of the addresses that are listened at."""
    for cluster in clusters:
        if here := await _leading_here(cluster.bootstrap_servers, own):
            raise UsageError(
                f"{cluster.alias} cannot be passed on to",
                f"its bootstrap.servers have {', '.join(here)}, where this command listens itself",
                f"Set {cluster.alias}.bootstrap.servers to the addresses of its brokers in FILE.",
            )


async def check_cluster(cluster: ClusterSettings, own: Own) -> list[Note]:
    """What is wrong with a cluster as a place to lead clients to, and whether that is unknown. Raises nothing."""
    found: list[Note] = []
    try:
        answer = await first_answer(cluster, CHECK_S)
        listeners = [str(broker) for broker in answer.brokers.values()]
        if here := await _leading_here(listeners, own):
            detail = (
                f"brokers of {cluster.alias} advertise {', '.join(here)}: clients would send their records through it"
            )
            found.append(Note(notes.LEADS_HERE, "open", detail, cluster.alias))
    except (DrlibError, OSError, TimeoutError) as error:
        why = error.why if isinstance(error, DrlibError) else str(error)
        found.append(Note(notes.NOT_CHECKED, "open", f"{cluster.alias} gave no answer: {why}", cluster.alias))
        return found
    return found + await _check_certificates(cluster, own)


async def _check_certificates(cluster: ClusterSettings, own: Own) -> list[Note]:
    security = cluster.connection()
    if security.tls is None:
        return []
    if not own.public:
        detail = f"certificates of {cluster.alias} were not checked: --address says what applications connect to"
        return [Note(notes.NOT_CHECKED, "open", detail, cluster.alias)]
    compared = await compare_certificates(cluster, [host for host, _ in own.public])
    without = [f"{each.server} is not {each.host}" for each in compared if each.named is False]
    return [Note(notes.CERTIFICATE, "open", "; ".join(without), cluster.alias)] if without else []


async def compare_certificates(cluster: ClusterSettings, hosts: Iterable[str]) -> tuple[CertificateName, ...]:
    """Every bootstrap server's certificate with every name that clients connect to; nothing where there is no TLS."""
    security = cluster.connection()
    if security.tls is None:
        return ()
    context = tls.context(security.tls)
    context.check_hostname = True
    pairs = [(server, host) for server in cluster.bootstrap_servers for host in dict.fromkeys(hosts)]
    return tuple(await asyncio.gather(*(_compare(server, host, context) for server, host in pairs)))


async def _compare(server: str, name: str, context: ssl.SSLContext) -> CertificateName:
    host, port = decoding.address(server)
    try:
        async with asyncio.timeout(CHECK_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _WRONG_NAME:
            return CertificateName(server, name, named=False)
        return CertificateName(server, name, None, f"its certificate is refused: {error.verify_message}")
    except (OSError, TimeoutError) as error:  # another fault of that server, which is not this check's
        return CertificateName(server, name, None, f"no answer: {error or f'none within {CHECK_S:g} s'}")
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return CertificateName(server, name, named=True)


async def _leading_here(addresses: Sequence[str], own: Own) -> tuple[str, ...]:
    parsed = {text: decoding.address(text) for text in addresses}
    as_text = {text for text, address in parsed.items() if address in own.public}
    resolved: Mapping[str, set[Address]] = {text: await _resolved(*address) for text, address in parsed.items()}
    bound = {port for host, port in own.listening if host in _ANY}
    everywhere = {
        text for text, found in resolved.items() if any(port in bound and _is_local(host) for host, port in found)
    }
    same = set(leading_here(resolved, {each for host, port in own.listening for each in await _resolved(host, port)}))
    return tuple(text for text in addresses if text in as_text | everywhere | same)


async def _resolved(host: str, port: int) -> set[Address]:
    """The addresses of a name; none where it has none, or does not get them in time."""
    with contextlib.suppress(OSError, TimeoutError, UnicodeError):
        async with asyncio.timeout(CHECK_S):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return {(str(where[0]), int(where[1])) for *_, where in found}
    return set()


def _is_local(host: str) -> bool:
    """Is it an address of this machine? Only to those can a socket be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))
        return True
    return False
