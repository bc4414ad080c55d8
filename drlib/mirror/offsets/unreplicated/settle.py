"""Settle unreplicated records: write each to the target once, to the local topic or to a quarantine topic.

Rules:
- Records and progress (`drlib.mirror.offsets.unreplicated.ledger`) are written in one transaction; the transactional ID is the
  flow's, so an earlier call is fenced, and its open transaction aborted. Killed at any point, the next call resumes at the
  exact record.
- A record keeps its bytes, timestamp and, where both topics have as many partitions, its partition; else its key
  determines the partition as in Java's partitioner. Headers say where it came from. Records of a partition are written in their
  order.
- The local topic is never created here, because its partition count is the applications' decision: where it does not exist, the
  records are quarantined. A quarantine topic is created, without retention.
Source: KIP-98; librdkafka's transactional producer. Not for: deciding on a record
(`drlib.mirror.offsets.unreplicated.rules`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from drlib import clock
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, Range, Record
from drlib.kafka.admin.errors import as_drlib_error
from drlib.kafka.admin.transactions import transactional_producer, wait_visible
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.unreplicated import ledger
from drlib.mirror.offsets.unreplicated import rules as tails
from drlib.mirror.offsets.unreplicated.find import UnreplicatedRecords, read_stretches, refuse_workers, written_since
from drlib.mirror.offsets.unreplicated.ledger import Closing, Progress
from drlib.mirror.offsets.unreplicated.rules import Fate, SentAgain, Settle, Stretch
from drlib.model import Flow, TopicPartition

RECORDS: Final = 2000  # in one transaction
BYTES: Final = 8 << 20
TRY_S: Final = 30.0
OPEN_MS: Final = 60_000  # of a transaction
_LEDGER: Final = TopicPartition(ledger.TOPIC, ledger.PARTITION)
_HEADER_BYTES: Final = 64 << 10  # that the added headers may take
_FOREVER: Final = str(2**63 - 1)


@dataclass(frozen=True, slots=True)
class Settled:
    """Unreplicated records by result, in this call or before. `late`: recovered by this call after newer records
    of their keys; `both`: keys that the target has newer records of."""

    recovered: int
    set_aside: int
    sent_again: int
    quarantined: int
    late: int = 0
    both: int = 0

    @property
    def in_quarantine(self) -> int:
        return self.set_aside + self.sent_again + self.quarantined


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was settled on the target: progress by partition key, completion by flow key."""

    progress: Mapping[bytes, Progress]
    closing: Mapping[bytes, Closing]

    def next(self, source_id: str, topic_id: Any, partition: int) -> int:
        """The source offset below which everything was settled; 0 where nothing was."""
        progress = self.progress.get(ledger.partition_key(source_id, topic_id, partition))
        return 0 if progress is None else progress.next

    def last_run(self, flow: Flow) -> str | None:
        closing = self.closing.get(ledger.flow_key(flow))
        return None if closing is None else closing.run


def read_ledger(target: Cluster) -> Ledger:
    """Read the ledger; empty where nothing was ever settled."""
    progress, closing = dict[bytes, Progress](), dict[bytes, Closing]()
    if ledger.TOPIC in target.topics([ledger.TOPIC]):
        start = target.log_starts([_LEDGER])[_LEDGER]
        end = target.log_ends([_LEDGER], Isolation.READ_COMMITTED)[_LEDGER]
        for record in target.read({_LEDGER: Range(start, end)}):
            if record.key is None or record.value is None:
                continue
            if record.key.startswith(b'["flow"'):
                closing[record.key] = ledger.decode(record.value, Closing)
            else:
                progress[record.key] = ledger.decode(record.value, Progress)
    return Ledger(progress, closing)


