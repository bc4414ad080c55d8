"""A group member that reads a remote topic to its cutover and only then the local topic, batch by batch.

After a move a key's records are in two topics: `LEFT.flights` has those before the move, `flights` those since.
Rules:
- Partition p of the local topic is paused until the group has *committed* the cutover of partition p of the remote
  topic, or of all its partitions (`Scope`). Committed, not polled: the owner of p after a rebalance
  derives the same answer from the broker alone.
- Positions are compared, never record offsets: the last offsets before a cutover may be control records.
- A batch counts when its commit is acknowledged. A refused commit rewinds to the start of the batch; a commit
  without an answer is UNKNOWN, and the owner of the batch decides.
- A batch polled before a rebalance is not committed after it: its partitions belong to another member, or are read again.
- A client that has lost all brokers for good is an error of `poll` and `commit`: a new member is to take its place.
- The range assignor gives partition p of both topics to the same member; members must all be of this class.
Not for: translating positions (they are committed before this starts) or for choosing the cluster; applications use
`drlib.client.ordered_consumer`.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import confluent_kafka as ck

from drlib.client.read_plan import ReadPlan, held
from drlib.closing import Closing
from drlib.kafka.admin.descriptions import Isolation, Record
from drlib.kafka.broker_states import BrokerStates
from drlib.model import TopicPartition

_ASK_AGAIN_S: Final = 0.5  # how often the offset of a remote partition that another member owns is requested
_NO_COMMIT_WAIT_S: Final = 0.01
_BETWEEN_POLLS_S: Final = 0.001
_REQUEST_S: Final = 5.0

# The coordinator refused for good: another generation of the group reads these records.
_REFUSED: Final = frozenset(
    {
        ck.KafkaError.ILLEGAL_GENERATION,
        ck.KafkaError.UNKNOWN_MEMBER_ID,
        ck.KafkaError.REBALANCE_IN_PROGRESS,
        ck.KafkaError.FENCED_INSTANCE_ID,
        ck.KafkaError.FENCED_MEMBER_EPOCH,
        ck.KafkaError.STALE_MEMBER_EPOCH,
    }
)


class CommitOutcome(StrEnum):
    ACKED = "acked"
    REFUSED = "refused"  # not committed; the consumer has rewound, or another member owns the partitions
    UNKNOWN = "unknown"  # no answer before the deadline


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in the order they were polled, and by partition where the batch begins and the position after it.

    A batch may be empty: only control records preceded the cutover; committing it opens the local topic.
    """

    records: tuple[Record, ...]
    starts: Mapping[TopicPartition, int]
    positions: Mapping[TopicPartition, int]
    generation: int = 0  # of the member's assignment it was polled in


