"""A consumer for applications that keeps the order of every key across a move: `poll()` and `commit()` as in confluent-kafka.

Rules:
- The remote topic is read up to the cutover that the pointer names, then the local topic; see `drlib.client.ordered_member`.
- Only the application commits, except for positions without records. So the local topic waits for the application's commit at
  the cutover: `waits_for_commit` is True then, and iterating commits there, as requesting the next record means that the
  earlier ones are processed.
- Records returned and not committed are delivered again: after a crash, a rebalance, a refused commit or a move. Records
  whose `commit()` returned ACKED are not.
- With an `ActiveCluster` it follows the pointer: on a newer one it leaves the old cluster and joins its group again. While the
  pointer holds, no record is returned, and the consumer leaves the group as soon as the returned ones are committed. A
  pointer that names mirrored topics but no cutover for this one is refused: a guess could lose records or their order.
Not for: producers; translating offsets to the new cluster, which a drill does before the pointer moves.
"""

import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException

from drlib.client.active_cluster import Active, ActiveCluster
from drlib.client.ordered_member import Batch, CommitOutcome, OrderedMember
from drlib.client.pointer import Pointer
from drlib.client.read_plan import ReadPlan, Scope
from drlib.closing import Closing
from drlib.errors import UsageError
from drlib.kafka.admin import connect
from drlib.kafka.admin.descriptions import Isolation, Record
from drlib.kafka.admin.errors import as_drlib_error
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition

_LOG: Final = logging.getLogger("drlib.ordered")
_SERVE_S: Final = 0.5  # how often a busy consumer serves its group's rebalances
_LEAVE_S: Final = 1.0  # an unreachable cluster would not answer anyway
_JOIN_AGAIN_S: Final = 0.2
_LOGIN_S: Final = 5.0


def read_plan(pointer: Pointer, topic: str, scope: Scope) -> ReadPlan:
    """The read plan of `topic` for `pointer`. Raises `UsageError` when the pointer has no cutover for its remote topic."""
    remote = pointer.remote_topic(topic)
    if remote is None:
        return ReadPlan(topic)
    if remote not in pointer.cutover:
        raise UsageError(
            f"the pointer (version {pointer.version}) has no cutover for {remote}",
            f"it names the mirrored topics {pointer.remote_prefix}*, and this one must be read to its cutover first",
            f"Publish it with a cutover for {remote}: a position for each partition, none if it was never mirrored.",
        )
    cutover = pointer.cutover[remote]
    return ReadPlan(topic, remote, cutover, scope) if cutover else ReadPlan(topic)


