"""The transactional application: a small transaction every 200 ms, every third aborted on purpose.

Rules: the headers of every record name its transaction (`tx`) and its intended outcome (`outcome`: commit or abort); a record
is acknowledged when its transaction commits. A transaction without an answer when the pointer moves is in doubt as a whole:
records that the mirror topic on the new cluster holds are not produced again. The pointer is read once before each transaction:
with two reads the first could see the hold and the second the move, and a transaction would go to the old cluster.
Not for: throughput.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drlib.client.pointer import Pointer
from drlib.client.pointer_file import PointerWatcher
from drlib.clock import now_ms
from drlib.lab.apps import flights, specs
from drlib.lab.apps.fleet import Sent, place, record_headers
from drlib.lab.apps.flights import Flight
from drlib.lab.apps.in_doubt import still_to_send
from drlib.lab.apps.process import StatusFile, Stop, abandon
from drlib.lab.checker.history import NO_OFFSET, ProducedStatus, digest
from drlib.lab.checker.history_files import HistoryWriter
from drlib.lab.clocks import MachineClock
from drlib.lab.connection import connection

_CALL_S = 0.3
_STOP_WITHIN_S = 1.5
_HELD_S = 0.01  # poll interval while the pointer holds
_WAIT_S = 0.05


class Transactions:
    """One run of the application."""

    def __init__(
        self, spec: specs.ProducerSpec, stop: Stop, history: HistoryWriter, watcher: PointerWatcher | None = None
    ) -> None:
        self._spec = spec
        self._stop = stop
        self._history = history
        self._watcher = watcher or specs.watcher(spec)
        self._status = StatusFile(f"producer:{spec.topic}", spec.status)
        self._clock = MachineClock(Path(spec.clocks) if spec.clocks else None)
        self._stopping_since: float | None = None
        self._done = 0

    def run(self) -> None:
        pointer = self._watcher.wait(self._spec.pointer_deadline_s, self._stop)
        if pointer is None:
            return
        upcoming = flights.stream(self._spec.start_at)
        numbers = count()
        doubts: list[Sent] = []
        while not self._stop():
            where = specs.where(self._spec, pointer)
            again = still_to_send(doubts, pointer, self._spec.topic, self._history, self._stop, where)
            producer = Producer(
                {
                    **connection(where),
                    "transactional.id": self._spec.transactional_id,
                    "transaction.timeout.ms": 10_000,
                    "partitioner": "murmur2_random",
                    "linger.ms": 0,
                    "reconnect.backoff.max.ms": 500,
                    "socket.timeout.ms": 5_000,
                    "log_level": 2,
                }
            )
            doubts = self._on_one_cluster(pointer, producer, again, upcoming, numbers)
            self._history.flush()
            producer.purge(in_queue=True, in_flight=True, blocking=True)
            abandon(producer.close, 0.5)
            pointer = self._watcher.current() or pointer
        self._status.report("stopped", pointer.active, pointer.version, self._done, len(doubts))

    def _on_one_cluster(
        self,
        pointer: Pointer,
        producer: Producer,
        again: list[Flight],
        upcoming: Iterator[Flight],
        numbers: Iterator[int],
    ) -> list[Sent]:
        """Produce transactions until the pointer moves or the application stops; return the records of one left in doubt."""
        if not self._call(pointer, producer.init_transactions):
            return [self._unsent(flight, pointer) for flight in again]
        next_at = time.monotonic()
        while not self._stop() and not (newest := self._watcher.current() or pointer).elsewhere(pointer):
            phase = "holding" if newest.hold else "running"
            self._status.report(phase, newest.active, newest.version, self._done)
            if newest.hold or time.monotonic() < next_at:
                self._stop.wait(_HELD_S if newest.hold else min(_WAIT_S, next_at - time.monotonic()))
                continue
            next_at = max(next_at + self._spec.tx_every_s, time.monotonic())
            number = next(numbers)
            abort = number % 3 == 2 and not again
            batch, again = (again, []) if again else (list(islice(upcoming, self._spec.tx_records)), [])
            doubts = self._produce(pointer, producer, number, batch, abort)
            if doubts:
                return doubts
        return [self._unsent(flight, pointer) for flight in again]

    def _produce(
        self, pointer: Pointer, producer: Producer, number: int, batch: list[Flight], abort: bool
    ) -> list[Sent]:
        """Produce one transaction; return its records when its end was not answered."""
        producer.begin_transaction()
        sent: list[Sent] = []
        places: dict[str, tuple[int, int]] = {}
        for flight in batch:
            headers = [
                *record_headers(flight),
                ("tx", b"%d" % number),
                ("outcome", b"abort" if abort else b"commit"),
            ]
            key, sent_ms = flight.key.encode(), now_ms()
            stamp = self._clock.at(pointer.active, sent_ms)
            sent.append(Sent(flight, sent_ms, stamp, digest(key, flight.value, headers, stamp)))
            producer.produce(
                self._spec.topic,
                value=flight.value,
                key=key,
                headers=headers,
                timestamp=stamp,
                on_delivery=partial(_placed, places, flight.id),
            )
        if abort:  # aborting drops what is still queued, and an abort without records leaves nothing to skip
            producer.flush(_STOP_WITHIN_S)
        ended = ProducedStatus.ABORTED if abort else ProducedStatus.ACKED
        try:
            answered = self._call(pointer, producer.abort_transaction if abort else producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            ended, answered = ProducedStatus.ABORTED, self._call(pointer, producer.abort_transaction)
        # an unanswered abort never commits: the coordinator aborts it at the transaction timeout
        status = ended if answered or abort else ProducedStatus.IN_DOUBT
        self._history.append_all(
            record.row(pointer.active, self._spec.topic, status, *places.get(record.flight.id, (NO_OFFSET, NO_OFFSET)))
            for record in sent
        )
        self._done += len(sent) if status is ProducedStatus.ACKED else 0
        return sent if status is ProducedStatus.IN_DOUBT else []

    def _unsent(self, flight: Flight, pointer: Pointer) -> Sent:
        sent_ms = now_ms()
        return Sent(flight, sent_ms, self._clock.at(pointer.active, sent_ms), 0)

    def _call(self, pointer: Pointer, transactional: Callable[..., Any]) -> bool:
        """Repeat the call while the coordinator does not answer; False when the pointer moved or stopping took too long.

        Raises `KafkaException` for a final error, and for one after which the transaction has to be aborted, which a call again
        would only get again, at once: a record that was not written within the transaction's time is _TIMED_OUT, too.
        """
        while True:
            try:
                transactional(_CALL_S)
                return True
            except KafkaException as error:
                kafka_error: KafkaError = error.args[0]
                waits = kafka_error.retriable() or kafka_error.code() == KafkaError._TIMED_OUT
                if kafka_error.txn_requires_abort() or not waits:
                    raise
            self._status.report("waiting", pointer.active, pointer.version, self._done)
            if (self._watcher.current() or pointer).elsewhere(pointer) or self._stopped_long():
                return False

    def _stopped_long(self) -> bool:
        if not self._stop():
            return False
        if self._stopping_since is None:
            self._stopping_since = time.monotonic()
        return time.monotonic() - self._stopping_since > _STOP_WITHIN_S


def _placed(places: dict[str, tuple[int, int]], name: str, error: KafkaError | None, message: Message) -> None:
    if error is None:
        places[name] = (place(message.partition()), place(message.offset()))
