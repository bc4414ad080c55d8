"""L5, order and duplicates: after a move a key's history is in two topics, and some of it is there twice.

Rules: the ordinary application is real: a consumer for each topic, each handled as it comes, and a crash before its
commit. What was handled is in a topic of its own, the ledger, so order and duplicates are judged by what stands in a
log; a ledger without a group that has read and committed both topics to their ends was written, not earned. Orders that
their producer had sent twice are twice in the topic: no mirror and no ordered reading removes them, only who handles
them can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import plotly.graph_objects as go
from confluent_kafka import Consumer, Producer

from drlib.client.active_cluster import ActiveCluster
from drlib.client.ordered_consumer import OrderedConsumer
from drlib.errors import Unreachable
from drlib.kafka.admin.descriptions import Record
from drlib.model import TopicPartition
from drlib.training.academy.lesson import BREAK, CheckResult
from drlib.training.academy.move_lesson import ANSWER_S, MoveLesson
from drlib.training.academy.pictures import Line, lines
from drlib.training.academy.stage import PATIENCE_S
from drlib.ui.display import Shown

TRAFFIC: Final = "traffic"
PARTITIONS: Final = 2
BEFORE: Final = 240  # orders on LEFT before the move
AGAIN: Final = 10  # of them, sent twice by their producer
AFTER: Final = 120  # on RIGHT after it
BATCH: Final = 30
CRASHED: Final = 2  # batches of each topic that were handled and not committed
KEYS: Final = 20


class OrderAndDuplicates(MoveLesson):
    key = "L5"
    title = "Order and duplicates"
    hints = (
        "Which of the two topics holds the older orders, and when may the first of the newer ones be handled?",
        "drlib.OrderedConsumer over a drlib.ActiveCluster reads the copy to its end first. What of an order that comes twice?",
        "with drlib.ActiveCluster(lesson.application, lesson.file, topic=lesson.pointer_topic) as at, drlib.OrderedConsumer("
        "at, lesson.group, lesson.topic) as consumer: for each record lesson.handle(record), unless you had it; then commit.",
    )
    claims = (
        "the ledger has every order",
        "the ledger has the orders of each key in their order",
        "the ledger has no order twice",
    )
    orders: Final = BEFORE + AFTER  # different ones

    def traffic(self) -> Shown:
        """Orders on LEFT, mirrored; the applications move; newer orders on RIGHT."""
        self.step(TRAFFIC, self._traffic)
        rows = [
            {"topic": name, "on": "RIGHT", "records": len(self.testbed.read("RIGHT", name)), "holds": holds}
            for name, holds in ((self.copy, "orders from before the move"), (self.topic, "orders from after it"))
        ]
        return Shown(
            "One history, two topics", rows, note=f"{AGAIN} orders were sent twice by their producer, as retries do."
        )

    def handle(self, record: Record) -> None:
        """What billing does with an order: one line in the ledger, acknowledged before this returns."""
        self._book(self.ledger, [record.value or b""])

    def start_over(self) -> Shown:
        """An empty ledger, and a group that has read nothing: for another try."""
        self.require(TRAFFIC, "lesson.traffic()")
        with self.testbed.cluster("RIGHT") as right:
            right.delete_group(self.group)
            if right.delete_topic(self.ledger):
                self.testbed.wait("the ledger is gone", lambda: not right.topics([self.ledger]))
        self.testbed.make("RIGHT", self.ledger, 1)
        return Shown("Ready for another try", [])

    @property
    def ledger(self) -> str:
        """The topic on RIGHT in which your application books what it has handled."""
        return self.testbed.name("ledger")

    def question(self) -> str:
        return (
            f"An application moves to RIGHT and has a consumer for each of the two topics. Of the {KEYS} customers (keys): "
            f"for how many is an order handled after a newer one?"
        )

    def reference_answer(self) -> str:
        return str(KEYS)

    def show_truth(self) -> Shown:
        self.require(BREAK, "lesson.break_it()")
        rows = [
            {
                "who": who,
                "handled": len(booked),
                "customers out of order": len(_disordered(booked)),
                "handled twice": _twice(booked),
            }
            for who, booked in (("ordinary", self._booked(self._ordinary)), ("yours", self._booked(self.ledger)))
        ]
        return Shown("What was handled", rows, note=f"It was {rows[0]['customers out of order']} of {KEYS}.")

    def inject_fault(self) -> Mapping[str, int]:
        self.require(TRAFFIC, "lesson.traffic()")
        with self.testbed.cluster("RIGHT") as right:
            if right.delete_topic(self._ordinary):
                self.testbed.wait("the ledger is gone", lambda: not right.topics([self._ordinary]))
        self.testbed.make("RIGHT", self._ordinary, 1)
        for group_ends in (False, True):  # it dies before its first commit, and is started again
            self._ordinary_application(group_ends)
        return {}

    def fault_state(self) -> Shown:
        booked = self._booked(self._ordinary)
        rows = [
            {"what": "orders handled", "ordinary": len(booked)},
            {"what": "customers with an order after a newer one", "ordinary": len(_disordered(booked))},
            {"what": "orders handled more than once", "ordinary": _twice(booked)},
        ]
        return Shown(
            "An ordinary application, after the move and a crash",
            rows,
            note=f"There are {self.orders} different orders.",
        )

    def apply_reference(self) -> None:
        self.start_over()
        seen: set[bytes | None] = set()
        with (
            ActiveCluster(self.application, self.file, topic=self.pointer_topic, timeout_s=ANSWER_S) as at,
            OrderedConsumer(at, self.group, self.topic) as consumer,
        ):
            for record in consumer:
                if record.value not in seen:
                    seen.add(record.value)
                    self.handle(record)
                if len(seen) == self.orders:
                    break
            consumer.commit()

    def verify(self, number: int) -> CheckResult:
        booked = self._booked(self.ledger)
        if booked and (left := self._uncommitted()):
            seen = f"{len(booked)} are booked, and billing has not committed {', '.join(left)} to the end"
            return CheckResult(False, seen, "consumer.commit() says that what was handed out is handled")
        if number == 1:
            found = len({*booked} & {*range(self.orders)})
            more = len({*booked} - {*range(self.orders)})
            seen = f"{found} of {self.orders}" + (f", and {more} that nobody ordered" if more else "")
            return CheckResult(
                found == self.orders and not more, seen, "Read both topics to their ends: lesson.handle(record)"
            )
        if number == 2:
            wrong = _disordered(booked)
            seen = f"{len(wrong)} customers out of order" if booked else "the ledger is empty"
            return CheckResult(
                bool(booked) and not wrong, seen, "lesson.start_over(), then the copy to its end before the topic"
            )
        seen = f"{_twice(booked)} orders more than once" if booked else "the ledger is empty"
        return CheckResult(
            bool(booked) and not _twice(booked), seen, "lesson.start_over(), and leave out what you had already"
        )

    def figure(self) -> go.Figure:
        drawn = []
        for name, ledger, dash in (("ordinary", self._ordinary, "solid"), ("yours", self.ledger, "dash")):
            theirs = [number for number in self._booked(ledger) if number % KEYS == 0]
            drawn.append(Line(name, list(range(1, len(theirs) + 1)), theirs, dash))
        return lines(
            "One customer's orders, as they were handled", drawn, "1st, 2nd, 3rd ... handled", "number of the order"
        )

    @property
    def _ordinary(self) -> str:
        return self.testbed.name("ordinary-ledger")

    def _traffic(self) -> None:
        testbed = self.testbed
        for alias in ("LEFT", "RIGHT"):
            testbed.make(alias, self.topic, PARTITIONS)
        testbed.make("RIGHT", self.ledger, 1)
        twice = range(BEFORE - 2 * AGAIN, BEFORE - AGAIN)
        testbed.write("LEFT", self.topic, [*range(BEFORE - AGAIN), *twice, *range(BEFORE - AGAIN, BEFORE)])
        testbed.start_mirror()
        testbed.wait_crossed(self.topic)
        testbed.stop_mirror()
        testbed.write("RIGHT", self.topic, range(BEFORE, BEFORE + AFTER))
        self.point_at("RIGHT")

    def _ordinary_application(self, commits: bool) -> None:
        """A consumer for each topic, a batch of each in turn; without `commits` it dies after a few of them."""
        topics = (self.topic, self.copy)
        settings = {**self.testbed.lab.clusters["RIGHT"].settings().confluent(), "log_level": 0}
        settings |= {
            "group.id": self.testbed.name("ordinary"),
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        left = {topic: len(self.testbed.read("RIGHT", topic)) if commits else CRASHED * BATCH for topic in topics}
        consumers = {
            topic: Consumer({**settings, "group.id": f"{settings['group.id']}-{n}"}) for n, topic in enumerate(topics)
        }
        try:
            for topic, consumer in consumers.items():
                consumer.subscribe([topic])
            self.testbed.wait("the ordinary application is done", lambda: self._ordinary_turn(consumers, left))
            if commits:
                for consumer in consumers.values():
                    consumer.commit(asynchronous=False)
        finally:
            for consumer in consumers.values():
                consumer.close()

    def _ordinary_turn(self, consumers: Mapping[str, Consumer], left: dict[str, int]) -> bool:
        for topic, consumer in consumers.items():
            got = consumer.consume(min(BATCH, left[topic]), timeout=0.1) if left[topic] else []
            values = [message.value() or b"" for message in got if message.error() is None]
            left[topic] -= len(values)
            self._book(self._ordinary, [value if isinstance(value, bytes) else value.encode() for value in values])
        return not any(left.values())

    def _book(self, ledger: str, values: list[bytes]) -> None:
        if not hasattr(self, "_producer"):
            settings = {**self.testbed.lab.clusters["RIGHT"].settings().confluent(), "log_level": 0}
            self._producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 0})
        for value in values:
            self._producer.produce(ledger, value)
        if self._producer.flush(PATIENCE_S):
            raise Unreachable("the ledger could not be written", "RIGHT is silent", "Look at the logs in the lab.")

    def _booked(self, ledger: str) -> list[int]:
        return [_number(r.value or b"") for r in self.testbed.read("RIGHT", ledger)]

    def _uncommitted(self) -> list[str]:
        """The partitions that the group has not read to their last record, as its commits on RIGHT tell."""
        stands = self.testbed.positions("RIGHT", self.group)
        last: dict[TopicPartition, int] = {}
        for topic in (self.copy, self.topic):
            for record in self.testbed.read("RIGHT", topic):
                last[record.partition] = max(record.offset, last.get(record.partition, -1))
        return [str(at) for at, offset in sorted(last.items()) if stands.get(at, 0) <= offset]


def _number(value: bytes) -> int:
    """An order's number; -1 for what is no order."""
    word, _, number = value.partition(b" ")
    return int(number) if word == b"order" and number.isdigit() else -1


def _disordered(booked: list[int]) -> set[int]:
    """Keys with an order for the first time after a newer one of theirs."""
    newest: dict[int, int] = {}
    wrong = set()
    for number in dict.fromkeys(booked):
        key = number % KEYS
        if number < newest.get(key, -1):
            wrong.add(key)
        newest[key] = max(newest.get(key, -1), number)
    return wrong


def _twice(booked: list[int]) -> int:
    return sum(count > 1 for count in Counter(booked).values())
