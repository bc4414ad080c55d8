"""The active-cluster pointer in Kafka: one compacted topic of one partition on every cluster.

A record's key is an application, or `*` for all of them. Versions are one sequence over all keys, so the newest pointer counts
for every key: `orders` can be moved alone, and a later pointer for `*` moves it with the others. The topic is never mirrored
(`FlowSettings.mirrors_topic`). Keys that begin with `*/` are earlier pointers (`drlib.client.history`).
Rules:
- On one cluster a version is compared and set: every writer claims the same transactional ID, which fences the previous
  writer, reads the topic to its end, and only then commits. A pointer never replaces a newer one or another of its version.
- Across clusters there is no vote: with two clusters, one down, nothing could be written. The pointer goes to every cluster
  that answers, in the order of aliases, and unreachable clusters are reported. Of two writers that see the same cluster, one
  is refused. Two that see only different clusters can both write a version; a reader that sees both clusters raises
  `PointerConflict`, until a higher version is published.
- What is replaced becomes a part of the history in the same transaction. A history that cannot be written holds up no move: the
  last attempt leaves it out.
- Who moves all applications of one flow leaves those of other clusters where they are (`stays`): their own pointers are
  written again above the new one.
- A reader uses the newest version among the clusters that answer, and reports those that do not.
Not for: following changes (`drlib.client.pointer_watch`).
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from drlib.client.history.entries import (
    PREFIX,
    History,
    Past,
    apply_entry,
    changes,
    is_entry,
    readable,
    replaced_by,
    union,
)
from drlib.client.pointer import Pointer, PointerConflict, Stays, decode, encode, fitted, newest, shown, staying
from drlib.config.replication_policy import POINTER_TOPIC
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, Range, Record
from drlib.kafka.admin.errors import as_drlib_error
from drlib.kafka.admin.transactions import transactional_producer, wait_visible
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition

TOPIC: Final = POINTER_TOPIC
EVERYONE: Final = "*"
_CONFIG: Final = {"cleanup.policy": "compact"}
_FENCED: Final = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
_OPEN_MS: Final = 10_000
_CLAIMS: Final = 6  # claims; one attempt fewer, as the last claim only reads the outcome
Answer = TypeVar("Answer")

Pointers = dict[str, Pointer | UsageError]  # by key, the last value; an error where it is not a pointer


@dataclass(frozen=True, slots=True)
class Held:
    """What one cluster's topic holds: pointers by key, when the record of each key was written, and earlier pointers."""

    pointers: Pointers
    written_ms: Mapping[str, int]
    history: History

    def replaced(self, application: str, pointer: Pointer) -> Past | None:
        """What becomes history when `pointer` is written."""
        return replaced_by(pointer, application, self.pointers.get(application), self.written_ms.get(application, 0))


@dataclass(frozen=True, slots=True)
class Reading:
    """`pointer` is the newest for the application, None if there has never been one. `silent`: by alias, why a cluster
    did not answer; such a cluster may have a newer pointer. `next_version` is above that of every application's pointer."""

    pointer: Pointer | None
    silent: Mapping[str, DrlibError] = field(default_factory=dict)
    next_version: int = 1


@dataclass(frozen=True, slots=True)
class Found:
    """Every application's pointers on the clusters that answered, by alias, and why the others did not."""

    pointers: Mapping[str, Pointers]
    silent: Mapping[str, DrlibError]

    def of(self, application: str) -> Reading:
        """Raises `PointerConflict`, and `UsageError` when the topic holds something else."""
        valid, invalid = pointers_for(self.pointers.values(), application)
        if invalid:
            raise invalid[0]
        every = [p for pointers in self.pointers.values() for p in pointers.values()]
        versions = [p.version for p in every if isinstance(p, Pointer)]
        return Reading(newest(valid), self.silent, 1 + max(versions, default=0))


@dataclass(frozen=True, slots=True, repr=False)
class Published:
    """`where`: the aliases of the clusters that hold the pointer now; `missing`: why the others do not. Shown as a table."""

    pointer: Pointer
    where: tuple[str, ...]
    missing: Mapping[str, DrlibError] = field(default_factory=dict)

    def __repr__(self) -> str:
        return repr(shown(self.pointer, self.where, self.missing))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        return shown(self.pointer, self.where, self.missing)._repr_mimebundle_()


