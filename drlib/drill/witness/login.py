"""How a witness and those who ask it prove to each other that they hold one token, which is never sent.

Rules: who asks draws a number, and sends it with HMAC-SHA256 under the token; the witness answers with the same over that
number and its answer. So there is no answer for those without the token, an answer of anyone else is none, and one that was
overheard cannot be given again. The token is a reference in the properties file (`drlib.witness.token`), resolved when it is
needed. Answers can be read on their way, except with TLS. Without a token a witness is asked, and answers, on its own machine.
Not for: what is asked and answered (`service`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from drlib import decoding
from drlib.config.settings import MirrorSettings
from drlib.errors import UsageError
from drlib.kafka.java_formats.references import resolve

KEY: Final = "drlib.witness.token"
LEAST_TOKEN: Final = 16  # letters
_SCHEME: Final = "DrlibWitness"
_HEADER: Final = re.compile(rf"{_SCHEME} ([0-9a-f]{{32}}):([0-9a-f]{{64}})", re.ASCII)
_ASKS: Final = "asks"
_ANSWERS: Final = "answers"


@dataclass(frozen=True, slots=True)
class WitnessLogin:
    """`token`: "" for none, for the reason `why`. `ca`: a PEM file with the authorities of witnesses at https:// addresses,
    None: the system's."""

    token: str = field(default="", repr=False)
    ca: Path | None = None
    why: str = f"{KEY} is not set"


NO_LOGIN: Final = WitnessLogin()


@dataclass(frozen=True, slots=True)
class Question:
    """One question of who holds a token: the number that was drawn for it, and the proof."""

    number: str
    proof: str

    @classmethod
    def new(cls, token: str) -> Question:
        number = secrets.token_hex(16)
        return cls(number, _proof(token, _ASKS, number, b""))

    @property
    def header(self) -> str:
        """As `Authorization`."""
        return f"{_SCHEME} {self.number}:{self.proof}"

    def holds(self, token: str) -> bool:
        """Was it made with `token`?"""
        return hmac.compare_digest(self.proof, _proof(token, _ASKS, self.number, b""))

    def answered(self, token: str, said: str) -> str:
        """The proof of an answer."""
        return _proof(token, _ANSWERS, self.number, said.encode())

    def proves(self, token: str, said: str, proof: str) -> bool:
        """Is `said` what the holder of `token` answers to this question?"""
        return hmac.compare_digest(proof.encode(), self.answered(token, said).encode())


def decode(header: str) -> Question:
    """The question in an `Authorization` header. Raises `Undecodable` for anything else."""
    found = _HEADER.fullmatch(header)
    if found is None:
        raise decoding.Undecodable("it is no login of a witness")
    return Question(found[1], found[2])


def login_of(settings: MirrorSettings) -> WitnessLogin:
    """The login that the file names; one that cannot be used here has no token, and the reason."""
    keys = settings.witness
    ca = Path(keys.ca) if keys.ca else None
    if not keys.token:
        return WitnessLogin(ca=ca)
    try:
        return WitnessLogin(_usable(resolve(keys.token, keys.where), keys.where), ca, "")
    except UsageError as error:
        return WitnessLogin(ca=ca, why=f"{error.what}: {error.why}")


def token_to_serve(settings: MirrorSettings) -> str:
    """The token that a witness asks for, "" for none. Raises `UsageError` for one that cannot be used."""
    keys = settings.witness
    return _usable(resolve(keys.token, keys.where), keys.where) if keys.token else ""


def _usable(token: str, where: str) -> str:
    token = token.strip()
    if len(token) < LEAST_TOKEN or not token.isprintable():
        raise UsageError(
            f"{where}: {KEY} cannot be used",
            f"it stands for fewer than {LEAST_TOKEN} letters, or for some that are not printable",
            "Make one: openssl rand -hex 32.",
        )
    return token


def _proof(token: str, side: str, number: str, said: bytes) -> str:
    bound = f"drlib witness\n{side}\n{number}\n{hashlib.sha256(said).hexdigest()}"
    return hmac.new(token.encode(), bound.encode(), hashlib.sha256).hexdigest()
