"""The active-cluster pointer in Kafka: one compacted topic of one partition on every cluster.

A record's key is an application or `*` for all of them; versions are one sequence over all keys, so the newest word counts
whoever it names: `orders` can be moved alone, and a later word for `*` moves it with the others. The name ends in
`.internal`, which no mirror copies.
What is promised:
- On one cluster a version is compared and set: every writer claims the same transactional ID, which fences the writer
  before it, reads the topic to its end and only then commits. A word never replaces a newer one, nor one of its version.
- Across clusters there is no vote, or nothing could be written when one of two is dead. The word goes to every cluster
  that answers, in the order of their aliases, and who could not be reached is said. Two writers who see the same
  cluster: one is refused. Two who see only different ones can both write a version; whoever sees both clusters is
  then told so by `PointerConflict`, and a word with a higher version ends it.
- A reader believes the newest version among the clusters that answer, and says which did not.
Not for: following changes (`drlib.client.pointer_watch`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException, Producer

from drlib.client.pointer import Pointer, PointerConflict, decode, encode, newest
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, Range, Record
from drlib.kafka.admin.errors import as_drlib_error
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition

TOPIC: Final = "drlib.active.internal"
EVERYONE: Final = "*"
_CONFIG: Final = {"cleanup.policy": "compact"}
_CLAIMS: Final = 6  # looks; one fewer tries, as the last try is looked at too
_QUIET: Final = logging.getLogger("drlib.librdkafka")
Answer = TypeVar("Answer")

Words = dict[str, Pointer | UsageError]  # by key, the last word; an error where it is not a pointer


@dataclass(frozen=True, slots=True)
class Reading:
    """`pointer` is the newest for the application, None if there has never been one; `silent` says, by alias, who did
    not answer and why. With silent clusters there may be a newer one."""

    pointer: Pointer | None
    silent: Mapping[str, DrlibError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Published:
    """`where`: the aliases of the clusters that hold the pointer now; `missing`: why the others don't."""

    pointer: Pointer
    where: tuple[str, ...]
    missing: Mapping[str, DrlibError] = field(default_factory=dict)


def counted(words: Mapping[str, Pointer | UsageError], application: str) -> list[Pointer]:
    """The pointers that count for `application`. Raises the `UsageError` of a word that is none."""
    chosen = [words[key] for key in dict.fromkeys((application, EVERYONE)) if key in words]
    for word in chosen:
        if isinstance(word, UsageError):
            raise word
    return [word for word in chosen if isinstance(word, Pointer)]


def words_of(records: Iterable[Record], where: str) -> Words:
    """The last word of every key; a tombstone takes its key's word back."""
    words: Words = {}
    for record in records:
        hear(words, record.key, record.value, f"{where} at offset {record.offset}")
    return words


def hear(words: Words, key: bytes | None, value: bytes | None, where: str) -> None:
    """Takes one record into `words`."""
    name = (key or b"").decode(errors="replace")
    if value is None:
        words.pop(name, None)
        return
    try:
        words[name] = decode(value, where)
    except UsageError as error:
        words[name] = error


def read_pointer(
    clusters: Sequence[ClusterSettings], application: str = EVERYONE, *, topic: str = TOPIC, timeout_s: float = 5.0
) -> Reading:
    """Asks all clusters at once. A cluster without the topic answers, and knows nothing.

    Raises `Unreachable` when nobody answers within `timeout_s` seconds or so, `PointerConflict`, and `UsageError` when
    the topic holds something else.
    """
    answers, silent = _ask(clusters, lambda cluster: _words(cluster, topic, timeout_s))
    if not answers:
        raise _nobody("reading", topic, silent)
    return Reading(newest(p for words in answers.values() for p in counted(words, application)), silent)