def pointers_for(held: Iterable[Pointers], application: str) -> tuple[list[Pointer], list[UsageError]]:
    """The pointers of several clusters that apply to `application`, and why records in their place are none."""
    keys = dict.fromkeys((application, EVERYONE))
    chosen = [pointers[key] for pointers in held for key in keys if key in pointers]
    valid = [each for each in chosen if isinstance(each, Pointer)]
    return valid, [each for each in chosen if isinstance(each, UsageError)]


def fold_records(records: Iterable[Record], where: str) -> Held:
    """The last record of every key; a tombstone removes its key."""
    pointers: Pointers = {}
    history: dict[str, Past | UsageError] = {}
    written_ms: dict[str, int] = {}
    for record in records:
        if record.key is not None and is_entry(record.key):
            apply_entry(history, record.key, record.value, f"{where} at offset {record.offset}")
        else:
            apply_record(pointers, record.key, record.value, f"{where} at offset {record.offset}")
            written_ms[(record.key or b"").decode(errors="replace")] = record.timestamp_ms
    return Held(pointers, written_ms, history)


def apply_record(pointers: Pointers, key: bytes | None, value: bytes | None, where: str) -> None:
    """Apply one record of the topic, which is not of the history, to `pointers`."""
    name = (key or b"").decode(errors="replace")
    if value is None:
        pointers.pop(name, None)
        return
    try:
        pointers[name] = decode(value, where)
    except UsageError as error:
        pointers[name] = error


def read_pointer(
    clusters: Sequence[ClusterSettings], application: str = EVERYONE, *, topic: str = TOPIC, timeout_s: float = 5.0
) -> Reading:
    """One application's pointer as `read_pointers` finds it. Raises as that and `Found.of` do."""
    return read_pointers(clusters, topic=topic, timeout_s=timeout_s).of(application)


def read_pointers(clusters: Sequence[ClusterSettings], *, topic: str = TOPIC, timeout_s: float = 5.0) -> Found:
    """Read the pointers of all applications from all clusters at once. A cluster without the topic counts as one without.

    Raises `Unreachable` when no cluster answers within about `timeout_s` seconds.
    """
    answers, silent = ask_each(clusters, lambda cluster: read_topic(cluster, topic, timeout_s).pointers)
    if not answers:
        raise _no_answer("reading", topic, silent)
    return Found(answers, silent)


def publish(
    clusters: Sequence[ClusterSettings],
    pointer: Pointer,
    application: str = EVERYONE,
    *,
    topic: str = TOPIC,
    replication_factor: int = -1,
    timeout_s: float = 10.0,
    repair: bool = False,
    stays: Stays | None = None,
) -> Published:
    """Write `pointer` to every cluster that answers, and create the topic where it is missing.

    `pointer.version` is the version read, plus one. Publishing the same pointer again writes it to clusters that missed it.
    Who reads after the return finds it. Raises `PointerConflict` when a cluster holds another pointer of that version or a
    newer one (the error lists where it was written), `Unreachable` or `ClusterRefused` when it was written nowhere; and at
    once `UsageError` for one that is too large.
    With `repair` the pointer is one that exists elsewhere: newer ones of other applications do not stand in its way.
    `stays`: which applications a pointer of all leaves where their own one says; that is written again above it, in the same
    transaction and before it.
    """
    if application.startswith(PREFIX):
        what, keys = f"there is no pointer of application {application}", "are those of earlier pointers"
        raise UsageError(what, f"keys that begin with {PREFIX} {keys}", "Give the application another name.")
    encode(pointer)
    writer = _Writer(application, pointer, topic, replication_factor, timeout_s, repair)
    claims, missing = ask_each(clusters, writer.claim)
    if not claims:
        raise _no_answer("publishing to", topic, missing)
    if stays is not None and application == EVERYONE:
        writer.beside = _staying([claim.held.pointers for claim in claims.values()], pointer, stays)
    refused = {
        alias: why for alias, claim in claims.items() if (why := writer.conflict(claim.held.pointers)) is not None
    }
    if refused:
        raise _conflict(pointer, refused, ())
    writer.elsewhere = union(
        [
            *readable(claim.held.history),
            *([replaced] if (replaced := claim.held.replaced(application, pointer)) else []),
        ]
        for claim in claims.values()
    )
    where: list[str] = []
    for settings in sorted(clusters, key=lambda cluster: cluster.alias):
        if settings.alias not in claims:
            continue
        try:
            writer.write(settings, claims[settings.alias])
            where.append(settings.alias)
        except PointerConflict as error:
            raise _conflict(pointer, {settings.alias: str(error.why)}, where) from error
        except DrlibError as error:
            missing[settings.alias] = error
    if not where:
        raise _no_answer("publishing to", topic, missing)
    return Published(pointer, tuple(where), missing)


