"""The client of one cluster: its brokers, and a connection to each of them per purpose.

Rules:
- A connection is kept per (node, purpose), so that a long poll never delays a produce request. A lost connection is
  opened again at its next use. Only metadata requests are sent again, once, to another broker.
- Every socket has TCP_USER_TIMEOUT and SO_LINGER 0: the kernel delivers nothing after drlib has given up.
- A connection that fell silent is given up once another one to its broker is answered (`drlib.kafka.net.silence`).
- Brokers are looked up through any known broker, then the bootstrap addresses; one that failed comes last. While an address
  is silent the next one is tried beside it (as RFC 8305 does): what answers first is used.
- A broker that lost its controllers continues to name the leaders of before, itself among them, and is not noticed by its own
  answers. So another broker is asked every `SEED_S`, and an answer with older leader epochs than the one before is asked for
  once more elsewhere.
- Once the cluster's ID is known, a new connection is asked for it first: one that leads to another cluster is neither used nor
  kept.
- Metadata whose bytes equal the previous answer is not decoded again: it is requested every few seconds and rarely changes.
- Every connection learns which versions of drlib's requests its broker supports (`drlib.kafka.net.api_versions`).
- What has a deadline in all (`within`) has it later by the pauses that brokers announce, within a bound: a cluster that
  throttles its user is not dead.
- TLS and the login are part of opening a connection. Secrets and certificates are read again for it, at most every `RENEWED_S`
  and when it fails: a client that runs for months outlives them, and an authority that was removed from a trust store is not
  trusted by it any longer. When a first contact fails, the listener is probed for the reason; a `SecurityFault` is
  raised at once, without trying other brokers, unless it is this broker's certificate that is refused.
Longer than most modules: connections are opened, kept and replaced by one state.
Not for: admin calls on topics, groups and settings (`drlib.kafka.admin`).
"""

import asyncio
import contextlib
import time
import uuid
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, Self, TypeVar

from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest, MetadataResponse

from drlib import decoding
from drlib.errors import DrlibError, NoBrokersYet, Unreachable, UsageError
from drlib.kafka import answers
from drlib.kafka.net import api_versions as versions
from drlib.kafka.net import listener_probe as listener
from drlib.kafka.net import sasl
from drlib.kafka.net.connection import Connection, ConnectionLost
from drlib.kafka.net.requests import topics_question
from drlib.kafka.net.silence import DOUBT, SilenceWatch
from drlib.kafka.protocol.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    raise_for,
)
from drlib.kafka.security import errors as security_faults
from drlib.kafka.security import tls
from drlib.kafka.security.credentials import PLAINTEXT, Security
from drlib.kafka.security.errors import SecurityFault
from drlib.kafka.staggered import AllFailed, first_success
from drlib.kafka.topic_ids import NO_TOPIC_ID, reported

