"""One drill at a time on a flow: a lease held on the flow's TARGET cluster, by membership of a consumer group.

Rules: whoever owns partition 0 of `drlib.drills.internal` in the group `drlib.drill.<flow>` holds the lease; the group's
assignor is sticky, so a newcomer gets nothing and is refused, and a holder that died is out after `session_timeout_ms`.
The state is written in transactions of `drlib.drill.<flow>` that also commit an offset of the group (KIP-447), so the
broker refuses a write of anybody who is not a member of the group's present generation, and of a fenced producer: a
holder that was stopped and wakes up writes nothing. The consumer and the producer live on one thread. Given back on every
way out; a lease that was lost stays lost.
Not for: what a state may become (`drlib.rules.drill_states`).
"""

from __future__ import annotations

import getpass
import os
import queue
import socket
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition

from drlib.clusters.cluster import Cluster
from drlib.clusters.descriptions import Isolation, Range
from drlib.clusters.faults import as_drlib_error
from drlib.config.settings import ClusterSettings
from drlib.errors import DrlibError, LeaseHeld, Unreachable
from drlib.model import Flow, TopicPartition
from drlib.rules import drill_lease
from drlib.rules.drill_lease import Holder, LeaseRecord
from drlib.rules.drill_states import DrillState

SESSION_TIMEOUT_MS: Final = 10_000
_WRITE_S: Final = 15.0
_POLL_S: Final = 0.05
_PARTITION: Final = TopicPartition(drill_lease.TOPIC, drill_lease.PARTITION)


class LeaseLost(LeaseHeld):
    """It was held, and is not any more: somebody else may hold it now."""

    def __init__(self, flow: Flow, why: str) -> None:
        super().__init__(
            f"the lease of {flow} was lost", why, "Nothing more was touched. See who holds it, then resume the run."
        )


def read_record(cluster: Cluster, flow: Flow) -> LeaseRecord:
    """What the cluster knows of `flow`: the last committed record, whoever holds the lease."""
    if drill_lease.TOPIC not in cluster.topics([drill_lease.TOPIC]):
        return LeaseRecord()
    start = cluster.log_starts([_PARTITION])[_PARTITION]
    end = cluster.log_ends([_PARTITION], Isolation.READ_COMMITTED)[_PARTITION]
    value: bytes | None = None
    for record in cluster.read({_PARTITION: Range(start, end)}):
        if record.key == drill_lease.key(flow):
            value = record.value
    return drill_lease.decode(value, flow)


@dataclass(slots=True)
class _Write:
    record: LeaseRecord
    done: Future[None] = field(default_factory=Future)