def _staying(held: Sequence[Pointers], pointer: Pointer, stays: Stays) -> dict[str, Pointer]:
    """The pointers of applications that `pointer`, of all, leaves where they are."""
    every = [(key, each) for pointers in held for key, each in pointers.items() if isinstance(each, Pointer)]
    common = max((each.version for key, each in every if key == EVERYONE), default=0)
    left = staying([(key, each) for key, each in every if key != EVERYONE], common, pointer.version, stays)
    return {key: fitted(each)[0] for key, each in left.items()}


@dataclass(frozen=True, slots=True)
class _Claim:
    """A producer that has fenced every writer before it, and what the topic held from then on."""

    producer: Any
    held: Held


class _Writer:
    def __init__(
        self, application: str, pointer: Pointer, topic: str, factor: int, timeout_s: float, repair: bool
    ) -> None:
        self._application = application
        self._pointer = pointer
        self._topic = topic
        self._factor = factor
        self._timeout_s = timeout_s
        self._repair = repair
        self.elsewhere: Mapping[str, Past] = {}  # of all clusters that answered
        self.beside: Mapping[str, Pointer] = {}  # of applications that stay, written with it

    def claim(self, settings: ClusterSettings) -> _Claim:
        """First the fence, then the look: what another writer committed is seen, what it has not is never committed."""
        with Cluster(settings, timeout_s=self._timeout_s) as cluster:
            if self._topic not in cluster.topics([self._topic]):
                cluster.create_topic(self._topic, 1, self._factor, _CONFIG, or_fewer=True)
        try:
            producer, _ = transactional_producer(settings, {"transactional.id": self._topic}, _OPEN_MS, self._timeout_s)
        except KafkaException as error:
            raise as_drlib_error(error, settings, f"claiming {self._topic}") from error
        return _Claim(producer, read_topic(settings, self._topic, self._timeout_s))

    def conflict(self, pointers: Pointers) -> str | None:
        """Why the pointer may not be written here, or None."""
        for key, stored in pointers.items():
            if (
                isinstance(stored, Pointer)
                and stored.version >= self._pointer.version
                and not self._is_ours(key, stored)
                and (key == self._application or not self._repair or stored.version == self._pointer.version)
            ):
                return f"it holds version {stored.version} for {key}, which names {stored.active}"
        return None

    def write(self, settings: ClusterSettings, claim: _Claim) -> None:
        """Raises `PointerConflict` where another writer is faster each time; what the cluster refuses or does not answer is
        tried again for a while, and raised. After an error it is unknown whether the last attempt was committed."""
        failed: DrlibError | None = None
        fenced, until = False, time.monotonic() + 2 * self._timeout_s
        for tries_left in reversed(range(_CLAIMS)):
            if failed is not None:
                claim = self.claim(settings)  # the claim settles the outcome of the previous commit and reads it
            if (why := self.conflict(claim.held.pointers)) is not None:
                raise PointerConflict("the pointer was not written", why, "Read it again.")
            held = claim.held.pointers
            if all(held.get(key) == each for key, each in {**self.beside, self._application: self._pointer}.items()):
                return
            if not tries_left or (failed is not None and not fenced and time.monotonic() > until):
                break
            try:
                written = self._commit(claim, with_history=tries_left > 1)
            except KafkaException as error:
                failed = as_drlib_error(error, settings, f"writing {self._topic}")
                fenced = error.args[0].code() in _FENCED
                if error.args[0].txn_requires_abort():
                    with contextlib.suppress(KafkaException):
                        claim.producer.abort_transaction(self._timeout_s)
            else:
                with Cluster(settings, timeout_s=self._timeout_s) as cluster, contextlib.suppress(DrlibError):
                    wait_visible(cluster, written, self._timeout_s)
                return
        if failed is not None and not fenced:
            raise failed
        raise PointerConflict(
            "the pointer was not written",
            f"another writer ended every attempt ({failed})",
            "Wait, then publish it again.",
        )

    def _commit(self, claim: _Claim, *, with_history: bool) -> dict[TopicPartition, int]:
        """Where the pointer is, which is committed."""
        written: dict[TopicPartition, int] = {}
        claim.producer.begin_transaction()
        if with_history:
            replaced = claim.held.replaced(self._application, self._pointer)
            for key, content in changes(claim.held.history, replaced, self.elsewhere).items():
                claim.producer.produce(self._topic, content, key=key, partition=0)
        for key, beside in self.beside.items():  # before it: a reader that has only the first records moves nowhere
            claim.producer.produce(self._topic, encode(beside), key=key, partition=0)
        claim.producer.produce(
            self._topic,
            encode(self._pointer),
            key=self._application,
            partition=0,
            on_delivery=lambda _, message: written.update({TopicPartition(self._topic, 0): message.offset()}),
        )
        claim.producer.commit_transaction(self._timeout_s)
        claim.producer.poll(0)  # calls on_delivery, which a commit alone need not
        return written

    def _is_ours(self, key: str, stored: Pointer) -> bool:
        return stored == (self._pointer if key == self._application else self.beside.get(key))