USER_TIMEOUT_MS: Final = 10_000
COORDINATOR_DEADLINE_S: Final = 30.0
RENEWED_S: Final = 10.0  # since secrets and certificates were read, before a new connection has them read again
ELECTING: Final = frozenset({COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
NEXT_ADDRESS_S: Final = 1.0  # how long an address may be silent before the next one is tried too
STRANGER_S: Final = 15.0  # longer than the pauses between two tries
REMEMBERED: Final = 8  # metadata requests whose last answer is kept
NO_BROKERS_S: Final = 5.0  # how long a cluster that names no broker is asked again: none has the controller's leave yet
SEED_S: Final = 15.0  # how long one broker is asked for metadata, where there are others
_KINDS: Final = {"group": 0, "transaction": 1}

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """`leader` is a node ID, -1 when there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error_code: int


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic, or why it cannot be described: `error_code` UNKNOWN_TOPIC_OR_PARTITION for one that does not exist."""

    name: str
    topic_id: uuid.UUID
    error_code: int
    partitions: Mapping[int, PartitionMetadata]
    internal: bool


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    cluster_id: str
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicMetadata]


@dataclass(slots=True)
class _Topics:
    """An encoded metadata request in one version, and its last answer."""

    version: int
    question: bytes
    answer: bytes = b""
    metadata: ClusterMetadata | None = None
    used: ClusterMetadata | None = None  # the last one that was returned

    def read(self, view: memoryview) -> ClusterMetadata:
        body = bytes(view)
        if self.metadata is None or body != self.answer:
            self.metadata = _metadata(answers.decode(MetadataResponse, self.version, body))
            self.answer = body
        return self.metadata


class WrongCluster(UsageError):
    """The addresses lead to another cluster than before, or than the expected one."""

    def __init__(self, where: str, expected: str, actual: str, *, alias: str = "", journal: str = "") -> None:
        self.meant, self.found = expected, actual
        name, prefix = (f"cluster {alias}", f"{alias}.") if alias else ("the cluster", "")
        begun = f", with which the journal {journal} was begun" if journal else ""
        consent = f"set {prefix}drlib.cluster.id = {actual}" if journal else f"correct {prefix}drlib.cluster.id"
        super().__init__(
            f"{name} at {where} is not the one that is meant",
            f"its cluster ID is {actual} and not {expected}{begun}",
            f"Correct {prefix}bootstrap.servers; if the cluster was replaced on purpose, {consent}.",
        )


class Throttled(Unreachable):
    """Brokers answer, and a quota of the user makes them pause for longer than anything waits for it."""

    def __init__(self, where: str, waited_s: float, paused_s: float) -> None:
        super().__init__(
            f"{where} throttles this user",
            f"its brokers answer, and a quota made them pause for {paused_s:.0f} s, so that not all was read within "
            f"{waited_s:.0f} s",
            "Raise the quotas consumer_byte_rate and request_percentage of drlib's user, then run the command again.",
        )


_MAYBE_THE_NEXT: Final = (versions.UnsupportedRequest, WrongCluster, security_faults.UntrustedBroker)
"""Of one address: the next one may be newer, of the right cluster, or have a good certificate."""


class ClusterClient:
    """Connections to one cluster. `bootstrap`: host:port addresses. Raises `UsageError` for invalid ones.

    `as_target`: brokers that are too old to be mirrored to are refused. `renewed`: `security` as it is now; blocks.
    """

    def __init__(
        self,
        bootstrap: Sequence[str],
        *,
        security: Security = PLAINTEXT,
        client_id: str = "drlib",
        timeout_s: float = 10.0,
        as_target: bool = False,
        renewed: Callable[[], Security] | None = None,
        alias: str = "",
    ) -> None:
        self.as_target = as_target
        self._renewed = renewed
        self.bootstrap = tuple(_address(a) for a in bootstrap)
        if not self.bootstrap:
            raise UsageError("no broker address was given", "bootstrap.servers is empty", "Set bootstrap.servers.")
        self.name = alias or f"the cluster at {self._addresses()}"
        self.client_id = client_id
        self.timeout_s = timeout_s
        self._use(security)
        self._read_at = time.monotonic()
        self._renewals: set[asyncio.Task[None]] = set()
        self.brokers: dict[int, Broker] = {}
        self.unreachable = ""  # why no broker could be reached at the last attempt; "" when one was
        # Why TLS or the login failed at the last attempt, where a broker answered.
        self.refusal: SecurityFault | None = None
        self._strangers: dict[
            str, tuple[str, float]
        ] = {}  # by address: the ID of another cluster there, and when it answered
        self._all: weakref.WeakSet[Connection] = weakref.WeakSet()
        self.cluster_id = ""  # of the first answer, or of `expect`; every later answer must have it
        self._silence = SilenceWatch(self._all, self._open_another)
        self._connections: dict[tuple[int, str], Connection] = {}
        self._locks: dict[tuple[int, str], asyncio.Lock] = {}
        self._seed: Connection | None = None
        self._seed_since = 0.0
        self._former_seed: Connection | None = None  # may have requests in flight
        self._next_seed: asyncio.Task[None] | None = None
        self._seed_lock = asyncio.Lock()
        self._failed = ""
        self._topics: OrderedDict[tuple[int, tuple[str, ...] | None], _Topics] = OrderedDict()

    async def connect(self) -> ClusterMetadata:
        """Reach one broker, check its versions, learn the others.

        Raises `Unreachable`, `SecurityFault` or `UsageError`.
        """
        return await self.metadata([])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End every connection and wait until the sockets are released."""
        await self._silence.stop()
        if self._next_seed is not None:
            self._next_seed.cancel()
            await asyncio.gather(self._next_seed, return_exceptions=True)
        seeds = [seed for seed in (self._seed, self._former_seed) if seed is not None]
        open_ones = [*self._connections.values(), *seeds]
        self._connections.clear()
        self._seed = self._former_seed = None
        await _close(open_ones, abort=False)
        for renewal in self._renewals:
            renewal.cancel()
        await asyncio.gather(*self._renewals, return_exceptions=True)

    async def drop(self, purpose: str) -> None:
        """Abort every connection of one purpose; unsent requests are never sent."""
        keys = [key for key in self._connections if key[1] == purpose]
        await _close([self._connections.pop(key) for key in keys], abort=True)

    async def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        """The metadata of `topics`; None for all topics. Never creates a topic. Raises `Unreachable`.

        Returns the same object as before while the answer does not change.
        """
        names = None if topics is None else tuple(topics)
        asked: list[Connection] = []

        def ask(seed: Connection) -> asyncio.Future[ClusterMetadata]:
            asked.append(seed)
            return self._ask_metadata(seed, names)

        answer = await self._any(ask)
        before = next((t.used for (_, n), t in self._topics.items() if n == names and t.used is not None), None)
        if not answer.brokers or _is_older(answer, before):  # without brokers it has just started, and knows no topics
            self._failed = asked[-1].peer
            asked[-1].close(abort=True)
            answer = await self._any(ask)
            end = time.monotonic() + min(self.timeout_s, NO_BROKERS_S)
            while not answer.brokers:
                if time.monotonic() > end:
                    raise NoBrokersYet(self._addresses())
                await asyncio.sleep(0.1)
                answer = await self._any(ask)
        self.expect(self.cluster_id or answer.cluster_id)
        self._refuse_stranger(asked[-1], answer.cluster_id)
        self.brokers = dict(answer.brokers)
        if (kept := self._topics.get((asked[-1].version("Metadata"), names))) is not None:
            kept.used = answer
        return answer

    def expect(self, cluster_id: str) -> None:
        """Accept only this cluster ID from now on; another one raises `WrongCluster`."""
        self.cluster_id = cluster_id

    @property
    def stranger(self) -> str:
        """ID of another cluster that an address of this one has led to in the last seconds; "" where none does."""
        now = time.monotonic()
        return next((found for found, at in self._strangers.values() if now - at < STRANGER_S), "")

    def _refuse_stranger(self, connection: Connection, cluster_id: str) -> None:
        """Raises `WrongCluster` where `connection` leads to another cluster: its address may lead here again, it never will."""
        if cluster_id == self.cluster_id:
            self._strangers.pop(connection.peer, None)
            return
        self._strangers[connection.peer] = cluster_id, time.monotonic()
        self._failed = connection.peer
        connection.close(abort=True)
        raise WrongCluster(self._addresses(), self.cluster_id, cluster_id)

    def waiting(self) -> tuple[float, str]:
        """Seconds that the oldest unanswered request has waited, and its broker."""
        return max(((c.waiting_s, c.peer) for c in self._all if not c.is_lost), default=(0.0, ""))

    @contextlib.asynccontextmanager
    async def within(self, timeout_s: float, throttled_s: float) -> AsyncIterator[None]:
        """As `asyncio.timeout`, but later by the pauses that brokers announce meanwhile, at most by `throttled_s`.

        Raises `Throttled` where there were any, else TimeoutError.
        """
        loop = asyncio.get_running_loop()
        end, before = loop.time() + timeout_s, self._paused_s
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            later = end + min(throttled_s, self._paused_s - before)
            if loop.time() < later:
                timer = loop.call_at(later, look)
            else:
                deadline.reschedule(loop.time())

        timer = loop.call_at(end, look)
        try:
            async with asyncio.timeout(None) as deadline:
                yield
        except TimeoutError as error:
            if not deadline.expired() or self._paused_s <= before:
                raise
            waited_s = loop.time() - end + timeout_s
            raise Throttled(self.name, waited_s, self._paused_s - before) from error
        finally:
            timer.cancel()

    @property
    def throttled(self) -> str:
        """That brokers pause this client now, in words; empty where none does."""
        left_s = max((connection.throttled_s for connection in self._all if not connection.is_lost), default=0.0)
        return f"{self.name} pauses this user for {left_s:.0f} s, as a quota is used up" if left_s > 0 else ""

    @property
    def _paused_s(self) -> float:
        """How long the broker of one connection has announced to pause, in all: they pause side by side."""
        return max((connection.paused_s for connection in self._all), default=0.0)

    def _ask_metadata(self, seed: Connection, names: tuple[str, ...] | None) -> asyncio.Future[ClusterMetadata]:
        key = (seed.version("Metadata"), names)
        asked = self._topics.get(key)
        if asked is None:
            asked = self._topics[key] = _Topics(key[0], topics_question(key[0], names))
            if len(self._topics) > REMEMBERED:
                self._topics.popitem(last=False)
        self._topics.move_to_end(key)
        return seed.submit(
            MetadataRequest.API_KEY, asked.version, [asked.question], asked.read, timeout_s=self.timeout_s
        )

    async def ask(self, message: Callable[[Connection], Any]) -> Any:
        """Any broker's answer to a read-only request, which `message` makes for its connection. Raises `Unreachable`."""
        return await self._any(lambda seed: seed.send(message(seed), timeout_s=self.timeout_s))

    async def connection(self, node_id: int, purpose: str = "control") -> Connection:
        """The connection to a node for one purpose, opened when there is none. Raises `Unreachable`."""
        key = (node_id, purpose)
        async with self._locks.setdefault(key, asyncio.Lock()):
            kept = self._connections.get(key)
            if kept is not None and not kept.is_lost:
                return kept
            if node_id not in self.brokers:
                await self.metadata([])
            broker = self.brokers.get(node_id)
            if broker is None:
                raise Unreachable(
                    f"node {node_id} can't be reached",
                    f"the cluster at {self._addresses()} does not list it",
                    "Check that this broker runs.",
                )
            opened = await self._open(broker.host, broker.port, purpose)
            self._connections[key] = opened
            return opened

    async def coordinator(
        self, key: str, kind: Literal["group", "transaction"], *, deadline_s: float = COORDINATOR_DEADLINE_S
    ) -> int:
        """Node ID of the coordinator of a group or transactional ID.

        Waits up to `deadline_s` for one to be elected and loaded, then raises `BrokerError`.
        """
        deadline = time.monotonic() + deadline_s
        delay = 0.01
        while True:
            answer = await self.ask(
                lambda seed: seed.message(
                    FindCoordinatorRequest, key_type=_KINDS[kind], key=key, coordinator_keys=[key]
                )
            )
            (coordinator,) = answer.coordinators or [answer]  # before v4 an answer is about one key
            if coordinator.error_code not in ELECTING or time.monotonic() > deadline:
                raise_for(coordinator.error_code, f"finding the coordinator of {kind} {key}", coordinator.error_message)
                self.brokers[coordinator.node_id] = Broker(coordinator.node_id, coordinator.host, coordinator.port)
                return int(coordinator.node_id)
            await asyncio.sleep(delay)
            delay = min(0.2, delay * 2)

    async def _any(self, send: Callable[[Connection], asyncio.Future[Answer]]) -> Answer:
        """Any broker's answer: a second broker is asked when the connection to the first ends."""
        seed = await self.any_broker()
        try:
            return await send(seed)
        except ConnectionLost:
            self._failed = seed.peer
            seed = await self.any_broker()
            try:
                return await send(seed)
            except ConnectionLost as lost:
                if self.brokers:
                    raise
                await self._explain(lost, *_address(seed.peer))
                raise

    async def any_broker(self) -> Connection:
        """A connection to a broker that answers, for requests that any one takes. Raises `Unreachable`."""
        async with self._seed_lock:
            if self._seed is not None and not self._seed.is_lost:
                self._turn_to_another(self._seed)
                return self._seed
            known = [(b.host, b.port) for b in self.brokers.values()]
            candidates = list(dict.fromkeys([*known, *self.bootstrap]))
            candidates.sort(key=lambda address: f"{address[0]}:{address[1]}" == self._failed)
            try:
                self._seed = await first_success(
                    [partial(self._open, host, port, "metadata") for host, port in candidates],
                    pause_s=NEXT_ADDRESS_S,
                    failures=(Unreachable, *_MAYBE_THE_NEXT),
                    discard=lambda late: late.close(abort=True),
                )
            except SecurityFault as refusal:
                self.unreachable, self.refusal = "", refusal
                raise
            except AllFailed as failed:
                self.unreachable, self.refusal = "", None
                for failure in reversed(failed.failures):
                    if isinstance(failure, _MAYBE_THE_NEXT):
                        self.refusal = failure if isinstance(failure, SecurityFault) else None
                        raise failure from None
                found = zip(candidates, failed.failures, strict=True)
                self.unreachable = "; ".join(
                    f"{host}:{port}: {failure.why}"
                    for (host, port), failure in found
                    if isinstance(failure, Unreachable)
                )
                raise Unreachable(
                    f"no broker of the cluster at {self._addresses()} can be reached",
                    self.unreachable,
                    "Check that the cluster runs and that bootstrap.servers is right.",
                ) from None
            self.unreachable, self.refusal = "", None
            self._seed_since = time.monotonic()
            return self._seed

    def _turn_to_another(self, seed: Connection) -> None:
        """Open a connection to the next broker after `SEED_S`, beside what is asked meanwhile; where it fails, `seed` stays."""
        now = time.monotonic()
        if now - self._seed_since < SEED_S or not (self._next_seed is None or self._next_seed.done()):
            return
        peers = [str(broker) for broker in self.brokers.values()]
        at = peers.index(seed.peer) if seed.peer in peers else -1
        others = [peer for peer in (*peers[at + 1 :], *peers[: max(at, 0)]) if peer != seed.peer]
        self._seed_since = now
        if others:
            self._next_seed = asyncio.create_task(self._take_seed(seed, others))

    async def _take_seed(self, seed: Connection, peers: Sequence[str]) -> None:
        for peer in peers:
            with contextlib.suppress(DrlibError):
                opened = await self._open(*_address(peer), "metadata")
                break
        else:
            return
        unused: Connection | None = opened
        try:
            async with self._seed_lock:
                if self._seed is seed:  # else it was lost and replaced meanwhile
                    unused, self._former_seed, self._seed = self._former_seed, seed, opened
        finally:
            if unused is not None:
                unused.close(abort=True)

    def _use(self, security: Security) -> None:
        """For connections that are opened from now on. Raises `UsageError`."""
        self._tls = None if security.tls is None else tls.context(security.tls)
        self._login = None if security.sasl is None else sasl.Login(security)
        self.security = security

    async def _open(self, host: str, port: int, purpose: str) -> Connection:
        """A connection that is logged in; tried once more where secrets or certificates were renewed since the last one."""
        if time.monotonic() - self._read_at > RENEWED_S:
            await self._renew()
        used = self.security
        try:
            return await self._open_once(host, port, purpose)
        except (SecurityFault, ConnectionLost) as error:
            unusable = await self._renew() if used is self.security else None
            if used is self.security:
                if unusable is not None and isinstance(error, SecurityFault):
                    why = f"{error.why}; newer secrets or stores cannot be used: {unusable.what}: {unusable.why}"
                    raise type(error)(error.fault, error.what, why, unusable.remedy) from error
                raise
        return await self._open_once(host, port, purpose)

    async def _renew(self) -> DrlibError | None:
        """Use secrets and certificates as they are now, if they are others and can be used: they may be written just now."""
        if self._renewed is None or self.security == PLAINTEXT:
            return None
        self._read_at = time.monotonic()
        try:
            found = await asyncio.to_thread(self._renewed)
            if found != self.security:
                self._use(found)
        except DrlibError as unusable:
            return unusable
        return None

    async def _open_once(self, host: str, port: int, purpose: str) -> Connection:
        try:
            opened = await Connection.open(
                host,
                port,
                client_id=self.client_id,
                timeout_s=self.timeout_s,
                user_timeout_ms=USER_TIMEOUT_MS,
                linger_zero=True,
                tls=self._tls,
            )
        except Unreachable as error:
            await self._explain(error, host, port)
            raise
        self._all.add(opened)
        try:
            began = time.monotonic()
            answer = await opened.request(ApiVersionsRequest[versions.API_VERSIONS](), timeout_s=self.timeout_s)
            self._silence.measured(opened.peer, time.monotonic() - began)
            offered = {a.api_key: (a.min_version, a.max_version) for a in answer.api_keys}
            versions.check(opened.peer, offered, as_target=self.as_target)
            opened.versions = versions.highest(offered)
            if self._login is not None:
                await self._log_in(opened, self._login)
            if self.cluster_id:  # before anything is asked of it, or written to it
                self._refuse_stranger(opened, (await self._ask_metadata(opened, ())).cluster_id)
        except ConnectionLost as lost:
            await self._explain(lost, host, port)
            raise
        except BaseException:
            opened.close(abort=True)
            raise
        opened.begin(purpose)
        self._silence.start()
        return opened

    async def _open_another(self, connection: Connection) -> Connection:
        """A further connection to the broker of `connection`, whose first request was answered."""
        opened = await self._open(*_address(connection.peer), DOUBT)
        try:
            began = time.monotonic()
            await opened.request(ApiVersionsRequest[versions.API_VERSIONS](), timeout_s=self.timeout_s)
        except BaseException:
            opened.close(abort=True)
            raise
        self._silence.measured(opened.peer, time.monotonic() - began)
        return opened

    async def _log_in(self, opened: Connection, login: sasl.Login) -> None:
        session_s = await sasl.authenticate(opened, login, timeout_s=self.timeout_s)
        if session_s > 0:
            renewal = asyncio.create_task(sasl.stay_authenticated(opened, login, session_s))
            self._renewals.add(renewal)
            renewal.add_done_callback(self._renewals.discard)

    async def _explain(self, error: Unreachable, host: str, port: int) -> None:
        """Raises the `SecurityFault` behind `error`, if TLS or the probed listener shows one."""
        presented = self.security.tls is not None and bool(self.security.tls.certificate_pem)
        cause = error.cause if isinstance(error, ConnectionLost) else error.__cause__
        peer, protocol = f"{host}:{port}", self.security.protocol
        fault = security_faults.of_tls(cause, peer, protocol, presented=presented)
        if fault is None and not self.brokers and not isinstance(cause, (ConnectionRefusedError, TimeoutError)):
            fault = await listener.explain(host, port, self.security, self._tls, timeout_s=self.timeout_s)
        if fault is not None:
            raise fault from error

    def _addresses(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self.bootstrap)


def _is_older(answer: ClusterMetadata, before: ClusterMetadata | None) -> bool:
    """Does it name a leader of an epoch that another one has followed?"""
    if before is None or answer is before:
        return False
    for name, topic in answer.topics.items():
        known = before.topics.get(name)
        if known is not None and known.topic_id == topic.topic_id:
            epochs = ((p.leader_epoch, known.partitions.get(number)) for number, p in topic.partitions.items())
            if any(then is not None and 0 <= epoch < then.leader_epoch for epoch, then in epochs):
                return True
    return False


async def _close(connections: Sequence[Connection], *, abort: bool) -> None:
    for connection in connections:
        connection.close(abort=abort)
    for connection in connections:
        await connection.wait_closed()


def _address(text: str) -> tuple[str, int]:
    try:
        return decoding.address(text)
    except decoding.Undecodable:
        why, remedy = "it is not host:port", "Correct bootstrap.servers."
        raise UsageError(f"{text!r} is not a broker address", why, remedy) from None


def _metadata(answer: Any) -> ClusterMetadata:
    topics = {
        t.name: TopicMetadata(
            name=t.name,
            topic_id=NO_TOPIC_ID if t.error_code else reported(t.name, t.topic_id),
            error_code=t.error_code,
            partitions={
                p.partition_index: PartitionMetadata(
                    partition=p.partition_index,
                    leader=p.leader_id,
                    leader_epoch=p.leader_epoch,
                    replicas=tuple(p.replica_nodes),
                    isr=tuple(p.isr_nodes),
                    error_code=p.error_code,
                )
                for p in t.partitions
            },
            internal=bool(t.is_internal),
        )
        for t in answer.topics
    }
    brokers = {b.node_id: Broker(b.node_id, b.host, b.port) for b in answer.brokers}
    return ClusterMetadata(answer.cluster_id or "", answer.controller_id, brokers, topics)
