"""A witness: a process at a third place that asks the clusters of a properties file again and again, and says what it sees.

Rules: it serves `/witness` as JSON, GET only, at the one address that is configured: aliases, answers and ages, no settings
and no secrets; to those who prove that they hold its token, and its answers are proven in return (`login`). Without a token it
serves its own machine only. It needs no rights beyond those to connect, and asks every cluster every `EVERY_S`, so that one
does not hold up another. Who asks it takes answers of one known form within limits; one that is older than `STALE_S`, by the
witness's own clock, has another form, or is not proven, is unknown, with the reason. Its addresses of a cluster may be others:
the alias says which cluster is meant. A login or certificate that is refused ends nothing: it is unknown until it is renewed.
Not for: judging (`evidence`).
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import ConfigDict, Field, TypeAdapter

from drlib import decoding
from drlib.config.settings import MOST_CLUSTERS
from drlib.drill.witness import login as logins
from drlib.drill.witness.evidence import Answer, Place, View
from drlib.drill.witness.login import NO_LOGIN, Question, WitnessLogin
from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.status.endpoint import listening_at, parse_address, start_server, text
from drlib.outgoing import http_request

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

EVERY_S: Final = 1.0
STALE_S: Final = 8.0
PATH: Final = "/witness"
_TIMEOUT_S: Final = 2.0
_MOST_BYTES: Final = 64 << 10
_MOST_SECONDS: Final = 10 * 365 * 86_400.0
_STRICT: Final = ConfigDict(strict=True, extra="forbid")
_Seconds = Annotated[float, Field(ge=0, le=_MOST_SECONDS)]
_Alias = Annotated[str, Field(min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._-]+$")]


@dataclass(frozen=True, slots=True)
class Seen:
    """One cluster: the last answer, how old that is, and for how long it has been so (seconds, by the witness's clock)."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    answer: Answer
    age_s: _Seconds
    since_s: _Seconds


@dataclass(frozen=True, slots=True)
class Proven:
    """An answer to who holds the token: what was `said`, as JSON, and the proof (`login`)."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    proof: Annotated[str, Field(min_length=64, max_length=64, pattern=r"^[0-9a-f]+$")]
    said: str


_SEEN: Final = TypeAdapter(Annotated[dict[_Alias, Seen], Field(max_length=MOST_CLUSTERS)])
_PROVEN: Final = TypeAdapter(Proven)


class Witness:
    """Asks `clusters` from `start` to `close`, and serves what it sees at `address`."""

    def __init__(
        self,
        address: str,
        clusters: Sequence[ClusterSettings],
        ask: Callable[[ClusterSettings], Answer],
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Raises `UsageError` for an address that cannot be listened at, and for one of other machines without a `token`."""
        self._token = token
        self._found: dict[str, tuple[Answer, float, float]] = {}
        self._ended = threading.Event()
        self.failure: BaseException | None = None
        self.refused: dict[str, str] = {}  # by alias, what a cluster refuses now
        host, _ = parse_address(address)
        if not token and not http_request.is_loopback(host):
            raise UsageError(
                f"the witness does not listen at {address}",
                "it has no token, so that everyone who reaches the address could ask it, or answer in its place",
                f"Set {logins.KEY} = ${{file:/path:key}} in FILE, here and where it is asked; or use --at 127.0.0.1:PORT.",
            )
        try:
            self._server = start_server(address, self._answer, tls)
        except OSError as error:
            raise UsageError(
                f"the witness cannot listen at {address}",
                error.strerror or str(error),
                "Give an address of this host that is free: --at HOST:PORT.",
            ) from error
        self.address = listening_at(address, self._server)
        self._threads = [threading.Thread(target=self._watch, args=(each, ask), daemon=True) for each in clusters]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def seen(self) -> Mapping[str, Seen]:
        """By alias, each cluster that was asked at least once."""
        now = time.monotonic()
        return {
            alias: Seen(answer, max(0.0, now - at_s), max(0.0, now - since_s))
            for alias, (answer, at_s, since_s) in sorted(dict(self._found).items())
        }

    def _watch(self, cluster: ClusterSettings, ask: Callable[[ClusterSettings], Answer]) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                answer = ask(cluster)
                self.refused.pop(cluster.alias, None)
            except SecurityFault as error:  # said by the command; secrets are read for each question
                self.refused[cluster.alias] = str(error)
                answer = Answer.UNKNOWN
            except BaseException as error:  # said by the command, which it ends
                self.failure = error
                answer = Answer.UNKNOWN
            before = self._found.get(cluster.alias)
            since = before[2] if before is not None and before[0] is answer else began
            self._found[cluster.alias] = (answer, began, since)
            self._ended.wait(max(0.0, EVERY_S - (time.monotonic() - began)))

    def _answer(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ.get("REQUEST_METHOD") != "GET":
            return text(start, "405 Method Not Allowed", "Only GET is allowed.")
        if environ.get("PATH_INFO", "") != PATH:
            return text(start, "404 Not Found", f"Use {PATH}.")
        body = _SEEN.dump_json(dict(self.seen()))
        if self._token:
            try:
                question = logins.decode(environ.get("HTTP_AUTHORIZATION", ""))
            except decoding.Undecodable:
                return text(start, "401 Unauthorized", "This witness has a token.")
            if not question.holds(self._token):
                return text(start, "401 Unauthorized", "This witness has another token.")
            said = body.decode()
            body = _PROVEN.dump_json(Proven(question.answered(self._token, said), said))
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]


def decode(data: bytes) -> dict[str, Seen]:
    """What a witness said. Raises `Undecodable` for anything else."""
    return decoding.json_as(_SEEN, data)


def decode_proven(data: bytes) -> Proven:
    """What a witness with a token answers. Raises `Undecodable` for anything else."""
    return decoding.json_as(_PROVEN, data)


def ask(address: str, source: ClusterSettings, target: ClusterSettings, login: WitnessLogin = NO_LOGIN) -> View:
    """What the witness at HOST:PORT or https://HOST:PORT sees of both; unknown where it does not say. Raises nothing.

    Without a token only a witness of this machine is asked.
    """
    try:
        found = _asked(_where(address), login)
    except (ValueError, http_request.NoAnswer, OSError) as error:
        return View(Place.WITNESS, address, Answer.UNKNOWN, Answer.UNKNOWN, note=_why(error))
    of_source, of_target = (_fresh(found.get(each.alias)) for each in (source, target))
    since = found[source.alias].since_s if source.alias in found and of_source is not Answer.UNKNOWN else None
    return View(Place.WITNESS, address, of_source, of_target, since)


def refuse_malformed(addresses: Iterable[str]) -> None:
    """Raises `UsageError` for what is no address of a witness."""
    for address in addresses:
        try:
            where = _where(address)
            why = "" if where.port or where.scheme == "https" else "it has no port"
        except http_request.NotAnAddress as error:
            why = str(error)
        if why:
            raise UsageError(f"--witness {address}", why, "Give HOST:PORT or https://HOST:PORT of a drlib witness.")


def is_near(address: str) -> bool:
    """Is the witness at `address` on this machine? False for what is no address."""
    try:
        return http_request.is_loopback(_where(address).host)
    except ValueError:
        return False


def _where(address: str) -> http_request.Address:
    """Raises `NotAnAddress`."""
    where = http_request.parse(f"{address if address.startswith('https://') else f'http://{address}'}{PATH}")
    if where.target != PATH:
        raise http_request.NotAnAddress("it has more than a host and a port")
    return where


def _asked(where: http_request.Address, login: WitnessLogin) -> dict[str, Seen]:
    """Raises `Undecodable`, with the reason, and `NoAnswer`."""
    if not login.token and not http_request.is_loopback(where.host):
        raise decoding.Undecodable(f"not asked: {login.why}")
    question = Question.new(login.token) if login.token else None
    headers = {} if question is None else {"Authorization": question.header}
    request = http_request.Request(where, headers=headers, timeout_s=_TIMEOUT_S, ca=login.ca)
    answer = http_request.fetch(request, _MOST_BYTES)
    if answer.status == 401:
        raise decoding.Undecodable("it has another token" if login.token else "it has a token")
    if question is None:
        return decode(answer.body)
    proven = decode_proven(answer.body)
    if not question.proves(login.token, proven.said, proven.proof):
        raise decoding.Undecodable("its answer is not proven")
    return decode(proven.said.encode())


def _why(error: Exception) -> str:
    if isinstance(error, http_request.NoAnswer):
        return "it does not answer"
    return f"no answer of a witness: {error}" if isinstance(error, decoding.Undecodable) else "it cannot be asked"


def _fresh(seen: Seen | None) -> Answer:
    return Answer.UNKNOWN if seen is None or seen.age_s > STALE_S else seen.answer
