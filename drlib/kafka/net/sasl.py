"""SASL on a connection: SaslHandshake, SaslAuthenticate, re-authentication before the session ends (KIP-368).

Rules: a mechanism is a generator of the bytes to send, without I/O; SCRAM is RFC 5802 with Kafka's reading of names (no
SASLprep), the server's signature is verified before the next message, and fewer iterations than 4096 (RFC 7677) are refused.
A session that ends is renewed on the same connection: nothing else is sent meanwhile, for at most `RENEW_S`, because
waiting requests were checked against the ownership deadline before. A failed renewal ends the connection.
Source: Kafka's `SaslClientAuthenticator`, `ScramSaslClient`, `OAuthBearerSaslClient`.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator
from typing import Final

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.errors import DrlibError
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import raise_for
from drlib.kafka.security.credentials import Password, ScramMechanism, Security
from drlib.kafka.security.errors import Fault, fault, names
from drlib.kafka.security.oauth import Token, Tokens

UNSUPPORTED_SASL_MECHANISM: Final = 33
ILLEGAL_SASL_STATE: Final = 34
SASL_AUTHENTICATION_FAILED: Final = 58
RENEW_SHARE: Final = 0.85  # of the session, as Kafka's clients begin
RENEW_S: Final = 2.0
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 1_000_000  # a server that asks for more could exhaust the CPU

Exchange = Generator[bytes, bytes, None]
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class BadServer(ValueError):
    """The server did not follow the mechanism; it may not be the server it claims to be."""


class Login:
    """The login of every connection to one cluster: `security` with its tokens."""

    def __init__(self, security: Security) -> None:
        self.security = security
        sasl = security.sasl
        self._tokens = None if sasl is None or isinstance(sasl, Password) else Tokens(sasl)

    async def exchange(self) -> Exchange:
        """A new exchange; a token that it needs is fetched first. Raises `SecurityFault`, `Unreachable`."""
        sasl = self.security.sasl
        if self._tokens is not None:
            return bearer(await asyncio.to_thread(self._tokens.current), dict(self._tokens.source.extensions))
        if not isinstance(sasl, Password):
            raise AssertionError("a login needs SASL")
        if sasl.mechanism == "PLAIN":
            return plain(sasl.username, sasl.password)
        return scram(sasl.mechanism, sasl.username, sasl.password)


def plain(username: str, password: str) -> Exchange:
    """RFC 4616."""
    yield b"\0".join((b"", username.encode(), password.encode()))


def bearer(token: Token, extensions: dict[str, str]) -> Exchange:
    """RFC 7628, section 3.1; an error of the server is answered with one 0x01, and its error code then says why."""
    more = "".join(f"{name}={value}\x01" for name, value in extensions.items())
    if (yield f"n,,\x01auth=Bearer {token.value}\x01{more}\x01".encode()):
        yield b"\x01"


def scram(mechanism: ScramMechanism, username: str, password: str, nonce: str = "") -> Exchange:
    """RFC 5802 without channel binding. Raises `BadServer`; `nonce` is for tests."""
    hashed = _HASHES[mechanism]
    nonce = nonce or secrets.token_urlsafe(24)
    first = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    server_first = (yield f"n,,{first}".encode()).decode()
    asked = _attributes(server_first)
    server_nonce = asked.get("r", "")
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise BadServer("its nonce does not begin with ours")
    count = asked.get("i", "")
    try:
        iterations = decoding.integer(count, LEAST_ITERATIONS, MOST_ITERATIONS)
    except Undecodable:
        raise BadServer(f"it asks for {count[:20] or 'no'} iterations") from None
    salted = hashlib.pbkdf2_hmac(hashed, password.encode(), _decoded(asked.get("s", "")), iterations)
    client_key = hmac.digest(salted, b"Client Key", hashed)
    final = f"c=biws,r={server_nonce}"
    signed = f"{first},{server_first},{final}".encode()
    signature = hmac.digest(hashlib.new(hashed, client_key).digest(), signed, hashed)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    verdict = _attributes((yield f"{final},p={base64.b64encode(proof).decode()}".encode()).decode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hashed), signed, hashed)
    if not hmac.compare_digest(expected, _decoded(verdict.get("v", ""))):
        raise BadServer("its signature is wrong")


def _attributes(text: str) -> dict[str, str]:
    return dict(pair.partition("=")[::2] for pair in text.split(","))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:  # binascii.Error, or letters that are not ASCII
        raise BadServer("its message is not base64") from error


async def authenticate(
    connection: Connection, login: Login, *, timeout_s: float, exchange: Exchange | None = None
) -> float:
    """Log in; returns the session's length in seconds, 0 when it does not end.

    Raises `SecurityFault`, `BrokerError`, `ConnectionLost`.
    """
    peer, security = connection.peer, login.security
    values = {"protocol": security.protocol, "mechanism": security.mechanism}
    exchange = exchange or await login.exchange()
    handshake = SaslHandshakeRequest[connection.version("SaslHandshake")](mechanism=security.mechanism)
    offered = await connection.request(handshake, timeout_s)
    if offered.error_code == ILLEGAL_SASL_STATE:
        raise fault(Fault.SASL_NOT_OFFERED, peer, **values)
    if offered.error_code == UNSUPPORTED_SASL_MECHANISM:
        raise fault(Fault.UNSUPPORTED_MECHANISM, peer, **values, mechanisms=names(offered.mechanisms))
    raise_for(offered.error_code, f"the SASL handshake with {peer}")
    authenticate_request = SaslAuthenticateRequest[connection.version("SaslAuthenticate")]
    lifetime_ms = 0
    try:
        message = next(exchange)
        while True:
            answer = await connection.request(authenticate_request(auth_bytes=message), timeout_s)
            if answer.error_code == SASL_AUTHENTICATION_FAILED:
                detail = (answer.error_message or "it gave no reason").rstrip(".")
                raise fault(Fault.WRONG_CREDENTIALS, peer, **values, detail=detail)
            raise_for(answer.error_code, f"logging in at {peer}", answer.error_message)
            lifetime_ms = int(answer.session_lifetime_ms)
            message = exchange.send(bytes(answer.auth_bytes or b""))
    except StopIteration:
        return lifetime_ms / 1000
    except (BadServer, UnicodeDecodeError) as bad:
        raise fault(Fault.WRONG_SERVER_SIGNATURE, peer, detail=bad) from bad


async def stay_authenticated(connection: Connection, login: Login, session_s: float) -> None:
    """Renew the session of `connection` until it is closed. A failed renewal ends the connection."""
    while session_s > 0:
        try:
            async with asyncio.timeout(session_s * RENEW_SHARE):
                await connection.wait_closed()
            return
        except TimeoutError:
            pass
        try:
            exchange = await login.exchange()  # before the connection is held: a token endpoint may be slow
            connection.hold()
            renew_s = RENEW_S + connection.unread_s
            async with asyncio.timeout(renew_s):
                session_s = await authenticate(connection, login, timeout_s=renew_s, exchange=exchange)
            connection.release()
        except Exception as error:  # any other would leave the connection held
            why = error.why if isinstance(error, DrlibError) else f"{type(error).__name__}: {error}"
            why = "no answer in time" if isinstance(error, TimeoutError) else why
            connection.end(f"the login could not be renewed ({why})")
            return