def publish(
    clusters: Sequence[ClusterSettings],
    pointer: Pointer,
    application: str = EVERYONE,
    *,
    topic: str = TOPIC,
    replication_factor: int = -1,
    timeout_s: float = 10.0,
) -> Published:
    """Writes `pointer` to every cluster that can be reached, making the topic where it is missing.

    `pointer.version` is what the writer read plus one. Publishing the same again fills the clusters that missed it.
    Raises `PointerConflict` when a cluster holds that version with another word, or a newer one (it says where the
    pointer stands by then), `Unreachable` when it could be written nowhere, `ClusterRefused` alike.
    """
    writer = _Writer(application, pointer, topic, replication_factor, timeout_s)
    claims, missing = _ask(clusters, writer.claim)
    if not claims:
        raise _nobody("publishing to", topic, missing)
    refused = {alias: word for alias, claim in claims.items() if (word := writer.conflict(claim.words)) is not None}
    if refused:
        raise _conflict(pointer, refused, ())
    where: list[str] = []
    for settings in sorted(clusters, key=lambda one: one.alias):
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
        raise _nobody("publishing to", topic, missing)
    return Published(pointer, tuple(where), missing)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A producer that has fenced every writer before it, and what the topic held from then on."""

    producer: Any
    words: Words


class _Writer:
    def __init__(self, application: str, pointer: Pointer, topic: str, factor: int, timeout_s: float) -> None:
        self._application = application
        self._pointer = pointer
        self._topic = topic
        self._factor = factor
        self._timeout_s = timeout_s

    def claim(self, settings: ClusterSettings) -> _Claim:
        """First the fence, then the look: what another writer committed is seen, what it has not is never committed."""
        with Cluster(settings, timeout_s=self._timeout_s) as cluster:
            if self._topic not in cluster.topics([self._topic]):
                cluster.create_topic(self._topic, 1, self._factor, _CONFIG)
        producer: Any = Producer(
            {
                **settings.confluent(),
                "transactional.id": self._topic,
                "transaction.timeout.ms": 10_000,
                "log_level": 0,
            },
            logger=_QUIET,
        )
        try:
            producer.init_transactions(self._timeout_s)
        except KafkaException as error:
            raise as_drlib_error(error, settings, f"claiming {self._topic}") from error
        return _Claim(producer, _words(settings, self._topic, self._timeout_s))

    def conflict(self, words: Words) -> str | None:
        """What stands against writing here, or None."""
        for key, word in words.items():
            if isinstance(word, Pointer) and word.version >= self._pointer.version and not self._is_ours(key, word):
                return f"it holds version {word.version} for {key}, which names {word.active}"
        return None

    def write(self, settings: ClusterSettings, claim: _Claim) -> None:
        """Raises `PointerConflict`; after another error it is not known whether the last try was committed."""
        failed: DrlibError | None = None
        for tries_left in reversed(range(_CLAIMS)):
            if failed is not None:
                claim = self.claim(settings)  # what became of the commit before is settled by now, and read
            if (word := self.conflict(claim.words)) is not None:
                raise PointerConflict("the pointer is not written", word, "Read it again.")
            if any(isinstance(w, Pointer) and self._is_ours(key, w) for key, w in claim.words.items()):
                return
            if not tries_left:
                break
            try:
                claim.producer.begin_transaction()
                claim.producer.produce(self._topic, encode(self._pointer), key=self._application, partition=0)
                claim.producer.commit_transaction(self._timeout_s)
            except KafkaException as error:
                failed = as_drlib_error(error, settings, f"writing {self._topic}")
            else:
                return
        raise PointerConflict("the pointer is not written", f"each try was ended by another writer ({failed})", "Wait.")

    def _is_ours(self, key: str, word: Pointer) -> bool:
        return key == self._application and word == self._pointer


def _words(settings: ClusterSettings, topic: str, timeout_s: float) -> Words:
    partition = TopicPartition(topic, 0)
    with Cluster(settings, timeout_s=timeout_s) as cluster:
        if topic not in cluster.topics([topic]):
            return {}
        start = cluster.log_starts([partition])[partition]
        end = cluster.log_ends([partition], Isolation.READ_COMMITTED)[partition]
        return words_of(cluster.read({partition: Range(start, end)}), f"{topic} on {settings.alias}")


def _ask(
    clusters: Sequence[ClusterSettings], question: Callable[[ClusterSettings], Answer]
) -> tuple[dict[str, Answer], dict[str, DrlibError]]:
    """What each cluster answers, and why the others don't; all at once, so a dead one costs its own time only."""
    answers: dict[str, Answer] = {}
    silent: dict[str, DrlibError] = {}
    with ThreadPoolExecutor(max(1, len(clusters)), "pointer") as pool:
        for settings, asked in [(one, pool.submit(question, one)) for one in clusters]:
            try:
                answers[settings.alias] = asked.result()
            except DrlibError as error:
                silent[settings.alias] = error
    return answers, silent


def _nobody(doing: str, topic: str, silent: Mapping[str, DrlibError]) -> DrlibError:
    reasons = "; ".join(f"{alias}: {error.what}, {error.why}" for alias, error in silent.items())
    return Unreachable(f"{doing} {topic} got no answer", reasons or "no cluster was named", "Bring one of them up.")


def _conflict(pointer: Pointer, refused: Mapping[str, str], where: Sequence[str]) -> PointerConflict:
    outcome = f"stands on {', '.join(where)} only" if where else "was not written anywhere"
    return PointerConflict(
        f"version {pointer.version} of the pointer ({pointer.active}) {outcome}",
        "; ".join(f"{alias}: {word}" for alias, word in refused.items()),
        "Read the pointer again and publish the next version if that is still right.",
    )