class OrderedMember(Closing):
    """A member of `group`; `connection`: librdkafka's settings for reaching the cluster, `bootstrap.servers` at least.

    A context manager, and an iterator of batches that never ends by itself. Not thread-safe.
    """

    def __init__(
        self,
        connection: Mapping[str, object],
        group: str,
        plan: ReadPlan,
        *,
        isolation: Isolation = Isolation.READ_COMMITTED,
        max_batch: int = 500,
        poll_s: float = 0.05,
    ) -> None:
        self.group = group
        self.plan = plan
        self._max_batch = max_batch
        self._poll_s = poll_s  # short: consume() ignores signals while it waits
        self._assigned: set[TopicPartition] = set()
        self._held: set[TopicPartition] = set()
        self._reached: dict[TopicPartition, int] = {}  # committed, or where an uncommitted remote partition starts
        self._polled: dict[TopicPartition, int] = {}  # the position after the polled records
        self._stash: list[ck.Message] = []  # polled during a commit
        self._requested = 0.0
        self._generation = 0
        self._closed = False
        self._commits: list[tuple[ck.KafkaError | None, dict[TopicPartition, int]]] = []
        self._brokers = BrokerStates(connection)
        self._consumer: Any = ck.Consumer(
            {
                "session.timeout.ms": 10_000,
                "socket.timeout.ms": 5_000,
                "reconnect.backoff.max.ms": 500,
                "fetch.wait.max.ms": 50,
                "fetch.queue.backoff.ms": 50,
                "queued.min.messages": max(1000, 4 * max_batch),
                "log_level": 2,
                **connection,
                **self._brokers.settings,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "isolation.level": isolation.value,
                "partition.assignment.strategy": "range",
                "on_commit": self._on_commit,
            }
        )
        self._consumer.subscribe(
            list(plan.topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self._assigned)

    @property
    def held(self) -> frozenset[TopicPartition]:
        """The local partitions that wait for their remote ones."""
        return frozenset(self._held)

    @property
    def generation(self) -> int:
        """Changes with every rebalance: records polled before it may no longer be committed by this member."""
        return self._generation

    def position(self, partition: TopicPartition) -> int:
        """The position up to which everything in `partition` has been polled; -1 when nothing is known."""
        return self._polled.get(partition, -1)

    def committed(
        self, partitions: Collection[TopicPartition], timeout_s: float = _REQUEST_S
    ) -> dict[TopicPartition, int]:
        """The group's committed offsets, for the partitions that have one.

        Raises `KafkaException`, also when one of them could not be read.
        """
        if not partitions:
            return {}
        answer = self._consumer.committed(
            [ck.TopicPartition(p.topic, p.partition) for p in partitions], timeout=timeout_s
        )
        for at in answer:
            if at.error is not None:
                raise ck.KafkaException(at.error)
        return {TopicPartition(at.topic, at.partition): at.offset for at in answer if at.offset >= 0}

    def poll(self) -> Batch | None:
        """The records of about `poll_s`: at most `max_batch`, and those received during the last commit.

        Raises `KafkaException` for an error that is not transient, and where this client is of no use any more.
        """
        received = self._receive(self._max_batch, self._poll_s)
        # only now: a rebalance during the poll drops the stash, and its records are read again
        messages, self._stash = self._stash + received, []
        self._open_gates()
        starts: dict[TopicPartition, int] = {}
        records: list[Record] = []
        for message in messages:
            record = _record(message)
            if record.partition in self._assigned:
                starts.setdefault(record.partition, record.offset)
                records.append(record)
        positions = {p: self._polled[p] for p in starts}
        for partition in self._assigned:  # a remote partition may reach its cutover with control records alone
            position = self._polled.get(partition, -1)
            if partition.topic == self.plan.remote and self._at_cutover(partition, position):
                starts.setdefault(partition, position)
                positions[partition] = position
        return Batch(tuple(records), starts, positions, self._generation) if positions else None

    def serve(self) -> None:
        """Take part in a due rebalance without waiting, for a caller that is still busy with a batch."""
        self._stash += self._receive(1, 0.0)

    def commit(
        self, batch: Batch, *, deadline_s: float = 30.0, waiting: Callable[[], bool] = lambda: True
    ) -> CommitOutcome:
        """Commit the end of `batch`, and return the coordinator's answer.

        Retries without an answer; UNKNOWN after `deadline_s` seconds or as soon as `waiting()` is False.
        """
        until = time.monotonic() + deadline_s
        offsets = [ck.TopicPartition(p.topic, p.partition, position) for p, position in batch.positions.items()]
        in_doubt = False
        while True:
            if batch.generation != self._generation:
                return self._settled(batch) if in_doubt else CommitOutcome.REFUSED
            self._commits.clear()
            try:
                self._consumer.commit(offsets=offsets, asynchronous=True)
                error = self._await_commit(batch.positions, until, waiting)
            except ck.KafkaException as raised:
                error = raised.args[0]
            if error is None:
                self._reached.update(batch.positions)
                self._open_gates()
                return CommitOutcome.ACKED
            if error.code() in _REFUSED:
                if in_doubt and (outcome := self._settled(batch)) is not CommitOutcome.REFUSED:
                    return outcome
                if batch.generation == self._generation:  # else a new assignment has set every position
                    self.rewind(batch)
                return CommitOutcome.REFUSED
            in_doubt = True
            if time.monotonic() > until or not waiting():
                return CommitOutcome.UNKNOWN
            self._stash += self._receive(1, self._poll_s)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Leave the group. False when that did not end within `timeout_s`; the client is abandoned then."""
        if self._closed:
            return True
        self._closed = True
        self._assigned.clear()
        closing = threading.Thread(target=self._consumer.close, daemon=True)
        closing.start()
        closing.join(timeout_s)
        return not closing.is_alive()

    def __iter__(self) -> Iterator[Batch]:
        while True:
            if (batch := self.poll()) is not None:
                yield batch

    def _receive(self, most: int, seconds: float) -> list[ck.Message]:
        messages = []
        for message in self._consumer.consume(most, seconds):
            error = message.error()
            partition = TopicPartition(message.topic() or "", message.partition())
            if error is None:
                messages.append(message)
                self._advance(partition, message.offset() + 1)
            elif error.code() == ck.KafkaError._PARTITION_EOF:  # also after control records, which are not delivered
                self._advance(partition, message.offset())
            elif error.fatal() or error.code() in (
                ck.KafkaError._FATAL,  # as a message it is not marked as fatal
                ck.KafkaError.TOPIC_AUTHORIZATION_FAILED,
                ck.KafkaError.GROUP_AUTHORIZATION_FAILED,
            ):
                raise ck.KafkaException(error)
        if self._brokers.stranded():
            raise ck.KafkaException(ck.KafkaError(ck.KafkaError._ALL_BROKERS_DOWN, "this client has lost all brokers"))
        return messages

    def _advance(self, partition: TopicPartition, position: int) -> None:
        """Also back: a log that was created again or truncated is read from its start, and what is read there is committed."""
        if partition in self._assigned:
            self._polled[partition] = position

    def _at_cutover(self, partition: TopicPartition, position: int) -> bool:
        cutover = self.plan.cutover
        return partition.partition < len(cutover) and (
            self._reached.get(partition, -1) < cutover[partition.partition] <= position
        )

    def _await_commit(
        self, wanted: Mapping[TopicPartition, int], until: float, waiting: Callable[[], bool]
    ) -> ck.KafkaError | None:
        """The coordinator's answer: None when committed, `_TIMED_OUT` when there is none in time.

        The answer is delivered by polling, so records may arrive too; they are stashed for the next batch. They are polled
        one by one and slowly: pausing instead would drop prefetched records, which costs a second.
        """
        while time.monotonic() < until and waiting():
            arrived = self._receive(1, _NO_COMMIT_WAIT_S)
            for error, positions in self._commits:
                if positions == wanted:
                    self._stash += arrived
                    return error
            if arrived:
                self._stash += arrived
                time.sleep(_BETWEEN_POLLS_S)
        return ck.KafkaError(ck.KafkaError._TIMED_OUT)

    def _on_commit(self, error: ck.KafkaError | None, partitions: Sequence[ck.TopicPartition]) -> None:
        for partition in partitions or ():
            error = partition.error if error is None else error
        self._commits.append((error, {TopicPartition(p.topic, p.partition): p.offset for p in partitions or ()}))

    def _settled(self, batch: Batch) -> CommitOutcome:
        """The outcome of a commit in flight when the group rebalanced; a commit is applied whole or not at all."""
        try:
            offsets = self.committed(batch.positions.keys())
        except ck.KafkaException:
            return CommitOutcome.UNKNOWN
        if offsets == dict(batch.positions):
            return CommitOutcome.ACKED
        if any(offsets.get(p, -1) < position for p, position in batch.positions.items()):
            return CommitOutcome.REFUSED
        # another member committed more: after this commit, or after reading the same records again
        return CommitOutcome.UNKNOWN

    def rewind(self, batch: Batch) -> None:
        """Seek back to the start of `batch`, in the partitions that this member still owns."""
        starts = dict(batch.starts)
        for message in self._stash:
            starts.setdefault(TopicPartition(message.topic() or "", message.partition()), message.offset())
        self._stash.clear()
        for partition, offset in starts.items():
            if partition in self._assigned:
                self._consumer.seek(ck.TopicPartition(partition.topic, partition.partition, offset))
                self._polled[partition] = offset

    def _open_gates(self) -> None:
        """Resume the local partitions whose remote ones are committed up to the cutover."""
        if not self._held:
            return
        elsewhere = {
            remote
            for remote, position in self.plan.gates(self._held).items()
            if remote not in self._assigned and self._reached.get(remote, -1) < position
        }
        if elsewhere and time.monotonic() - self._requested > _ASK_AGAIN_S:
            self._requested = time.monotonic()
            with contextlib.suppress(ck.KafkaException):  # retried later; the gate stays closed
                self._reached.update(self.committed(elsewhere))
        waiting = held(self.plan, self._assigned, self._reached)
        opened, self._held = self._held - waiting, waiting
        if opened:
            self._consumer.resume([ck.TopicPartition(p.topic, p.partition) for p in opened])

    def _on_assign(self, consumer: Any, partitions: Sequence[ck.TopicPartition]) -> None:
        self._generation += 1
        self._stash.clear()
        self._polled.clear()
        self._assigned.clear()
        if self._closed:  # assigned while leaving: close() serves the rebalance and must not request offsets
            consumer.unassign()
            return
        assigned = {TopicPartition(p.topic, p.partition) for p in partitions}
        gates = self.plan.gates(assigned).keys()
        remote = {p for p in assigned if p.topic == self.plan.remote}
        try:
            positions = self._starting_points(consumer, gates | remote)
        except ck.KafkaException:
            consumer.unassign()  # else the client assigns by itself and reads past the gates
            raise
        self._assigned = assigned
        self._reached = positions
        starts = [ck.TopicPartition(p.topic, p.partition, positions.get(p, ck.OFFSET_STORED)) for p in self._assigned]
        consumer.assign(starts)
        self._polled.update({p: offset for p, offset in positions.items() if p in self._assigned})
        self._held = held(self.plan, self._assigned, self._reached)
        consumer.pause([ck.TopicPartition(p.topic, p.partition) for p in self._held])
        # librdkafka keeps a pause across rebalances: partitions opened by another member meanwhile would stay paused
        consumer.resume([ck.TopicPartition(p.topic, p.partition) for p in self._assigned - self._held])

    def _starting_points(self, consumer: Any, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's position in remote partitions: committed, else the log start offset."""
        points = self.committed(partitions)
        for partition in set(partitions) - points.keys():
            low, _ = consumer.get_watermark_offsets(
                ck.TopicPartition(partition.topic, partition.partition), timeout=_REQUEST_S
            )
            points[partition] = low
        return points

    def _on_revoke(self, consumer: Any, partitions: Sequence[ck.TopicPartition]) -> None:
        self._generation += 1
        self._assigned -= {TopicPartition(p.topic, p.partition) for p in partitions}
        self._held &= self._assigned
        self._stash.clear()
        consumer.unassign()


def _record(message: ck.Message) -> Record:
    headers = tuple((name, value) for name, value in message.headers() or ())
    partition = TopicPartition(message.topic() or "", message.partition())
    return Record(partition, message.offset(), message.timestamp()[1], message.key(), message.value(), headers)