def read_topic(settings: ClusterSettings, topic: str, timeout_s: float) -> Held:
    """What one cluster's topic holds. Raises as `read_records`."""
    return fold_records(read_records(settings, topic, timeout_s), f"{topic} on {settings.alias}")


def read_records(settings: ClusterSettings, topic: str, timeout_s: float) -> list[Record]:
    """Every committed record of the topic on one cluster; none where it does not exist. Raises `Unreachable`.

    `timeout_s` is for all of it: a cluster that answers in part can let each request wait.
    """
    partition = TopicPartition(topic, 0)
    with Cluster(settings, timeout_s=timeout_s, together=True) as cluster:
        if topic not in cluster.topics([topic]):
            return []
        start = cluster.log_starts([partition])[partition]
        end = cluster.log_ends([partition], Isolation.READ_COMMITTED)[partition]
        return list(cluster.read({partition: Range(start, end)}))


def ask_each(
    clusters: Sequence[ClusterSettings], ask: Callable[[ClusterSettings], Answer]
) -> tuple[dict[str, Answer], dict[str, DrlibError]]:
    """Each cluster's answer, and why the others gave none. All are asked at once."""
    answers: dict[str, Answer] = {}
    silent: dict[str, DrlibError] = {}
    with ThreadPoolExecutor(max(1, len(clusters)), "pointer") as pool:
        for settings, asked in [(cluster, pool.submit(ask, cluster)) for cluster in clusters]:
            try:
                answers[settings.alias] = asked.result()
            except DrlibError as error:
                silent[settings.alias] = error
    return answers, silent


def _no_answer(doing: str, topic: str, silent: Mapping[str, DrlibError]) -> DrlibError:
    reasons = "; ".join(f"{alias}: {error.what}, {error.why}" for alias, error in silent.items())
    return Unreachable(
        f"{doing} {topic} got no answer",
        reasons or "no cluster is configured",
        "Start one of the clusters, then run the command again.",
    )


def _conflict(pointer: Pointer, refused: Mapping[str, str], where: Sequence[str]) -> PointerConflict:
    outcome = f"was written to {', '.join(where)} only" if where else "was not written to any cluster"
    return PointerConflict(
        f"version {pointer.version} of the pointer ({pointer.active}) {outcome}",
        "; ".join(f"{alias}: {why}" for alias, why in refused.items()),
        "Read the pointer again, then publish the next version if the move is still right.",
    )
