"""A witness: a process at a third place that asks the clusters of a properties file again and again, and says what it sees.

Rules: it serves `/witness` as JSON, GET only, at the one address that is configured: aliases, answers and ages, no settings
and no secrets. It needs no rights beyond those to connect, and asks every cluster every `EVERY_S`, so that one does not hold
up another. Who asks it takes answers of one known form within limits; one that is older than `STALE_S`, by the witness's own
clock, or has another form, is unknown. Its addresses of a cluster may be others: the alias says which cluster is meant.
Not for: judging (`evidence`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from drlib import decoding
from drlib.drill.witness.evidence import Answer, Place, View
from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.status.endpoint import parse_address, start_server, text
from drlib.outgoing import http_request

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

EVERY_S: Final = 1.0
STALE_S: Final = 8.0
PATH: Final = "/witness"
_TIMEOUT_S: Final = 2.0
_MOST_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Seen:
    """One cluster: the last answer, how old that is, and for how long it has been so (seconds, by the witness's clock)."""

    answer: Answer
    age_s: float
    since_s: float


_SEEN: Final = TypeAdapter(dict[str, Seen])


class Witness:
    """Asks `clusters` from `start` to `close`, and serves what it sees at `address`."""

    def __init__(
        self, address: str, clusters: Sequence[ClusterSettings], ask: Callable[[ClusterSettings], Answer]
    ) -> None:
        """Raises `UsageError` for an address that cannot be listened at."""
        self._found: dict[str, tuple[Answer, float, float]] = {}
        self._ended = threading.Event()
        self.failure: BaseException | None = None
        host, _ = parse_address(address)
        try:
            self._server = start_server(address, self._answer)
        except OSError as error:
            raise UsageError(
                f"the witness cannot listen at {address}",
                error.strerror or str(error),
                "Give an address of this host that is free: --at HOST:PORT.",
            ) from error
        self.address = f"{host}:{self._server.server_address[1]}"
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
            except (
                BaseException
            ) as error:  # a wrong password, for example: said by the command, and unknown to who asks
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
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]


def decode(data: bytes) -> dict[str, Seen]:
    """What a witness said. Raises `Undecodable` for anything else."""
    found = decoding.json_as(_SEEN, data)
    if any(each.age_s < 0 or each.since_s < 0 for each in found.values()):
        raise decoding.Undecodable("a negative age")
    return found


def ask(address: str, source: ClusterSettings, target: ClusterSettings) -> View:
    """What the witness at HOST:PORT sees of both; unknown where it does not say. Raises nothing."""
    try:
        where = http_request.parse(f"http://{address}{PATH}")
        answer = http_request.fetch(http_request.Request(where, timeout_s=_TIMEOUT_S), _MOST_BYTES)
        found = decode(answer.body)
    except (ValueError, http_request.NoAnswer, http_request.NotAnAddress):
        return View(Place.WITNESS, address, Answer.UNKNOWN, Answer.UNKNOWN)
    of_source, of_target = (_fresh(found.get(each.alias)) for each in (source, target))
    since = found[source.alias].since_s if source.alias in found and of_source is not Answer.UNKNOWN else None
    return View(Place.WITNESS, address, of_source, of_target, since)


def _fresh(seen: Seen | None) -> Answer:
    return Answer.UNKNOWN if seen is None or seen.age_s > STALE_S else seen.answer