class OrderedConsumer(Closing):
    """A member of `group` that reads `topic` at the active cluster. A context manager; iterating yields its records.

    `at`: an `ActiveCluster`, which is followed, or a confluent-kafka configuration of one cluster; then `remote` and
    `cutover` name what is read first. `settings` are further librdkafka settings, such as `session.timeout.ms`. All members
    of a group must be of this class, with the same `scope`. Not thread-safe.
    """

    def __init__(
        self,
        at: ActiveCluster | Mapping[str, object],
        group: str,
        topic: str,
        *,
        remote: str | None = None,
        cutover: Sequence[int] = (),
        scope: Scope | str = Scope.TOPIC,
        isolation: Isolation = Isolation.READ_COMMITTED,
        max_batch: int = 500,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.group = group
        self.topic = topic
        if scope not in tuple(Scope):
            raise UsageError(
                f"'{scope}' is not a scope",
                "the local topic is opened as a whole or by partition",
                "Use topic or partition.",
            )
        self._scope = Scope(scope)
        self._isolation = isolation
        self._max_batch = max_batch
        self._settings = dict(settings or {})
        self._follows = at if isinstance(at, ActiveCluster) else None
        self._connection = {} if isinstance(at, ActiveCluster) else dict(at)
        self._fixed = ReadPlan(topic, remote, tuple(cutover), self._scope) if remote else ReadPlan(topic)
        if remote is not None and (self._follows is not None or not cutover):
            raise UsageError(
                f"{remote} cannot be read first",
                "an ActiveCluster already names the remote topic, and without one the cutover is required",
                "Give remote and cutover together, or an ActiveCluster alone.",
            )
        self._active: Active | None = None  # that the member connects to
        self._plan = self._fixed
        self._member: OrderedMember | None = None
        self._closed = False
        self._served = 0.0
        self._queue: deque[Record] = deque()  # polled, not returned yet
        self._returned: dict[TopicPartition, int] = {}  # the position after the returned, uncommitted records
        self._starts: dict[TopicPartition, int] = {}  # where the uncommitted records begin
        self._ends: dict[TopicPartition, int] = {}  # the position after the polled, uncommitted records
        self._generation = 0
        self._held = False  # the pointer holds the applications
        self._lost = False  # records were returned before a rebalance or a move, and not committed

    # -- reading ---------------------------------------------------------------------------------------------------

    def poll(self, timeout_s: float = 1.0) -> Record | None:
        """The next record, or None after `timeout_s` seconds: there is none, the cluster does not answer, the pointer
        holds, or the local topic waits for a commit.

        Raises `UsageError`, `ClusterRefused` for errors that are not transient.
        """
        until = time.monotonic() + timeout_s
        while not self._closed:
            try:
                member = None if self._holds_back() else self._joined()
                if member is not None:
                    self._fill(member)
            except KafkaException as error:
                self._fall_out(error)
                member = None
            if member is None:
                time.sleep(max(0.0, min(_JOIN_AGAIN_S, until - time.monotonic())))
            elif self._queue:
                return self._next_record()
            if time.monotonic() >= until:
                break
        return None

    def __iter__(self) -> Iterator[Record]:
        """Records until `close()`. Commits by itself at the cutover only."""
        while not self._closed:
            record = self.poll()
            if record is not None:
                yield record
            elif self.waits_for_commit:
                self.commit()

    @property
    def waits_for_commit(self) -> bool:
        """Whether no record is returned before a commit: the remote topic has been returned up to its cutover, or a
        rebalance has invalidated the returned records."""
        member = self._member
        if self._lost or (self._returned and self._held):
            return True
        if member is None or self._queue or not member.held or not self._returned:
            return False
        cutover = self._plan.cutover
        return any(
            p.topic == self._plan.remote and p.partition < len(cutover) and self._ends[p] >= cutover[p.partition]
            for p in self._ends
        )

    @property
    def active(self) -> Active | None:
        """The cluster this consumer reads from; None before the first poll, or when it follows no pointer."""
        return self._active

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return self._member.assigned if self._member is not None else frozenset()

    @property
    def held(self) -> frozenset[TopicPartition]:
        """The local partitions that wait for the remote topic."""
        return self._member.held if self._member is not None else frozenset()

    # -- committing ------------------------------------------------------------------------------------------------

    def commit(self, timeout_s: float = 30.0) -> CommitOutcome:
        """Commit all returned records, and wait for the answer.

        ACKED: they are not delivered again. REFUSED: the group has rebalanced or the pointer has moved, and the records since
        the last ACKED are delivered again: here, to another member or, after a move, from the group's translated offsets.
        UNKNOWN: no answer within `timeout_s`, or the pointer moved meanwhile; commit again.
        """
        member = self._member
        if member is not None:
            self._check_generation(member)
            if not self._still_here():  # else who commits until there is an answer would never join at the new cluster
                self._leave()
                member = None
        if self._lost:  # all uncommitted records are refused together: an application must not keep a part
            if member is not None:
                member.rewind(Batch((), dict(self._starts), {}, self._generation))
            self._forget()
            return CommitOutcome.REFUSED
        if member is None:
            return CommitOutcome.ACKED
        positions = self._positions()
        if not positions:
            return CommitOutcome.ACKED
        batch = Batch((), dict(self._starts), positions, self._generation)
        try:
            outcome = member.commit(batch, deadline_s=timeout_s, waiting=self._still_here)
        except KafkaException as error:  # of a rebalance meanwhile
            self._fall_out(error)
            return CommitOutcome.UNKNOWN
        if outcome is CommitOutcome.REFUSED or member.generation != self._generation:
            self._forget()
        elif outcome is CommitOutcome.ACKED:
            self._returned.clear()
            self._starts = {}
            for record in self._queue:
                self._starts.setdefault(record.partition, record.offset)
            self._ends = {p: end for p, end in self._ends.items() if p in self._starts}
        return outcome

    def committed(self) -> dict[TopicPartition, int]:
        """The group's committed offsets in this member's partitions. Raises `Unreachable`, `ClusterRefused`."""
        if self._member is None:
            return {}
        try:
            return self._member.committed(self._member.assigned)
        except KafkaException as error:
            raise as_drlib_error(error, self._where(), f"reading the committed offsets of {self.group}") from error

    def close(self) -> None:
        """Leave the group without a commit."""
        self._closed = True
        self._leave()

    # -- the records between polling and committing ----------------------------------------------------------------

    def _forget(self) -> None:
        """Drop the polled, uncommitted records; they are delivered again."""
        self._queue.clear()
        self._returned.clear()
        self._starts.clear()
        self._ends.clear()
        self._generation = self._member.generation if self._member is not None else 0
        self._lost = False

    def _fill(self, member: OrderedMember) -> None:
        if self._queue:
            if time.monotonic() - self._served > _SERVE_S:
                self._served = time.monotonic()
                member.serve()
        elif (batch := member.poll()) is not None:
            self._check_generation(member)
            self._queue.extend(batch.records)
            for partition, start in batch.starts.items():
                self._starts.setdefault(partition, start)
            self._ends.update(batch.positions)
            # control records only: the application has nothing to commit
            if not (self._queue or self._returned or self._lost):
                self.commit()
        self._check_generation(member)

    def _check_generation(self, member: OrderedMember) -> None:
        if member.generation != self._generation:
            self._lose()

    def _lose(self) -> None:
        lost = self._lost or bool(self._returned)
        self._forget()
        self._lost = lost

    def _next_record(self) -> Record:
        record = self._queue.popleft()
        self._returned[record.partition] = record.offset + 1
        return record

    def _positions(self) -> dict[TopicPartition, int]:
        queued = {record.partition for record in self._queue}
        return {
            partition: self._returned[partition] if partition in queued else end
            for partition, end in self._ends.items()
            if partition not in queued or partition in self._returned
        }

    # -- which cluster ---------------------------------------------------------------------------------------------

    def _holds_back(self) -> bool:
        """Whether the pointer holds. Then no record is returned, and once the application has committed, the consumer leaves
        the group, whose offsets are final."""
        self._held = self._follows is not None and self._follows.current().pointer.hold
        if self._held and self._member is not None:
            if self._returned or self._lost:
                self._member.serve()
                self._check_generation(self._member)
            else:
                self._leave()
        return self._held

    def _joined(self) -> OrderedMember | None:
        """The member at the active cluster, a new one when the pointer has moved; None while it cannot connect."""
        plan, active = self._fixed, None
        if self._follows is not None:
            active = self._follows.current()
            if active is self._active and self._member is not None:
                return self._member
            plan = read_plan(active.pointer, self.topic, self._scope)
        moved = active is not None and (self._active is None or active.alias != self._active.alias)
        if self._member is not None and (moved or plan != self._plan):
            self._leave()
        self._active = active
        if self._member is None:
            if active is not None:
                connect.check_login(active.cluster, _LOGIN_S)
            connection = self._connection if active is None else active.config()
            self._plan = plan
            try:
                self._member = OrderedMember(
                    {**connection, **self._settings},
                    self.group,
                    plan,
                    isolation=self._isolation,
                    max_batch=self._max_batch,
                )
            except KafkaException as error:
                self._fall_out(error)
                return None
            self._generation = self._member.generation
        return self._member

    def _still_here(self) -> bool:
        return self._follows is None or self._active is None or self._follows.current().alias == self._active.alias

    def _leave(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            self._lose()
            with contextlib.suppress(KafkaException):
                member.close(_LEAVE_S)

    def _fall_out(self, error: KafkaException) -> None:
        """Leave the group and join again later if the cluster did not answer. Raises a refusal."""
        reason = as_drlib_error(error, self._where(), f"reading {self.topic} as {self.group}")
        self._leave()
        if not reason.retriable:
            raise reason from error
        _LOG.warning("%s", reason)

    def _where(self) -> ClusterSettings:
        if self._active is not None:
            return self._active.cluster
        servers = str(self._connection.get("bootstrap.servers", "")).split(",")
        return ClusterSettings("the cluster", tuple(servers))