def settle_unreplicated(
    settings: MirrorSettings,
    tail: UnreplicatedRecords,
    how: Settle,
    run: str,
    *,
    keep_order: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Settled:
    """Recover or quarantine all records of `tail` that were not settled before. `check` is called between transactions. Topics
    without a local counterpart on the target are quarantined in any case.

    Raises `UsageError` where it must not be done, `Unreachable`, `ClusterRefused`, and what `check` raises; records settled by
    then stay settled, and the next call resumes after them.
    """
    _refuse_unsafe(tail, how)
    flow = tail.flow
    since = {t: written_since(settings, tail, t) for t in tail.topics} if how is Settle.RECOVER else {}
    with Cluster(settings.clusters[flow.source]) as source, Cluster(settings.clusters[flow.target]) as target:
        refuse_workers(target, flow)
        factor = settings.flow(flow.source, flow.target).replication_factor
        target.create_topic(ledger.TOPIC, 1, factor, {"cleanup.policy": "compact"}, or_fewer=True)
        partition_counts = _prepare(source, target, tail, how, factor)
        if how is Settle.RECOVER and not keep_order:
            _refuse_compacted(target, {topic: newer for topic, newer in since.items() if topic in partition_counts})
        with _Writing(settings.clusters[flow.target], tail, how, run, partition_counts) as writing:
            writing.begin(target)
            writing.take_sent_again(source, since)
            for record in read_stretches(source, writing.rest()):
                local = since.get(record.partition.topic, SentAgain())
                wanted = how if record.partition.topic in partition_counts else Settle.QUARANTINE
                fate = tails.fate(wanted, record.key, record.value, record.headers, local, keep_order=keep_order)
                late = fate is Fate.RECOVERED and record.key is not None and tails.key_digest(record.key) in local.keys
                writing.write(record, fate, late=late)
                if writing.full:
                    check()
                    writing.commit()
            wait_visible(target, writing.close())
            return writing.settled(sum(len(s.keys) for s in since.values()))


def count_sent_again(settings: MirrorSettings, tail: UnreplicatedRecords) -> int:
    """Unreplicated records that their producers have sent to the target as well, which are duplicates if left on the source."""
    since = {topic: written_since(settings, tail, topic) for topic in tail.topics}
    with Cluster(settings.clusters[tail.flow.source]) as source:
        wanted = {part.partition: part.stretches for part in tail.partitions if part.records}
        return sum(since[r.partition.topic].take(r.key, r.value, r.headers) for r in read_stretches(source, wanted))


class _Writing:
    """Writes one set of unreplicated records with a transactional producer."""

    def __init__(
        self,
        target: ClusterSettings,
        tail: UnreplicatedRecords,
        how: Settle,
        run: str,
        partition_counts: Mapping[str, int],
    ) -> None:
        self._target = target
        self._tail = tail
        self._how = how
        self._run = run
        self._places = partition_counts  # partitions of the topics written to
        self._progress: dict[TopicPartition, Progress] = {}
        self._touched: set[TopicPartition] = set()
        self._refused: list[KafkaError] = []
        self._written: dict[TopicPartition, int] = {}  # the last offset of each partition
        self._open = False
        self._began_s = self._open_s = 0.0  # when the transaction began, and how long it may last
        self._records = self._bytes = 0
        self._late = 0
        self._producer: Any = None

    def __enter__(self) -> _Writing:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open:
            with contextlib.suppress(KafkaException):  # the broker aborts it, or the next call does
                self._producer.abort_transaction(5.0)

    def begin(self, target: Cluster) -> None:
        """Fence an earlier call, and only then read its progress."""
        config = {
            "transactional.id": f"drlib.tail.{self._tail.flow}",
            "partitioner": "murmur2_random",  # Java's
            "compression.type": "gzip",  # every client reads it; some need a package for others
            "linger.ms": 5,
            "message.max.bytes": 100 << 20,  # the brokers' limits apply
            "batch.size": 512 << 10,
        }
        try:
            self._producer, self._open_s = transactional_producer(self._target, config, OPEN_MS, TRY_S)
        except KafkaException as error:
            raise as_drlib_error(error, self._target, "settling unreplicated records") from error
        known = read_ledger(target)
        for part in self._tail.partitions:
            progress = known.progress.get(self._key(part.partition)) or Progress(next=0, how=self._how, run=self._run)
            if all(progress.next <= stretch.first for stretch in part.stretches):  # none of these was settled before
                progress = Progress(next=progress.next, how=self._how, run=self._run)
            self._progress[part.partition] = progress

    def rest(self) -> dict[TopicPartition, tuple[Stretch, ...]]:
        """The offset ranges that are still to be settled."""
        return {
            part.partition: tuple(
                Stretch(max(s.first, self._progress[part.partition].next), s.end)
                for s in part.stretches
                if s.end > self._progress[part.partition].next
            )
            for part in self._tail.partitions
        }

    def take_sent_again(self, source: Cluster, since: Mapping[str, SentAgain]) -> None:
        """Take from `since` what an earlier call found sent again: each record there stands for one of the source only."""
        left = {partition: progress.sent_again for partition, progress in self._progress.items()}
        settled = {
            part.partition: tuple(
                Stretch(s.first, min(s.end, self._progress[part.partition].next))
                for s in part.stretches
                if s.first < self._progress[part.partition].next
            )
            for part in self._tail.partitions
            if left[part.partition] and part.partition.topic in since
        }
        for record in read_stretches(source, settled):
            if left[record.partition] and since[record.partition.topic].take(record.key, record.value, record.headers):
                left[record.partition] -= 1

    @property
    def full(self) -> bool:
        long = self._open and time.monotonic() - self._began_s > self._open_s / 4  # as where the source is read slowly
        return long or self._records >= RECORDS or self._bytes >= BYTES

    def write(self, record: Record, fate: Fate, *, late: bool) -> None:
        source = record.partition
        topic = source.topic if fate is Fate.RECOVERED else tails.quarantine_topic(self._tail.flow.source, source.topic)
        origin = tails.provenance(self._tail.flow.source, source, record.offset)
        self._produce(
            topic,
            key=record.key,
            value=record.value,
            headers=[*record.headers, *origin],
            timestamp=record.timestamp_ms,
            **({"partition": source.partition} if self._places[topic] == self._of(source.topic) else {}),
        )
        now = self._progress[source]
        name = fate.name.lower()
        counted = {name: getattr(now, name) + 1, "next": record.offset + 1, "how": self._how, "run": self._run}
        self._progress[source] = now.model_copy(update=counted)
        self._touched.add(source)
        self._records += 1
        self._bytes += len(record.key or b"") + len(record.value or b"")
        self._late += late

    def commit(self) -> None:
        """Commit the records written since the last commit together with their progress."""
        for partition in sorted(self._touched):
            self._produce(ledger.TOPIC, key=self._key(partition), value=self._progress[partition].encode(), partition=0)
        if self._open:
            try:
                self._call(self._producer.commit_transaction)
            except DrlibError:
                if self._refused:
                    raise self._refusal() from None
                raise
            self._open = False
        self._touched.clear()
        self._records = self._bytes = 0

    def close(self) -> dict[TopicPartition, int]:
        """Record that everything up to the end is settled and the flow is complete; the last offset of each partition."""
        for part in self._tail.partitions:
            if part.end > self._progress[part.partition].next and part.stretches:
                done = {"next": part.end, "how": self._how, "run": self._run}
                self._progress[part.partition] = self._progress[part.partition].model_copy(update=done)
                self._touched.add(part.partition)
        closing = Closing(run=self._run, how=self._how, at_ms=clock.now_ms())
        self._produce(ledger.TOPIC, key=ledger.flow_key(self._tail.flow), value=closing.encode(), partition=0)
        self.commit()
        self._producer.poll(0)
        return self._written

    def settled(self, both: int) -> Settled:
        all_of = self._progress.values()
        return Settled(
            sum(p.recovered for p in all_of),
            sum(p.set_aside for p in all_of),
            sum(p.sent_again for p in all_of),
            sum(p.quarantined for p in all_of),
            self._late,
            both,
        )

    def _key(self, partition: TopicPartition) -> bytes:
        return ledger.partition_key(self._tail.source_id, self._tail.topic_ids[partition.topic], partition.partition)

    def _of(self, topic: str) -> int:
        return len(self._tail.of(topic))

    def _produce(self, topic: str, **record: Any) -> None:
        if not self._open:
            self._producer.begin_transaction()
            self._open, self._began_s = True, time.monotonic()
        while True:
            try:
                return self._producer.produce(topic, on_delivery=self._delivered, **record)  # type: ignore[no-any-return]
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                if self._refused:
                    raise self._refusal() from error
                raise as_drlib_error(error, self._target, f"writing to {topic}") from error

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            self._refused.append(error)
        elif error is None:
            self._written[TopicPartition(message.topic(), message.partition())] = message.offset()

    def _refusal(self) -> DrlibError:
        error = as_drlib_error(KafkaException(self._refused[0]), self._target, "writing an unreplicated record")
        return UsageError(
            error.what,
            error.why,
            "Quarantine the records instead, or change the topic; what was settled stays settled.",
        )

    def _call(self, transactional: Callable[..., Any]) -> None:
        """Call, and retry retriable errors for `TRY_S`."""
        deadline = time.monotonic() + TRY_S
        while True:
            try:
                transactional(5.0)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise as_drlib_error(error, self._target, "settling unreplicated records") from error


def _prepare(source: Cluster, target: Cluster, tail: UnreplicatedRecords, how: Settle, factor: int) -> dict[str, int]:
    """Partition counts of the topics to write to; quarantine topics are created, local ones only used where they exist."""
    partition_counts: dict[str, int] = {}
    local = target.topics(tail.topics) if how is Settle.RECOVER else {}
    sizes = source.topic_config(tail.topics, inherited=True)
    for topic in tail.topics:
        if topic in local:
            partition_counts[topic] = local[topic].partitions
        name = tails.quarantine_topic(tail.flow.source, topic)
        partitions = len(tail.of(topic))
        target.create_topic(
            name,
            partitions,
            factor,
            {
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1",
                "message.timestamp.type": "CreateTime",
                "message.timestamp.before.max.ms": _FOREVER,
                "message.timestamp.after.max.ms": _FOREVER,
                "max.message.bytes": str(int(sizes[topic]["max.message.bytes"]) + _HEADER_BYTES),
            },
            or_fewer=True,
        )
        partition_counts[name] = partitions
    return partition_counts


def _refuse_unsafe(tail: UnreplicatedRecords, how: Settle) -> None:
    cluster = tail.flow.source
    if tail.growing:
        raise UsageError(
            f"the unreplicated records of {cluster} cannot be settled yet",
            f"{cluster} was written to while they were read",
            f"Stop every producer of {cluster} first.",
        )
    if tail.doubtful and how is Settle.RECOVER:
        raise UsageError(
            f"the unreplicated records of {cluster} cannot be recovered",
            f"of {tail.doubtful} records it is unknown whether {tail.flow.target} has them already",
            "Quarantine them, and check which of them are needed.",
        )


def _refuse_compacted(target: Cluster, since: Mapping[str, SentAgain]) -> None:
    """Refuse compacted topics, where the last record of a key counts, and a recovered one would be last."""
    for topic, config in target.topic_config(since, inherited=True).items():
        if "compact" in config.get("cleanup.policy", "") and since[topic].keys:
            raise UsageError(
                f"the unreplicated records of {topic} cannot be recovered as they are",
                f"{topic} is compacted, and {len(since[topic].keys)} of its keys have newer values on "
                f"{target.settings.alias}, which recovered ones would replace",
                "Recover them with keep_order, which sets those aside, or quarantine them.",
            )
