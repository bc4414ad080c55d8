"""Producers that never pause, and their acknowledgements: one thread a topic, the history kept by partition.

Rules: a record enters the history when its acknowledgement arrives (in a transaction: when the commit is), with the offset
and digest it was acknowledged with. In doubt is what a broken commit left open, and what the client calls delivered without
an offset: no broker said so. It concludes it from a later batch that was taken, and a broker that came back has forgotten
producers of old records and takes a later batch without the one before. Nothing else is in doubt. Numbers rise in each topic.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from soak.judge import Log

Appended = tuple[int, int, int, int]  # partition, offset, number, digest


Headers = list[tuple[str, bytes]]


def headers_of(number: int) -> Headers:
    """The headers our record of that number is sent with."""
    return [("n", b"%d" % number)] if number % 3 else []


def digest(message: Message) -> int:
    """Of key, value, headers and timestamp of a record that was read."""
    return _digest(message, message.headers() or [], message.timestamp()[1])


def _digest(message: Message, headers: Headers, timestamp: int) -> int:
    what = repr((message.key(), message.value(), headers, timestamp)).encode()
    return int.from_bytes(hashlib.blake2b(what, digest_size=8).digest(), signed=True)


def number_of(message: Message) -> int:
    """The number of one of our records; -1 for anybody else's."""
    head = (message.value() or b"").split(b" ", 1)[0]
    return int(head) if head.isdigit() else -1


@dataclass(eq=False)
class Traffic(threading.Thread):
    """Records for one topic until `close`. `old`: timestamps of years ago; `keys`: how many different ones; `unsafe`: sent
    once and never again, to leaders that may lose what they acknowledged: what is not acknowledged is in doubt."""

    servers: str
    topic: str
    partitions: int
    seed: int
    rate: float = 60.0  # records a second, about
    old: bool = False
    transactional: bool = False
    keys: int = 50
    unsafe: bool = False
    acked: dict[int, Log] = field(default_factory=lambda: defaultdict(Log))
    lives: list[dict[int, Log]] = field(default_factory=list)  # of incarnations that are gone
    key_of: dict[int, bytes] = field(default_factory=dict)  # where keys are few and matter
    in_doubt: set[int] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        super().__init__(daemon=True, name=f"traffic-{self.topic}")
        self._dice = random.Random(self.seed)
        self.over = threading.Event()
        self._lock = threading.RLock()
        self._clock = 1_357_000_000_000
        self._open: list[Appended] = []
        self._producer = self._new()

    def _new(self) -> Producer:
        settings: dict[str, object] = {
            "bootstrap.servers": self.servers,
            "enable.idempotence": True,
            "delivery.timeout.ms": 300_000,
            "linger.ms": 5,
            "batch.size": 6000,
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 0,
        }
        if self.unsafe:
            settings |= {"enable.idempotence": False, "retries": 0, "max.in.flight": 1, "delivery.timeout.ms": 20_000}
        if self.transactional:
            settings |= {"transactional.id": f"soak-{self.topic}", "delivery.timeout.ms": 50_000}
        return Producer(settings)

    def run(self) -> None:
        if self.transactional:
            self._begin()
        while not self.over.wait(self._dice.uniform(0.01, 0.1)):
            with self._lock:
                self._burst(max(1, round(self._dice.uniform(0, 0.11) * self.rate)))

    def _burst(self, count: int) -> None:
        if len(self._producer) > 20_000:  # the cluster is down: no more until it is back
            self._producer.poll(0.5)
            return
        if not self.transactional:
            for _ in range(count):
                self._send(self._dice.randrange(self.partitions))
            self._producer.poll(0)
            return
        self._transaction(count)

    def _send(self, partition: int) -> None:
        value = b"%d " % self.sent + b"x" * self._dice.randrange(250)
        key = b"%d" % self._dice.randrange(self.keys)
        if self.keys < 20:
            self.key_of[self.sent] = key
        self._clock = self._clock + 1 if self.old else int(time.time() * 1000)
        try:
            self._producer.produce(
                self.topic,
                key=key,
                value=value,
                headers=headers_of(self.sent) or None,
                partition=partition,
                timestamp=self._clock,
                on_delivery=partial(self._acknowledged, self._clock),
            )
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            return  # a partition that was just added, which this producer does not know yet
        self.sent += 1

    def _acknowledged(self, sent_at: int, error: object, message: Message) -> None:
        """`sent_at`: an acknowledgement comes without headers, and for a batch sent twice with its newest timestamp."""
        if error is not None:
            if self.unsafe:
                self.in_doubt.add(number_of(message))
            elif not self.transactional:
                self.refused.append(f"{number_of(message)}: {error}")
            return
        number, offset = number_of(message), message.offset()
        if offset is None or offset < 0:
            self.in_doubt.add(number)
            return
        reported = (message.partition() or 0, offset, number, _digest(message, headers_of(number), sent_at))
        if self.transactional:
            self._open.append(reported)
        else:
            self.acked[reported[0]].add(*reported[1:])

    # -- transactions ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """A producer that may begin; a new one where the last is beyond help."""
        while not self.over.is_set():
            try:
                self._producer.init_transactions(20)
                return
            except KafkaException:
                self._producer = self._new()

    def _transaction(self, count: int) -> None:
        first = self.sent
        self._open = []
        kept = self._dice.random() < 0.8
        try:
            self._producer.begin_transaction()
            for _ in range(count):
                self._send(self._dice.randrange(self.partitions))
            if not kept:
                self._producer.flush(20)  # the records of an aborted transaction are in the log all the same
                self._producer.abort_transaction(30)
                return
        except KafkaException:
            self._anew()  # begun or aborted: no commit was asked for, so none of it will be seen
            return
        for _ in range(6):
            try:
                self._producer.commit_transaction(20)
                for partition, *row in self._open:
                    self.acked[partition].add(*row)
                return
            except KafkaException as problem:
                if not problem.args[0].retriable():
                    break  # also where an abort is asked for: a commit whose answer was lost may stand all the same
        self.in_doubt |= set(range(first, self.sent))
        self._anew()

    def _anew(self) -> None:
        self._producer = self._new()
        self._begin()

    # -- from outside ------------------------------------------------------------------------------------------------

    def held(self) -> threading.RLock:
        """Hold the traffic of this topic, everything acknowledged, for as long as the lock is held."""
        self._lock.acquire()
        if not self.transactional:
            self._producer.flush(120)
        return self._lock

    def next_life(self) -> None:
        """The topic was made again: what is acknowledged from here on is in another incarnation. While held."""
        self.lives.append(self.acked)
        self.acked = defaultdict(Log)
        self._producer = self._new()

    def close(self) -> None:
        """Stop, after one last record in every partition."""
        self.over.set()
        self.join(240)
        if self.transactional:
            self.over.clear()
            self._begin()
            self._producer.begin_transaction()
        self._open = []
        for partition in range(self.partitions):
            self._send(partition)
        left = self._producer.flush(120)
        if self.transactional:
            self._producer.commit_transaction(60)
            for partition, *row in self._open:
                self.acked[partition].add(*row)
        if left and not self.unsafe:
            self.refused.append(f"{left} records were still unanswered at the end")
