"""The consuming application: a member of a group that processes a record exactly once, across a move as well.

Rules: poll a batch, commit its end, and count its records as processed only after the coordinator's acknowledgement; records
and commit go into the history in one write. After a move the group continues on the new cluster: first the remote topic from
the translated position to the cutover, then the local topic. A batch with an unanswered commit when the pointer moved is
settled by the group's position on the new cluster: records before it were committed, later ones will be delivered again.
A record's time is when its commit was acknowledged; after a rebalance or a move, when it was sent, as another member may have
continued behind it before this one learns of it.
While the pointer holds, the member has committed its batch and left the group, so that a planned move finds final positions.
An application that parses values stops at the first one that it cannot parse; the records before it are processed.
Not for: translating positions; that is done before the pointer moves.

Run as `python -m drlib.lab.apps.consumer SPEC.json`.
"""

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import KafkaException

from drlib import decoding
from drlib.client.ordered_member import Batch, CommitOutcome, OrderedMember
from drlib.client.pointer import Pointer
from drlib.client.read_plan import ReadPlan
from drlib.clock import now_ms
from drlib.formats import one_line
from drlib.kafka.admin.descriptions import Record
from drlib.lab.apps import specs
from drlib.lab.apps.in_doubt import find_on_mirror, mirror_of
from drlib.lab.apps.pacing import Pace
from drlib.lab.apps.process import StatusFile, Stop, run_app
from drlib.lab.checker.history import CommitStatus, Committed, Consumed, Mirrored
from drlib.lab.checker.history_files import HistoryWriter
from drlib.lab.checker.scan import number, text
from drlib.lab.connection import connection
from drlib.model import TopicPartition
from drlib.outgoing.terminal import show

_SILENT_S = 1.0
_LAST_ANSWER_S = 1.5
_HELD_S = 0.02
_STUCK_S = 0.2
_BATCH_S = 0.25  # collect a batch this long: applications commit a few times a second


@dataclass(frozen=True, slots=True)
class Doubt:
    """A batch polled at `cluster` with an unanswered commit of `positions`, first sent at `sent_ms`."""

    cluster: str
    records: tuple[Record, ...]
    positions: Mapping[TopicPartition, int]
    sent_ms: int


def processed_in_doubt(
    records: Iterable[Record], mirrored: Mapping[str, Mirrored], positions: Mapping[int, int]
) -> tuple[Record, ...]:
    """The records of an unanswered commit that count as processed on the new cluster.

    `mirrored`: their places in the remote topic, by id; `positions`: the group's positions in it, by partition. A record before
    the position will not be delivered again; one at or after it will, and then the commit was not applied. A record that the
    mirror never had will not be delivered either: it counts as processed if the commit was applied.
    """
    batch = tuple(records)
    copies = {r: mirrored.get(record_id(r)) for r in batch}
    before = {r for r, copy in copies.items() if copy is not None and copy.offset < positions.get(copy.partition, 0)}
    taken = all(copy is None or r in before for r, copy in copies.items())
    return tuple(r for r in batch if r in before or (taken and copies[r] is None))


def read_plan(spec: specs.ConsumerSpec, pointer: Pointer) -> ReadPlan:
    """The read plan of this application; librdkafka treats a name that begins with ^ as a pattern."""
    if spec.pattern is not None:
        return ReadPlan(f"^{spec.pattern}$")
    remote = pointer.remote_topic(spec.topic)
    if remote is None:
        return ReadPlan(spec.topic, scope=spec.scope)
    return ReadPlan(spec.topic, remote, pointer.cutover.get(remote, ()), spec.scope)


def readable(batch: Batch) -> tuple[Batch, Record | None]:
    """The part of `batch` before the first value of each partition that is not JSON, and the first such record."""
    stuck: dict[TopicPartition, Record] = {}
    for record in batch.records:
        if record.partition not in stuck and not is_json(record.value):
            stuck[record.partition] = record
    if not stuck:
        return batch, None
    before = tuple(r for r in batch.records if r.partition not in stuck or r.offset < stuck[r.partition].offset)
    positions = {p: stuck[p].offset if p in stuck else position for p, position in batch.positions.items()}
    return replace(batch, records=before, positions=positions), next(iter(stuck.values()))


def is_json(value: bytes | None) -> bool:
    """Whether an application that expects JSON can parse `value`; a tombstone has none."""
    if value is None:
        return True
    try:
        decoding.json_value(value)
    except ValueError:
        return False
    return True


def record_id(record: Record) -> str:
    return text(dict(record.headers).get("id"))


