"""One drill at a time on a flow: a lease held on the flow's TARGET cluster, by membership of a consumer group.

Rules: the member that owns partition 0 of `drlib.drills.internal` in the group `drlib.drill.<flow>` holds the lease; its
assignor is sticky, so a newcomer gets nothing and is refused, and a holder that died is out after `session_timeout_ms`: longer
than the steps of its plan keep the target from answering.
The state is written in transactions of the transactional ID `drlib.drill.<flow>`, which every new holder takes over: one
that was stopped and wakes up is fenced by the broker and writes nothing. A run that supersedes the holder removes it from the
group, which its heartbeat reports to it within a second: what it does is stopped then (`lost`). The new owner of the ID asks
the broker once more whether the partition still is its own, in case it slept between the two. The consumer and the producer
live on one thread. Given back on every way out; a lease that was lost stays lost. A target that does not answer is no other
holder: it is asked before that is said.
Not for: what a state may become (`drlib.drill.plan.states`), and fencing what a step does to clusters: `confirm` before a
step says that no other run had taken over by then.
"""

import os
import queue
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaException

from drlib import clock
from drlib.drill.flow_state import lease_holder
from drlib.drill.flow_state.flow_record import read_opposite, read_record
from drlib.drill.plan import lease_record as drill_lease
from drlib.drill.plan.lease_record import Holder, LeaseRecord, Superseded
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import DrillState
from drlib.drill.plan.supersede import Beginning
from drlib.errors import DrlibError, LeaseHeld, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import QUIET, librdkafka
from drlib.kafka.admin.errors import as_drlib_error
from drlib.kafka.admin.transactions import transactional_producer
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import SecurityFault
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import user_name

_WRITE_S: Final = 15.0
_TRY_S: Final = 5.0  # for one call of the producer
_ASK_S: Final = 5.0  # for the target to say that it answers, where the lease was lost
_OPEN_MS: Final = 30_000  # of a transaction: longer than its coordinator takes to move
_POLL_S: Final = 0.05
__all__ = ["Lease", "LeaseLost", "LeaseUnconfirmed", "read_record"]
_PARTITION: Final = TopicPartition(drill_lease.TOPIC, drill_lease.PARTITION)


class LeaseLost(LeaseHeld):
    """It was held, and is not any more: another run may hold it now."""

    def __init__(self, flow: Flow, why: str) -> None:
        super().__init__(
            f"the lease of {flow} was lost",
            why,
            "Nothing was changed after that. See who holds it.",
        )


class LeaseUnconfirmed(Unreachable):
    """It was held, and the target does not answer: whether it still is held is unknown. No other run is known to hold it."""

    def __init__(self, flow: Flow, why: str, answer: DrlibError) -> None:
        refused = isinstance(answer, SecurityFault)
        super().__init__(
            f"the lease of {flow} cannot be confirmed",
            f"{flow.target} {f'cannot be used: {answer.what}' if refused else 'does not answer'} ({answer.why}); {why}",
            f"Nothing was changed after that. {answer.remedy if refused else f'Wait until {flow.target} answers.'}",
        )


@dataclass(slots=True)
class _Write:
    record: LeaseRecord
    done: Future[None] = field(default_factory=Future)


