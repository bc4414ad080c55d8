"""Probe what kind of listener is at an address, when a first connection fails without a reason.

Rules: a listener is what it answers to; one that answers nothing is unknown. Nothing secret is sent: a plaintext request, a TLS
handshake, the name of a mechanism. Kafka closes a connection of the wrong protocol without an answer, so each probe uses its
own connection.
Not for: connections that worked before; those are lost, not misconfigured.
"""

import asyncio
import contextlib
import ssl
import struct
from dataclasses import dataclass

from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from drlib.kafka import answers
from drlib.kafka.protocol.error_codes import ILLEGAL_SASL_STATE
from drlib.kafka.security.credentials import Protocol, Security
from drlib.kafka.security.errors import Fault, SecurityFault, fault, names, of_tls

ALERT_S = 0.5  # how long a broker may take to refuse a client's certificate after the handshake
_NO_MECHANISM = "DRLIB-ASKS"  # no broker offers it, so the answer lists those offered


@dataclass(frozen=True, slots=True)
class Listener:
    """`protocol` None: unknown. `mechanisms` are those it offers for SASL."""

    protocol: Protocol | None
    mechanisms: tuple[str, ...] = ()


async def explain(
    host: str, port: int, security: Security, context: ssl.SSLContext | None, *, timeout_s: float
) -> SecurityFault | None:
    """Why `security` does not work at the address, or None when security is not the reason."""
    peer, wanted = f"{host}:{port}", security.protocol
    try:
        async with asyncio.timeout(timeout_s):
            if context is not None:
                refused = await _refusal(host, port, security, context)
                if refused is not None:
                    return refused
            listener = await ask(host, port)
    except (OSError, TimeoutError):
        return None
    values = {"protocol": wanted, "mechanisms": names(listener.mechanisms)}
    if listener.protocol is None or listener.protocol is wanted:
        return None
    if listener.protocol.encrypted != wanted.encrypted:
        return fault(Fault.PLAINTEXT_TO_TLS if listener.protocol.encrypted else Fault.TLS_TO_PLAINTEXT, peer, **values)
    return fault(Fault.SASL_REQUIRED if listener.protocol.authenticated else Fault.SASL_NOT_OFFERED, peer, **values)


async def ask(host: str, port: int) -> Listener:
    """The listener at an address. Any certificate is trusted, as nothing secret is sent. Raises `OSError`."""
    mechanisms = await _mechanisms(host, port, None)
    if mechanisms is not None:
        return Listener(Protocol.SASL_PLAINTEXT if mechanisms else Protocol.PLAINTEXT, mechanisms)
    trust_all = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust_all.check_hostname = False
    trust_all.verify_mode = ssl.CERT_NONE
    try:
        mechanisms = await _mechanisms(host, port, trust_all)
    except ssl.SSLEOFError:
        return Listener(None)
    except ssl.SSLError as error:
        # Any alert is an answer in TLS; an invalid version number is not.
        return Listener(Protocol.SSL if "ALERT" in (error.reason or "") else None)
    except OSError:
        return Listener(None)
    if mechanisms:
        return Listener(Protocol.SASL_SSL, mechanisms)
    return Listener(Protocol.SSL)


async def _mechanisms(host: str, port: int, context: ssl.SSLContext | None) -> tuple[str, ...] | None:
    """The SASL mechanisms offered; empty for a listener without SASL, None for one that does not answer."""
    hostname = host if context is not None else None
    reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=hostname)
    try:
        writer.write(_handshake())
        head = await reader.readexactly(8)
        size, correlation = struct.unpack(">ii", head)
        if correlation != 1 or not 4 < size < 1 << 16:
            return None
        return mechanisms_in(await reader.readexactly(size - 4))
    except (EOFError, ConnectionError):
        return None
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def mechanisms_in(body: bytes) -> tuple[str, ...] | None:
    """The SASL mechanisms that an answer names; empty for a listener without SASL, None for what is no answer."""
    try:
        answer = answers.decode(SaslHandshakeResponse, 1, body)
    except ValueError:
        return None
    return () if answer.error_code == ILLEGAL_SASL_STATE else tuple(answer.mechanisms)


def _handshake() -> bytes:
    request = SaslHandshakeRequest[1](mechanism=_NO_MECHANISM)
    request.with_header(correlation_id=1, client_id="")
    body = request.encode()
    client = b"drlib"
    head = struct.pack(">hhih", 17, 1, 1, len(client)) + client
    return struct.pack(">i", len(head) + len(body)) + head + bytes(body)


async def _refusal(host: str, port: int, security: Security, context: ssl.SSLContext) -> SecurityFault | None:
    """Why the broker refuses drlib's handshake: with TLS 1.3 it checks the client's certificate only after it."""
    presented = security.tls is not None and bool(security.tls.certificate_pem)
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
        try:
            async with asyncio.timeout(ALERT_S):
                await reader.read(1)
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    except TimeoutError:
        return None
    except OSError as error:
        return of_tls(error, f"{host}:{port}", security.protocol, presented=presented)
    return None