class ConsumerRun:
    """One run of the application."""

    def __init__(self, spec: specs.ConsumerSpec, stop: Stop, history: HistoryWriter) -> None:
        self._spec = spec
        self._stop = stop
        self._history = history
        self._watcher = specs.watcher(spec)
        self._status = StatusFile(f"consumer:{spec.group}", spec.status)
        self._rate = spec.records_per_second
        self._done = 0
        self._doubt: Doubt | None = None
        self._asked_to_stop = 0.0

    def run(self) -> None:
        pointer = self._watcher.wait(self._spec.pointer_deadline_s, self._stop)
        while pointer is not None and not self._stop():
            if pointer.hold:  # the group was left, so that its positions are final
                self._status.report("holding", pointer.active, pointer.version, self._done)
                self._stop.wait(_HELD_S)
                pointer = self._moved(pointer)
                continue
            try:
                self._on_one_cluster(pointer)
            except KafkaException as error:  # the cluster went away while the group was being joined
                show(one_line(f"{self._spec.group}: {error.args[0].str()}; joining again"), error=True)
                self._stop.wait(0.1)
            pointer = self._moved(pointer)
        if pointer is not None:
            self._status.report("stopped", pointer.active, pointer.version, self._done)

    def _moved(self, pointer: Pointer) -> Pointer:
        """The newest pointer."""
        newest = self._watcher.current() or pointer
        if newest.elsewhere(pointer):
            self._status.report("moving", newest.active, newest.version, self._done)
            if self._spec.after_move_records_per_second is not None:
                self._rate = self._spec.after_move_records_per_second
        return newest

    def _on_one_cluster(self, pointer: Pointer) -> None:
        remote = mirror_of(pointer, self._spec.topic)
        max_batch = self._spec.max_batch
        if self._rate > 0:  # about four batches a second
            max_batch = max(1, min(max_batch, int(self._rate * _BATCH_S)))
        configuration = {
            **connection(specs.where(self._spec, pointer)),
            "session.timeout.ms": self._spec.session_timeout_ms,
            "heartbeat.interval.ms": min(
                3000, self._spec.session_timeout_ms // 4
            ),  # the default of 3 s is too long for a short session
            "topic.metadata.refresh.interval.ms": int(self._spec.refresh_topics_s * 1000),
        }
        plan = read_plan(self._spec, pointer)
        consumer = OrderedMember(configuration, self._spec.group, plan, max_batch=max_batch, poll_s=_BATCH_S)
        try:
            if self._doubt is not None and self._doubt.cluster != pointer.active:
                self._settle(consumer, pointer, self._doubt, remote)
            elif self._doubt is not None:
                self._settle_here(consumer, self._doubt)
            self._read(consumer, pointer)
        finally:
            consumer.close(1.0)

    def _read(self, consumer: OrderedMember, pointer: Pointer) -> None:
        pace = Pace(self._rate)
        last_record_s = time.monotonic()
        while self._may_poll(pointer):
            waiting = time.monotonic() - last_record_s > _SILENT_S
            self._status.report("waiting" if waiting else "running", pointer.active, pointer.version, self._done)
            if pace.due() <= 0:
                self._stop.wait(0.01)
                continue
            batch = consumer.poll()
            if batch is None:
                pace.forgive()
                continue
            stuck = None
            if self._spec.parse:
                batch, stuck = readable(batch)
            last_record_s = time.monotonic()
            sent_ms = now_ms()
            try:
                outcome = consumer.commit(batch, deadline_s=3600.0, waiting=lambda: self._awaits_answer(pointer))
            except KafkaException:  # it may be committed: the next member finds out
                self._in_doubt(pointer, batch, sent_ms)
                raise
            match outcome:
                case CommitOutcome.ACKED:
                    pace.count(len(batch.records))
                    at_ms = now_ms() if consumer.generation == batch.generation else sent_ms
                    self._processed(pointer.active, batch.records, batch.positions, CommitStatus.ACKED, at_ms)
                    if stuck is not None:
                        self._stop_at(consumer, pointer, stuck)
                case CommitOutcome.UNKNOWN:
                    self._in_doubt(pointer, batch, sent_ms)
                case CommitOutcome.REFUSED:
                    pass  # it will be delivered again, here or to another member

    def _in_doubt(self, pointer: Pointer, batch: Batch, sent_ms: int) -> None:
        self._history.append_all(self._commits(pointer.active, batch.positions, CommitStatus.UNKNOWN))
        self._doubt = Doubt(pointer.active, batch.records, batch.positions, sent_ms)

    def _stop_at(self, consumer: OrderedMember, pointer: Pointer, record: Record) -> None:
        """Stay in the group and process nothing while the record is next."""
        place = f"{record.partition.topic}-{record.partition.partition} offset {record.offset}"
        begins = (record.value or b"")[:8].hex(" ")
        show(f"{self._spec.group}: cannot process {place}: its value is not JSON, it begins with {begins}", error=True)
        while self._may_poll(pointer):
            consumer.serve()
            self._status.report("waiting", pointer.active, pointer.version, self._done)
            self._stop.wait(_STUCK_S)

    def _may_poll(self, pointer: Pointer) -> bool:
        """Whether to poll on. The pointer is read once: with two reads the first could see the hold and the second the move."""
        newest = self._watcher.current() or pointer
        replanned = read_plan(self._spec, newest) != read_plan(self._spec, pointer)  # the ends of mirrors are known now
        return not (self._stop() or newest.elsewhere(pointer) or newest.hold or replanned)

    def _still_here(self, pointer: Pointer) -> bool:
        newest = self._watcher.current() or pointer
        return not (self._stop() or newest.elsewhere(pointer))

    def _awaits_answer(self, pointer: Pointer) -> bool:
        """Whether to wait for an outstanding commit, also briefly after SIGTERM: the next process could not find out
        whether its records were processed."""
        if self._stop():
            self._asked_to_stop = self._asked_to_stop or time.monotonic()
            return time.monotonic() - self._asked_to_stop < _LAST_ANSWER_S
        return self._still_here(pointer)

    def _settle(self, consumer: OrderedMember, pointer: Pointer, doubt: Doubt, remote: str | None) -> None:
        """Resolve the batch in doubt before anything is read on the new cluster."""
        if remote is not None and doubt.records:
            oldest_ms = min(record.timestamp_ms for record in doubt.records)
            ids = {record_id(record) for record in doubt.records}
            mirrored = find_on_mirror(specs.where(self._spec, pointer), remote, ids, oldest_ms, self._stop)
            if mirrored is None:
                return
            partitions = {TopicPartition(remote, copy.partition) for copy in mirrored.values()}
            positions = {p.partition: offset for p, offset in consumer.committed(partitions).items()}
            processed = processed_in_doubt(doubt.records, mirrored, positions)
            # Where some of the batch will be delivered again, its commit was not applied.
            done = {record_id(record) for record in processed}
            again = {record.partition for record in doubt.records if record_id(record) not in done}
            ends = {r.partition: r.offset + 1 for r in processed if r.partition not in again}
            self._processed(doubt.cluster, processed, ends, CommitStatus.RESOLVED, doubt.sent_ms)
        self._doubt = None

    def _settle_here(self, consumer: OrderedMember, doubt: Doubt) -> None:
        """Resolve it on its own cluster, after another client of this application had to be made: it counts as processed if the
        group is exactly where the commit would have put it; else it is delivered again, here or to another member."""
        if consumer.committed(doubt.positions.keys()) == doubt.positions:
            self._processed(doubt.cluster, doubt.records, doubt.positions, CommitStatus.RESOLVED, doubt.sent_ms)
        self._doubt = None

    def _processed(
        self,
        cluster: str,
        records: tuple[Record, ...],
        positions: Mapping[TopicPartition, int],
        status: CommitStatus,
        at_ms: int,
    ) -> None:
        rows: list[Consumed | Committed] = []
        for record in records:
            headers = dict(record.headers)
            rows.append(
                Consumed(
                    self._spec.group,
                    cluster,
                    record.partition.topic,
                    record.partition.partition,
                    record.offset,
                    text(headers.get("id")),
                    text(record.key),
                    number(headers.get("n")),
                    at_ms,
                )
            )
        rows += self._commits(cluster, positions, status)
        self._history.append_all(rows)
        self._done += len(records)

    def _commits(self, cluster: str, positions: Mapping[TopicPartition, int], status: CommitStatus) -> list[Committed]:
        at_ms = now_ms()
        return [
            Committed(self._spec.group, cluster, p.topic, p.partition, position, at_ms, status)
            for p, position in positions.items()
        ]


def run(path: Path, stop: Stop) -> None:
    """Run the application that a spec file describes. Raises `UsageError`, `Unreachable`."""
    spec = specs.load(path, specs.ConsumerSpec)
    with HistoryWriter(Path(spec.history)) as history:
        ConsumerRun(spec, stop, history).run()


if __name__ == "__main__":
    sys.exit(run_app(sys.argv[1:], run))