class Lease:
    """`with Lease(target, flow, run_id) as lease:`. Entering raises `LeaseHeld` when another run holds it.

    `wait_s`: how long to wait for a holder to go, such as one that was killed and is still in the group. `folder` is the run's,
    to be recorded. `source` is the flow's source, which has the opposite flow's state. `new`: the run that is to begin; the
    holder is removed where that supersedes it.
    """

    def __init__(
        self,
        target: ClusterSettings,
        flow: Flow,
        run_id: str,
        *,
        session_timeout_ms: int = drill_lease.SESSION_MS,
        wait_s: float = 0.0,
        folder: Path | None = None,
        source: ClusterSettings | None = None,
        new: Beginning | None = None,
    ) -> None:
        self.flow = flow
        self._target = target
        self._run = run_id
        self._session_ms = session_timeout_ms
        self._write_s = max(_WRITE_S, session_timeout_ms / 1000)  # a lease is not given up before its session is
        self._wait_s = wait_s
        self._me = Holder(host=socket.gethostname(), pid=os.getpid(), user=user_name())
        self._folder = folder
        self._source = source
        self._new = new
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
    def record(self) -> LeaseRecord:
        """What the cluster knows of the flow."""
        return self._record

    @property
    def lost(self) -> bool:
        """Is it known that it is not held any more? No broker is asked."""
        return bool(self._lost)

    def opposite(self) -> LeaseRecord | None:
        """The record of the opposite flow, on this flow's source; None where that does not answer in time."""
        return read_opposite(self._source, self.flow)

    @property
    def run_id(self) -> str:
        """The run that `state` is about; empty when there was none."""
        return self._record.run

    def __enter__(self) -> Self:
        doing = f"taking the lease of {self.flow}"
        try:
            with Cluster(self._target) as cluster:
                cluster.create_topic(drill_lease.TOPIC, 1, -1, {"cleanup.policy": "compact"}, or_fewer=True)
                # A newcomer that would not get the lease does not disturb the member that has it.
                lease_holder.until_free(
                    cluster, self.flow, self._run, self._new, wait_s=self._wait_s, folder=self._folder
                )
                joined: Future[str] = Future()
                self._thread = threading.Thread(target=self._hold, args=[joined], name="drill-lease", daemon=True)
                self._thread.start()
                member = joined.result(self._session_ms / 1000 + 30)
                if not member or not self._owns(cluster, member):
                    raise self._refused(cluster, doing)
                self._record = read_record(cluster, self.flow)  # after the producer fenced the previous writer
                self._write(self._record.model_copy(update={"holder": self._me, "session_ms": self._session_ms}))
        except TimeoutError:
            self._leave()
            raise Unreachable(
                doing, "the group gave no answer", f"Check the brokers of {self._target.alias}."
            ) from None
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if not self._lost:
                self._write(self._record.model_copy(update={"holder": None, "session_ms": drill_lease.SESSION_MS}))
        except DrlibError:
            pass  # the record still names us; membership, which is the lease, ends below
        finally:
            self._leave()

    def confirm(self, standing: Sequence[str] | None = None) -> None:
        """Raises `LeaseLost` when it is not held any more: the broker is asked, by writing the state once more.

        `standing`: the steps whose changes may be in place from now on; as before unless given.
        """
        steps = self._record.standing if standing is None else tuple(standing)
        self._write(self._record.model_copy(update={"standing": steps}))

    def write(
        self,
        state: DrillState,
        *,
        mode: Mode | None = None,
        standing: Sequence[str] = (),
        superseded: Sequence[Superseded] | None = None,
    ) -> None:
        """Record the flow's state, by this run in `mode`; `superseded` as before unless given. Raises `LeaseLost`."""
        record = LeaseRecord(
            state=state,
            run=self._run,
            holder=self._me,
            since_ms=clock.now_ms(),
            mode=mode,
            host=self._me.host,
            folder="" if self._folder is None else str(self._folder.resolve()),
            standing=tuple(standing),
            superseded=self._record.superseded if superseded is None else tuple(superseded),
            session_ms=self._session_ms,
        )
        self._write(record)

    def _write(self, record: LeaseRecord) -> None:
        """Raises `LeaseLost`, or `LeaseUnconfirmed` where the target does not answer."""
        try:
            self._request(record)
        except LeaseLost as lost:
            raise self._explained(lost) from None

    def _explained(self, lost: LeaseLost) -> DrlibError:
        try:
            with Cluster(self._target, timeout_s=_ASK_S, together=True) as cluster:
                cluster.group_members(drill_lease.group(self.flow))
                read_record(cluster, self.flow)
        except DrlibError as error:
            return LeaseUnconfirmed(self.flow, lost.why, error)
        return lost

    def _request(self, record: LeaseRecord) -> None:
        request = _Write(record)
        if self._lost:
            raise LeaseLost(self.flow, self._lost)
        self._requests.put(request)
        until = time.monotonic() + self._write_s + 2 * _TRY_S
        while not request.done.done():
            if self._thread is None or not self._thread.is_alive():  # it takes no request that came after its end
                break
            if time.monotonic() > until:
                raise LeaseLost(self.flow, "it was not confirmed in time")
            wait([request.done], _POLL_S)
        if not request.done.done():
            raise LeaseLost(self.flow, self._lost or "its thread ended")
        request.done.result()
        self._record = record

    def _owns(self, cluster: Cluster, member_id: str) -> bool:
        members = cluster.group_members(drill_lease.group(self.flow))
        return any(m.member_id == member_id and _PARTITION in m.assignment for m in members)

    def _refused(self, cluster: Cluster, doing: str) -> DrlibError:
        if not cluster.group_members(drill_lease.group(self.flow)):
            why = "the group has no member: the one that took it was removed, as no heartbeat arrived in time"
            return Unreachable(doing, why, f"Check the brokers of {self._target.alias}, and run it again.")
        return lease_holder.held(self.flow, read_record(cluster, self.flow), self._new, self._run)

    # -- on the thread ---------------------------------------------------------------------------------------------

    def _hold(self, joined: Future[str]) -> None:
        """Be a member until asked to stop. `joined` becomes our member ID, or "" when another member has the partition."""
        assigned: list[bool] = []

        def on_assign(_: Any, partitions: list[Any]) -> None:
            if partitions or not assigned:
                assigned.append(bool(partitions))

        def gone(member: Any, partitions: list[Any]) -> None:
            if partitions and not self._stop.is_set():
                self._lost = self._lost or "this member was removed from the group, or no heartbeat arrived in time"
                member.unsubscribe()  # else librdkafka joins again, and what follows would wait for it to leave

        consumer = None
        try:
            consumer = Consumer(
                {
                    **librdkafka(self._target),
                    "group.id": drill_lease.group(self.flow),
                    "partition.assignment.strategy": "cooperative-sticky",
                    "session.timeout.ms": self._session_ms,
                    "heartbeat.interval.ms": min(1000, self._session_ms // 10),  # one that is removed stops soon
                    "max.poll.interval.ms": max(60_000, self._session_ms),
                    "enable.auto.commit": False,
                    "auto.offset.reset": "latest",
                    "log_level": 0,
                    "error_cb": _ignore,
                },
                logger=QUIET,
            )
            consumer.subscribe([drill_lease.TOPIC], on_assign=on_assign, on_revoke=gone, on_lost=gone)
            while not assigned and not self._stop.is_set():
                consumer.poll(_POLL_S)
            if not assigned or not assigned[0]:
                joined.set_result("")
                return
            self._fence()
            joined.set_result(consumer.memberid())
            while not self._lost and (
                not self._stop.is_set() or not self._requests.empty()
            ):  # lost: it must not join again
                consumer.poll(_POLL_S)
                self._serve()
        except KafkaException as error:
            refusal = as_drlib_error(error, self._target, f"holding the lease of {self.flow}")
            self._lost = self._lost or f"{refusal.what}: {refusal.why}"
            if not joined.done():
                joined.set_exception(refusal)
        finally:
            self._lost = self._lost or ("" if self._stop.is_set() else "its thread ended")
            while not self._requests.empty():
                self._requests.get().done.set_exception(LeaseLost(self.flow, self._lost))
            if consumer is not None:
                consumer.close()
            self._producer = None

    def _fence(self) -> None:
        """A new producer: the previous writer of this flow is fenced from now on."""
        config = {
            "client.id": drill_lease.CLIENT_ID,
            "transactional.id": drill_lease.group(self.flow),
            "error_cb": _ignore,
        }
        self._producer, _ = transactional_producer(self._target, config, _OPEN_MS, _WRITE_S)

    def _serve(self) -> None:
        """Write the requested state. A fenced holder has lost the lease, and one that cannot write for a while."""
        try:
            request = self._requests.get_nowait()
        except queue.Empty:
            return
        try:
            self._commit(request.record, time.monotonic() + self._write_s)
            request.done.set_result(None)
        except KafkaException as error:
            self._lost = self._lost or f"the state could not be written: {error.args[0].str()}"
            request.done.set_exception(LeaseLost(self.flow, self._lost))

    def _commit(self, record: LeaseRecord, end: float) -> None:
        """In a transaction, or in another one where it is aborted. What got no answer in time is called again until `end`: its
        coordinator may be moving to another broker. Raises KafkaException."""

        def begin() -> None:
            producer.begin_transaction()
            producer.produce(drill_lease.TOPIC, record.encode(), drill_lease.key(self.flow), drill_lease.PARTITION)

        def commit() -> None:
            producer.commit_transaction(_TRY_S)

        def abort() -> None:
            producer.abort_transaction(_TRY_S)

        producer, call = self._producer, begin
        while True:
            try:
                call()
                if call is commit:
                    return
                call = commit if call is begin else begin
            except KafkaException as error:
                inner = error.args[0]
                if inner.fatal() or time.monotonic() > end:
                    raise
                if inner.txn_requires_abort():
                    call = abort
                elif not inner.retriable():
                    raise

    def _leave(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(20)


def _ignore(_: object) -> None:
    """librdkafka's own view of its connections: every call reports its own failure."""
