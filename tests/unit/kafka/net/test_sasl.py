"""Mechanisms against the vectors of their RFCs, and against servers that are not who they say."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

import pytest

from drlib.kafka.net.sasl import BadServer, bearer, plain, scram
from drlib.kafka.security import oauth
from drlib.kafka.security.credentials import ScramMechanism, UnsecuredJws

NONCE = "rOprNGfwEbeRWgbNEkqO"  # RFC 7677, section 3
SERVER_FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_sha_256_matches_the_vector_of_rfc_7677() -> None:
    exchange = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert next(exchange) == f"n,,n=user,r={NONCE}".encode()
    assert exchange.send(SERVER_FIRST.encode()) == CLIENT_FINAL.encode()
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_server_with_the_right_signature_is_accepted(mechanism: ScramMechanism) -> None:
    name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    exchange = scram(mechanism, "a=b,c", "pässword", "abc")
    first = next(exchange).decode()
    assert first == "n,,n=a=3Db=2Cc,r=abc"
    salt = base64.b64encode(b"salt").decode()
    server_first = f"r=abcdef,s={salt},i=8192"
    final = exchange.send(server_first.encode()).decode()
    salted = hashlib.pbkdf2_hmac(name, "pässword".encode(), b"salt", 8192)
    signed = f"{first[3:]},{server_first},{final.rpartition(',p=')[0]}".encode()
    signature = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
    with pytest.raises(StopIteration):
        exchange.send(b"v=" + base64.b64encode(signature))


@pytest.mark.parametrize(
    ("first", "final", "why"),
    [
        (SERVER_FIRST.replace("4096", "4095"), b"", "4095 iterations"),
        (SERVER_FIRST.replace("4096", "9999999"), b"", "iterations"),
        (SERVER_FIRST.replace("4096", "9" * 5000), b"", "iterations"),
        (SERVER_FIRST.replace("4096", "\u0664\u0660\u0669\u0666"), b"", "iterations"),
        (SERVER_FIRST.replace("s=W22Z", "s=\u00e9"), b"", "base64"),
        (SERVER_FIRST, "v=\u00e9".encode(), "base64"),
        (SERVER_FIRST.replace(NONCE, "someoneelse"), b"", "nonce"),
        (f"r={NONCE},s=W22Z,i=4096", b"", "nonce"),
        (SERVER_FIRST.replace("s=W22Z", "s=*"), b"", "base64"),
        ("", b"", "nonce"),
        (SERVER_FIRST, b"v=AAAA", "signature"),
        (SERVER_FIRST, b"", "signature"),
        (SERVER_FIRST, b"e=invalid-proof", "signature"),
    ],
)
def test_scram_server_with_a_wrong_signature_is_refused(first: str, final: bytes, why: str) -> None:
    with pytest.raises(BadServer, match=why):
        _log_in(first.encode(), final)


def _log_in(first: bytes, final: bytes) -> None:
    exchange = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(exchange)
    exchange.send(first)
    exchange.send(final)


def test_plain_sends_one_message() -> None:
    exchange = plain("alice", "wörd")
    assert next(exchange) == "\0alice\0wörd".encode()
    with pytest.raises(StopIteration):
        exchange.send(b"")


def test_bearer_sends_extensions_and_answers_an_error() -> None:
    token = oauth.Token("t.o.k", "alice", 0.0, 10.0)
    exchange = bearer(token, {"pool": "7"})
    assert next(exchange) == b"n,,\x01auth=Bearer t.o.k\x01pool=7\x01\x01"
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    assert "t.o.k" not in repr(token)


def test_unsecured_token_has_times_and_claims_without_signature() -> None:
    source = UnsecuredJws({"sub": "alice", "scope": ("a", "b")}, lifetime_s=100.0)
    token = oauth.unsecured(source, 1000.0)
    head, claims, signature = token.value.split(".")
    assert signature == ""
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    read = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert read == {"exp": 1100.0, "iat": 1000.0, "sub": "alice", "scope": ["a", "b"]}
    assert (token.principal, token.expires_s) == ("alice", 1100.0)
    assert token.fresh(1079.0)
    assert not token.fresh(1081.0)
