"""A consumer for applications that keeps every key in order across a move: `poll()` and `commit()` as in confluent-kafka.

Rules:
- The remote topic is read up to the cutover that the pointer names, then the local topic; see `drlib.client.ordered_member`.
- Nothing is committed unasked, but for what holds no records. So the local topic waits for the application's commit at
  the cutover: `waits_for_commit` says so, and iterating commits there, as asking for the next record means that those
  before are done.
- Handed out and not committed comes again: after a crash, a rebalance, a refused commit or a move. What `commit()`
  called ACKED never does.
- With an `ActiveCluster` it follows the pointer: on a newer word it leaves the old cluster and joins its group anew. While
  the pointer holds, nothing is handed out, and the group is left as soon as what was handed out is committed. A
  pointer that names mirrored topics but no cutover for this one is refused, for any guess would lose or disorder.
Not for: producers; nor positions on the new cluster, which are translated before the pointer moves.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaException

from drlib.client.active_cluster import Active, ActiveCluster
from drlib.client.ordered_member import Batch, CommitOutcome, OrderedMember
from drlib.client.pointer import Pointer
from drlib.client.read_plan import ReadPlan, Scope
from drlib.errors import UsageError
from drlib.kafka.admin import login_check as preflight
from drlib.kafka.admin.descriptions import Isolation, Record
from drlib.kafka.admin.errors import as_drlib_error
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition

_LOG: Final = logging.getLogger("drlib.ordered")
_SERVE_S: Final = 0.5  # how often a busy application takes part in its group's rebalances
_LEAVE_S: Final = 1.0  # leaving a dead cluster only costs time
_JOIN_AGAIN_S: Final = 0.2
_LOGIN_S: Final = 5.0


def read_plan(pointer: Pointer, topic: str, scope: Scope) -> ReadPlan:
    """What the pointer means for `topic`. Raises `UsageError` when it leaves open where the remote topic ends."""
    remote = pointer.remote_topic(topic)
    if remote is None:
        return ReadPlan(topic)
    if remote not in pointer.cutover:
        raise UsageError(
            f"the pointer (version {pointer.version}) leaves open where {remote} ends",
            f"it names topics {pointer.remote_prefix}* and no cutover for this one",
            f"Publish it with a cutover for {remote}: a position for each partition, none if it was never mirrored.",
        )
    cutover = pointer.cutover[remote]
    return ReadPlan(topic, remote, cutover, scope) if cutover else ReadPlan(topic)


class OrderedConsumer:
    """A member of `group` that reads `topic` at the active cluster. A context manager; iterating yields its records.

    `at`: an `ActiveCluster`, which is followed, or a confluent-kafka configuration of one cluster; then `remote` and
    `cutover` say what is to be read first. `settings` are more of librdkafka's, such as `session.timeout.ms`. All members
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
                f"there is no scope {scope}", "a topic is opened whole or by partition", "Use topic or partition."
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
                "a pointer says that itself, and without one the cutover must be given",
                "Give remote and cutover together, or an ActiveCluster alone.",
            )
        self._active: Active | None = None  # which the member was made for
        self._plan = self._fixed
        self._member: OrderedMember | None = None
        self._closed = False
        self._served = 0.0
        self._queue: deque[Record] = deque()  # polled and not handed out
        self._handed: dict[TopicPartition, int] = {}  # the position after what was handed out and not committed
        self._starts: dict[TopicPartition, int] = {}  # where what is not committed begins
        self._ends: dict[TopicPartition, int] = {}  # the position after all that was polled and is not committed
        self._generation = 0
        self._held = False  # the pointer holds everybody back
        self._lost = False  # something was handed out before a rebalance or a move, and not committed

    # -- reading ---------------------------------------------------------------------------------------------------

    def poll(self, timeout_s: float = 1.0) -> Record | None:
        """The next record, or None when none came within `timeout_s` seconds; it may also be none because a cluster
        is away, the pointer holds, or the local topic waits for a commit.

        Raises `UsageError`, `ClusterRefused` for what does not heal by itself.
        """
        until = time.monotonic() + timeout_s
        while not self._closed:
            member = None if self._holds_back() else self._joined()
            if member is None:
                time.sleep(max(0.0, min(_JOIN_AGAIN_S, until - time.monotonic())))
            else:
                try:
                    self._fill(member)
                except KafkaException as error:
                    self._fall_out(error)
                if self._queue:
                    return self._hand_out()
            if time.monotonic() >= until:
                break
        return None

    def __iter__(self) -> Iterator[Record]:
        """Records without end, until `close()`. Commits by itself at the cutover only."""
        while not self._closed:
            record = self.poll()
            if record is not None:
                yield record
            elif self.waits_for_commit:
                self.commit()

    @property
    def waits_for_commit(self) -> bool:
        """Does nothing more come before a commit? So it is when the remote topic has been handed out to its cutover, and
        after a rebalance that took back what was handed out."""
        member = self._member
        if self._lost or (self._handed and self._held):
            return True
        if member is None or self._queue or not member.held or not self._handed:
            return False
        cutover = self._plan.cutover
        return any(
            p.topic == self._plan.remote and p.partition < len(cutover) and self._ends[p] >= cutover[p.partition]
            for p in self._ends
        )

    @property
    def active(self) -> Active | None:
        """Which cluster this consumer reads at; None before the first poll, or when it follows no pointer."""
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
        """Commits everything handed out, and waits for the answer.

        ACKED: none of it comes again. REFUSED: the group or the pointer has moved on, and what was handed out since the
        last ACKED comes again, here, at another member, or, after a move, where the group's translated positions say.
        UNKNOWN: nobody answered within `timeout_s`, or the pointer moved meanwhile; commit again.
        """
        member = self._member
        if member is not None:
            self._check_generation(member)
        if self._lost:  # what was handed out since goes with it: an application that hears no must not keep a part
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
        outcome = member.commit(batch, deadline_s=timeout_s, waiting=self._still_here)
        if outcome is CommitOutcome.REFUSED or member.generation != self._generation:
            self._forget()
        elif outcome is CommitOutcome.ACKED:
            self._handed.clear()
            self._starts = {}
            for record in self._queue:
                self._starts.setdefault(record.partition, record.offset)
            self._ends = {p: end for p, end in self._ends.items() if p in self._starts}
        return outcome

    def committed(self) -> dict[TopicPartition, int]:
        """The group's positions in the partitions this member has. Raises `Unreachable`, `ClusterRefused`."""
        if self._member is None:
            return {}
        try:
            return self._member.committed(self._member.assigned)
        except KafkaException as error:
            raise as_drlib_error(error, self._where(), f"reading the positions of {self.group}") from error

    def close(self) -> None:
        """Leaves the group; commits nothing."""
        self._closed = True
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the records between polling and committing ----------------------------------------------------------------

    def _forget(self) -> None:
        """Drops what was polled and not committed; it comes again."""
        self._queue.clear()
        self._handed.clear()
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
            if not (
                self._queue or self._handed or self._lost
            ):  # only control records: nothing the application could wait for
                self.commit()
        self._check_generation(member)

    def _check_generation(self, member: OrderedMember) -> None:
        if member.generation != self._generation:
            self._lose()

    def _lose(self) -> None:
        lost = self._lost or bool(self._handed)
        self._forget()
        self._lost = lost

    def _hand_out(self) -> Record:
        record = self._queue.popleft()
        self._handed[record.partition] = record.offset + 1
        return record

    def _positions(self) -> dict[TopicPartition, int]:
        queued = {record.partition for record in self._queue}
        return {
            partition: self._handed[partition] if partition in queued else end
            for partition, end in self._ends.items()
            if partition not in queued or partition in self._handed
        }

    # -- which cluster ---------------------------------------------------------------------------------------------

    def _holds_back(self) -> bool:
        """Does the pointer hold? Then nothing more is handed out, and once the application has committed what it has the
        group is left: its positions are final."""
        self._held = self._follows is not None and self._follows.current().pointer.hold
        if self._held and self._member is not None:
            if self._handed or self._lost:
                self._member.serve()
                self._check_generation(self._member)
            else:
                self._leave()
        return self._held

    def _joined(self) -> OrderedMember | None:
        """The member at the active cluster, made anew when the pointer has moved; None while it cannot be made."""
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
                _check_login(active.cluster)
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
        """Joins again later where nobody answered. Raises what is a refusal."""
        told = as_drlib_error(error, self._where(), f"reading {self.topic} as {self.group}")
        self._leave()
        if not told.retriable:
            raise told from error
        _LOG.warning("%s", told)

    def _where(self) -> ClusterSettings:
        if self._active is not None:
            return self._active.cluster
        servers = str(self._connection.get("bootstrap.servers", "")).split(",")
        return ClusterSettings("the cluster", tuple(servers))


def _check_login(cluster: ClusterSettings) -> None:
    """librdkafka would try a refused login for ever. Raises `SecurityFault`."""
    if cluster.secured and (found := preflight.explain_refusal(cluster, _LOGIN_S)) is not None:
        raise found
