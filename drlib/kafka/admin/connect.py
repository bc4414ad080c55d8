"""Make clients from settings, run coroutines from blocking code, and find out why a cluster cannot be used.

Rules: references are resolved and key stores opened when a client is made, and again when a connection is refused, so that
renewed secrets are used without a restart. Which clusters
answer is asked of all their addresses at the same time, with a short deadline that also holds while names are resolved. Nothing
is changed on a cluster.
librdkafka retries a refused login for ever and does not say why, and it logs in with SCRAM at a server that asks for one
iteration, which lets that server's owner try passwords quickly. So before its clients drlib's own connection logs in, at most
once in `CHECKED_S` where nothing was refused. A server that treats the two differently, or that answers only later, is not
found this way: TLS keeps those away.
Not for: rights on topics and groups, which each call reports.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.security import java_keys
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.credentials import Password
from drlib.kafka.security.errors import CANNOT_USE, Fault, SecurityFault

CHECKED_S: Final = 60.0  # a login that went well, or was not answered, is not tried again for so long
_CHECK_S: Final = 2.0  # for that login, before a client of librdkafka whose login was not checked yet
_END_S: Final = 1.0  # for the end of what was asked in time
ANSWER_S: Final = 5.0  # until a cluster counts as one that does not answer; the work itself has longer deadlines

QUIET: Final = logging.getLogger("drlib.librdkafka")
"""For clients of librdkafka, which write some lines, such as fatal errors, whatever their `log_level`."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False

Answer = TypeVar("Answer")


class Refused(Unreachable):
    """A cluster that this host cannot use, whatever it is to others: TLS or the login fails, or a secret of it is not here."""

    @classmethod
    def by(cls, error: DrlibError) -> "Refused":
        return cls(error.what, f"{CANNOT_USE}: {error.what}: {error.why}", error.remedy)


@dataclass(slots=True)
class _Login:
    """The last login of one user at one cluster: one thread tries it at a time."""

    trying: threading.Lock = field(default_factory=threading.Lock)
    tried: float = float("-inf")  # when nothing was refused


_logins: Final[
    dict[tuple[tuple[str, ...], frozenset[tuple[str, str]]], _Login]
] = {}  # by keys with references as written
_known: Final = threading.Lock()


def wire_client(
    cluster: ClusterSettings, *, client_id: str, timeout_s: float = 10.0, as_target: bool = False
) -> ClusterClient:
    """A client that is not connected yet; `as_target` of a cluster to mirror to. Raises `UsageError` for invalid security
    keys."""
    return ClusterClient(
        cluster.bootstrap_servers,
        security=cluster.connection(),
        client_id=client_id,
        timeout_s=timeout_s,
        as_target=as_target,
        renewed=cluster.connection,
        alias=cluster.alias,
    )


def librdkafka(cluster: ClusterSettings) -> dict[str, object]:
    """librdkafka's configuration for `cluster`, secrets included: for its clients only, never to be printed.

    With SCRAM it blocks for a login. Raises `UsageError` for invalid security keys, and
    `SecurityFault` where the server did not follow SCRAM.
    """
    connection = cluster.connection()
    scram = isinstance(connection.sasl, Password) and connection.sasl.mechanism != "PLAIN"
    refusal = refused_login(cluster, _CHECK_S) if scram else None
    if refusal is not None and refusal.fault is Fault.WRONG_SERVER_SIGNATURE:
        raise refusal
    return {"bootstrap.servers": ",".join(cluster.bootstrap_servers), **java_keys.librdkafka(connection)}


def check_login(cluster: ClusterSettings, timeout_s: float) -> None:
    """Raises the `SecurityFault` of `refused_login`, before a client of librdkafka is made for a secured cluster."""
    if cluster.secured and (refusal := refused_login(cluster, timeout_s)) is not None:
        raise refusal


def refused_login(cluster: ClusterSettings, timeout_s: float, counts_s: float = CHECKED_S) -> SecurityFault | None:
    """`explain_refusal`, which is not asked again for `counts_s` where nothing was refused. Blocks, once for all threads.

    A login that is revoked meanwhile is found that much later.
    """
    key = cluster.bootstrap_servers, frozenset(cluster.security.items())
    with _known:
        now = time.monotonic()
        for old in [
            old for old, login in _logins.items() if login.tried + CHECKED_S < now and not login.trying.locked()
        ]:
            del _logins[old]
        login = _logins.setdefault(key, _Login())
    with login.trying:
        if time.monotonic() < login.tried + counts_s:
            return None
        refusal = explain_refusal(cluster, timeout_s)
        if refusal is None:
            login.tried = time.monotonic()
        return refusal


