"""Bearer tokens: unsigned ones, or those of an OAuth 2 token endpoint, cached until shortly before they expire.

Rules: a token is renewed after `FRESH_SHARE` of its life; it is in no `repr` and in no error. A refusal by the endpoint is a
`SecurityFault`, no answer is `Unreachable`. The client's secret goes to the endpoint that the file names and nowhere else:
redirects and the environment's proxies are not used (`drlib.outgoing.http_request`). Calls block: event loops use a thread.
Source: Kafka's `OAuthBearerUnsecuredLoginCallbackHandler` and `HttpJwtRetriever`; RFC 6749 section 4.4.
"""

import base64
import json
import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.errors import Unreachable
from drlib.kafka.security.credentials import ClientCredentials, TokenSource, UnsecuredJws
from drlib.kafka.security.errors import Fault, SecurityFault
from drlib.outgoing import http_request

FRESH_SHARE: Final = 0.8
TIMEOUT_S: Final = 10.0
MAX_ANSWER: Final = 1 << 20
USUAL_LIFETIME_S: Final = 3600.0  # of a token whose endpoint states none
_CHECK: Final = "Check that the token endpoint runs and that sasl.oauthbearer.token.endpoint.url is right."
_UNTRUSTED: Final = "certificate verify failed"  # in OpenSSL's words
_TRUST: Final = (
    "Name the authorities that issued its certificate, up to the root, in sasl.jaas.config: ssl.truststore.location, with "
    "ssl.truststore.type and ssl.truststore.password."
)
GRANTED: Final = (200, 201)  # `HttpJwtRetriever`


@dataclass(frozen=True, slots=True)
class Token:
    """`expires_s` and `issued_s` are seconds since the epoch."""

    value: str = field(repr=False)
    principal: str
    issued_s: float
    expires_s: float

    def fresh(self, now_s: float) -> bool:
        return now_s < self.issued_s + FRESH_SHARE * (self.expires_s - self.issued_s)


class Tokens:
    """The current token of one source; usable from any thread."""

    def __init__(self, source: TokenSource) -> None:
        self.source = source
        self._lock = threading.Lock()
        self._token: Token | None = None

    def current(self) -> Token:
        """A token that does not expire soon; blocks while it is fetched. Raises `SecurityFault`, `Unreachable`."""
        with self._lock:
            if self._token is None or not self._token.fresh(time.time()):
                self._token = issue(self.source)
            return self._token


def issue(source: TokenSource) -> Token:
    """A new token. Raises `SecurityFault` when the endpoint refuses, `Unreachable` when it does not answer."""
    return unsecured(source, time.time()) if isinstance(source, UnsecuredJws) else _from_endpoint(source)


def unsecured(source: UnsecuredJws, now_s: float) -> Token:
    """A JWS with `alg` none (RFC 7515, section 6)."""
    expires = now_s + source.lifetime_s
    claims = {"exp": expires, "iat": now_s, **source.claims}
    text = ".".join(_encoded(part) for part in ({"alg": "none"}, claims)) + "."
    return Token(text, str(source.claims.get(source.principal_claim, "")), now_s, expires)


def _encoded(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def _from_endpoint(source: ClientCredentials) -> Token:
    who, secret = source.client_id, source.client_secret
    if source.urlencode_header:
        who, secret = urllib.parse.quote_plus(who), urllib.parse.quote_plus(secret)
    form = {"grant_type": "client_credentials", **({"scope": source.scope} if source.scope else {})}
    request = http_request.Request(
        source.address,
        method="POST",
        headers={
            "Authorization": "Basic " + base64.b64encode(f"{who}:{secret}".encode()).decode(),
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        },
        body=urllib.parse.urlencode(form).encode(),
        timeout_s=TIMEOUT_S,
        secret=True,
        plain_text=source.plain_http,
        ca_pem=source.ca_pem,
    )
    try:
        answer = http_request.fetch(request, MAX_ANSWER)
    except http_request.NoAnswer as error:
        raise Unreachable(
            f"no token from {source.address}",
            f"no answer within {TIMEOUT_S:g} s" if error.timed_out else str(error),
            _TRUST if _UNTRUSTED in str(error) else _CHECK,
        ) from error
    if answer.status not in GRANTED:
        moved = ", a redirect, which is not followed" if 300 <= answer.status < 400 else ""
        raise SecurityFault(
            Fault.TOKEN_REFUSED,
            f"no token from {source.address}",
            f"it answered {answer.status}{moved}",
            "Correct the client ID and its secret, and sasl.oauthbearer.token.endpoint.url.",
        )
    try:
        return _read(decoding.json_value(answer.body), source, time.time())
    except ValueError:
        raise _no_token(source) from None


def _read(answer: object, source: ClientCredentials, now_s: float) -> Token:
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token:
        raise _no_token(source)
    claims = _claims(token)
    lifetime = _seconds(answer.get("expires_in") if isinstance(answer, dict) else None) or USUAL_LIFETIME_S
    return Token(
        token, str(claims.get("sub") or source.client_id), now_s, _seconds(claims.get("exp")) or now_s + lifetime
    )


def _seconds(value: object) -> float:
    """0 for what is no length or moment above 0; some endpoints write the number as text."""
    try:
        number = decoding.json_value(value, most_bytes=64) if isinstance(value, str) else value
    except Undecodable:
        return 0.0
    return float(number) if isinstance(number, int | float) and not isinstance(number, bool) and number > 0 else 0.0


def _claims(token: str) -> Mapping[str, object]:
    """The claims of a JWT, unverified; empty for a token of another kind."""
    parts = token.split(".")
    try:
        claims = decoding.json_value(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _no_token(source: ClientCredentials) -> SecurityFault:
    return SecurityFault(
        Fault.TOKEN_REFUSED,
        f"no token from {source.address}",
        "its answer is not JSON with an access_token",
        "Correct sasl.oauthbearer.token.endpoint.url; it must name the token endpoint itself.",
    )