class Lease:
    """`with Lease(target, flow, run_id) as lease:`. Entering raises `LeaseHeld` when somebody holds it.

    `wait_s`: how long to wait for a holder to go, such as one that was killed and is still in the group.
    """

    def __init__(
        self,
        target: ClusterSettings,
        flow: Flow,
        run_id: str,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        wait_s: float = 0.0,
    ) -> None:
        self.flow = flow
        self._target = target
        self._run = run_id
        self._session_ms = session_timeout_ms
        self._wait_s = wait_s
        self._me = Holder(host=socket.gethostname(), pid=os.getpid(), user=getpass.getuser())
        self._record = LeaseRecord()
        self._requests: queue.Queue[_Write] = queue.Queue()
        self._stop = threading.Event()
        self._lost = ""
        self._thread: threading.Thread | None = None
        self._producer: Any = None

    @property
    def state(self) -> DrillState:
        return self._record.state

    @property
    def run_id(self) -> str:
        """The run that `state` is about; empty when there was none."""
        return self._record.run

    def __enter__(self) -> Self:
        doing = f"taking the lease of {self.flow}"
        try:
            with Cluster(self._target) as cluster:
                cluster.create_topic(drill_lease.TOPIC, 1, -1, {"cleanup.policy": "compact"})
                self._until_nobody(cluster)
                joined: Future[bool] = Future()
                self._thread = threading.Thread(target=self._hold, args=[joined], name="drill-lease", daemon=True)
                self._thread.start()
                if not joined.result(self._session_ms / 1000 + 30):
                    raise self._held(cluster)
                self._record = read_record(cluster, self.flow)  # after the producer fenced whoever wrote before
                self._write(self._record.model_copy(update={"holder": self._me}))
        except TimeoutError:
            self._leave()
            raise Unreachable(
                doing, "the group gave no answer", f"Look at the brokers of {self._target.alias}."
            ) from None
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._lost:
                self._write(self._record.model_copy(update={"holder": None}))
        except DrlibError:
            pass  # the record still names us; membership, which is the lease, ends below
        finally:
            self._leave()

    def confirm(self) -> None:
        """Raises `LeaseLost` when it is not held any more: the broker is asked, by writing the state once more."""
        self._write(self._record)

    def write(self, state: DrillState) -> None:
        """Say where the flow stands now. Raises `LeaseLost`."""
        now = int(time.time() * 1000)
        self._write(LeaseRecord(state=state, run=self._run, holder=self._me, since_ms=now))

    def _write(self, record: LeaseRecord) -> None:
        request = _Write(record)
        if self._lost:
            raise LeaseLost(self.flow, self._lost)
        self._requests.put(request)
        try:
            request.done.result(_WRITE_S + 5)
        except TimeoutError:
            raise LeaseLost(self.flow, "nobody confirmed it in time") from None
        self._record = record

    # -- before joining --------------------------------------------------------------------------------------------

    def _until_nobody(self, cluster: Cluster) -> None:
        """Nobody who is a member is disturbed by a newcomer that would not get the lease anyway."""
        end = time.monotonic() + self._wait_s
        while cluster.group_members(drill_lease.group(self.flow)):
            if time.monotonic() >= end:
                raise self._held(cluster)
            time.sleep(_POLL_S * 2)

    def _held(self, cluster: Cluster) -> LeaseHeld:
        record = read_record(cluster, self.flow)
        who = str(record.holder) if record.holder else "somebody who has not said so yet"
        return LeaseHeld(
            f"{self.flow} is held",
            f"{who} holds it for run {record.run or 'that begins'}, and it is {record.state}",
            f"Wait for it to end. A holder that died is out after {self._session_ms / 1000:g} s.",
        )

    # -- on the thread ---------------------------------------------------------------------------------------------

    def _hold(self, joined: Future[bool]) -> None:
        """Be a member until told to stop. `joined` becomes whether the partition is ours."""
        assigned: list[bool] = []

        def on_assign(_: Any, partitions: list[Any]) -> None:
            if partitions or not assigned:
                assigned.append(bool(partitions))

        def gone(_: Any, partitions: list[Any]) -> None:
            if partitions and not self._stop.is_set():
                self._lost = self._lost or "the group gave it to somebody else, as nothing was heard of us"

        consumer = None
        try:
            consumer = Consumer(
                {
                    **self._target.confluent(),
                    "group.id": drill_lease.group(self.flow),
                    "partition.assignment.strategy": "cooperative-sticky",
                    "session.timeout.ms": self._session_ms,
                    "heartbeat.interval.ms": max(200, self._session_ms // 10),
                    "max.poll.interval.ms": max(60_000, self._session_ms),
                    "enable.auto.commit": False,
                    "auto.offset.reset": "latest",
                    "log_level": 0,
                    "error_cb": _ignore,
                }
            )
            consumer.subscribe([drill_lease.TOPIC], on_assign=on_assign, on_revoke=gone, on_lost=gone)
            while not assigned and not self._stop.is_set():
                consumer.poll(_POLL_S)
            if not assigned or not assigned[0]:
                joined.set_result(False)
                return
            self._fence()
            joined.set_result(True)
            while not self._stop.is_set() or not self._requests.empty():
                consumer.poll(_POLL_S)
                self._serve(consumer)
        except KafkaException as error:
            found = as_drlib_error(error, self._target, f"holding the lease of {self.flow}")
            self._lost = self._lost or str(found)
            if not joined.done():
                joined.set_exception(found)
        finally:
            self._lost = self._lost or ("" if self._stop.is_set() else "its thread ended")
            while not self._requests.empty():
                self._requests.get().done.set_exception(LeaseLost(self.flow, self._lost))
            if consumer is not None:
                consumer.close()
            self._producer = None

    def _fence(self) -> None:
        """A new producer: whoever wrote for this flow before is fenced from now on."""
        self._producer = Producer(
            {
                **self._target.confluent(),
                "transactional.id": drill_lease.group(self.flow),
                "transaction.timeout.ms": 10_000,
                "log_level": 0,
                "error_cb": _ignore,
            }
        )
        self._producer.init_transactions(_WRITE_S)

    def _serve(self, consumer: Any) -> None:
        """Write what was asked for; what the broker refuses is tried again only while the group says it is ours."""
        try:
            request = self._requests.get_nowait()
        except queue.Empty:
            return
        end = time.monotonic() + _WRITE_S
        while True:
            if self._lost:
                return request.done.set_exception(LeaseLost(self.flow, self._lost))
            try:
                self._commit(consumer, request.record)
            except KafkaException as error:
                if time.monotonic() > end:
                    self._lost = f"the state could not be written: {error.args[0].str()}"
                    continue
                self._recover(consumer, error)
            else:
                return request.done.set_result(None)

    def _commit(self, consumer: Any, record: LeaseRecord) -> None:
        self._producer.begin_transaction()
        self._producer.produce(drill_lease.TOPIC, record.encode(), drill_lease.key(self.flow), drill_lease.PARTITION)
        mark = [ConfluentTopicPartition(drill_lease.TOPIC, drill_lease.PARTITION, 0)]
        self._producer.send_offsets_to_transaction(mark, consumer.consumer_group_metadata(), 5)
        self._producer.commit_transaction(5)

    def _recover(self, consumer: Any, error: KafkaException) -> None:
        """Let the group say whether it still is ours, and make the producer able to begin again."""
        fatal = error.args[0].fatal()
        heard = time.monotonic() + (3 * max(0.2, self._session_ms / 10_000) if fatal else 0.3)
        while time.monotonic() < heard and not self._lost:
            consumer.poll(_POLL_S)
        if self._lost:
            return
        if fatal:
            self._fence()
        elif error.args[0].txn_requires_abort():
            self._producer.abort_transaction(5)

    def _leave(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(20)


def _ignore(_: object) -> None:
    """librdkafka's own view of its connections: every call reports its own failure."""