def blocking(work: Coroutine[object, object, Answer]) -> Answer:
    """Run `work` to its end in a thread of its own, as a notebook's kernel has an event loop in the caller's thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def explain_refusal(cluster: ClusterSettings, timeout_s: float) -> SecurityFault | None:
    """Why TLS or the login of `cluster` fails, which librdkafka retries without a reason; None when they work, or when the
    cluster does not answer within `timeout_s`."""

    async def ask() -> SecurityFault | None:
        async with wire_client(cluster, client_id="drlib-preflight", timeout_s=timeout_s) as client:
            try:
                await client.connect()
            except SecurityFault as fault:
                return fault
            except (DrlibError, TimeoutError):
                return None
        return None

    return blocking(ask())


def who_answers(
    clusters: Sequence[ClusterSettings], timeout_s: float = ANSWER_S, dispensable: Collection[str] = ()
) -> Mapping[str, ClusterMetadata | Unreachable]:
    """The metadata of each cluster, by alias, or why it does not answer within `timeout_s`. Blocks.

    The first of its addresses that answers counts. Where none answers and one refuses, the answer is `Refused` of clusters
    that are `dispensable`, and `SecurityFault` or `UsageError` is raised for others.
    """
    asked = [(cluster, in_thread(first_answer(cluster, timeout_s))) for cluster in clusters]
    end = time.monotonic() + timeout_s + _END_S
    answers: dict[str, ClusterMetadata | Unreachable] = {}
    for cluster, answer in asked:
        try:
            answers[cluster.alias] = answer.result(max(0.0, end - time.monotonic()))
        except TimeoutError:  # a name that is not resolved cannot be interrupted
            answers[cluster.alias] = no_answer(cluster, timeout_s)
        except Unreachable as error:
            answers[cluster.alias] = error
        except (SecurityFault, UsageError) as error:
            if cluster.alias not in dispensable:
                raise
            answers[cluster.alias] = Refused.by(error)
    return answers


async def first_answer(cluster: ClusterSettings, timeout_s: float) -> ClusterMetadata:
    """Raises `Unreachable` naming why no address answers, or what an address was refused with."""

    async def one(address: str) -> ClusterMetadata | Exception:
        """An error is returned: the first answer ends the wait, and what is raised after it would be read by no one."""
        only = replace(cluster, bootstrap_servers=(address,))
        try:
            async with wire_client(only, client_id="drlib-translate", timeout_s=timeout_s) as client:
                return await client.metadata(None)
        except Exception as error:
            return error

    waiting = {asyncio.ensure_future(one(address)) for address in cluster.bootstrap_servers}
    failures: list[DrlibError] = []
    try:
        async with asyncio.timeout(timeout_s):
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    answer = task.result()
                    if isinstance(answer, ClusterMetadata):
                        return answer
                    if not isinstance(answer, DrlibError):
                        raise answer
                    failures.append(answer)
    except TimeoutError:
        pass
    finally:
        for task in waiting:
            task.cancel()
    refused = next((error for error in failures if not isinstance(error, Unreachable)), None)
    if refused is not None:
        raise refused
    if waiting or not failures:
        raise no_answer(cluster, timeout_s)
    addresses = ", ".join(cluster.bootstrap_servers)
    why = "; ".join(dict.fromkeys(error.why for error in failures))
    raise Unreachable(f"no broker of the cluster at {addresses} can be reached", why, failures[0].remedy)


def no_answer(cluster: ClusterSettings, timeout_s: float) -> Unreachable:
    """The error of a cluster that refused nothing and answered nothing within `timeout_s`."""
    addresses = ", ".join(cluster.bootstrap_servers)
    return Unreachable(
        f"no broker of the cluster at {addresses} can be reached",
        f"{addresses}: no answer within {timeout_s:g} s",
        f"Check that its brokers run and that {cluster.alias}.bootstrap.servers is right.",
    )


def in_thread(work: Coroutine[object, object, Answer]) -> Future[Answer]:
    """`work` begun in a daemon thread of its own, which an unresolved name may keep longer than anyone waits for it."""
    answer: Future[Answer] = Future()

    async def settle() -> None:
        try:
            answer.set_result(await work)
        except BaseException as error:
            answer.set_exception(error)

    def run() -> None:
        asyncio.run(settle())

    threading.Thread(target=run, name="drlib-asking", daemon=True).start()
    return answer


def answers(clusters: Sequence[ClusterSettings]) -> Mapping[str, ClusterMetadata]:
    """The metadata of each cluster, by alias. Raises `Unreachable` naming every cluster that does not answer."""
    answered = who_answers(clusters)
    refuse_silence({alias: answer for alias, answer in answered.items() if isinstance(answer, Unreachable)})
    return {alias: answer for alias, answer in answered.items() if isinstance(answer, ClusterMetadata)}


def refuse_silence(silent: Mapping[str, Unreachable]) -> None:
    """Raises one `Unreachable` that names every cluster of `silent`, by alias; nothing when it is empty."""
    if not silent:
        return
    aliases = " and ".join(sorted(silent))
    raise Unreachable(
        f"{aliases} cannot be reached",
        "; ".join(dict.fromkeys(error.why for _, error in sorted(silent.items()))),
        f"Start {aliases}, or correct their addresses (bootstrap.servers).",
    )
