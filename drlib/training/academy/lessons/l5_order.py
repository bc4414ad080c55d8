"""L5, order and duplicates: after a move the orders of a key are in two topics, and some of them are there twice.

Rules: the ordinary application is real: one consumer for each topic, records handled as they arrive, and a crash before its
commit. Handled orders are written to a topic, the ledger, so order and duplicates are judged by a log. A ledger counts only
if its group has committed both topics up to their ends. Orders that their producer sent twice are in the topic twice:
neither a mirror nor ordered reading removes them, only the application can.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Final

import plotly.graph_objects as go
from confluent_kafka import Consumer, Producer

from drlib.client.active_cluster import ActiveCluster
from drlib.client.ordered_consumer import OrderedConsumer
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.admin.descriptions import Record
from drlib.model import TopicPartition
from drlib.runs.table import Table
from drlib.training.academy.lesson import CheckResult
from drlib.training.academy.move_lesson import ANSWER_S, MoveLesson
from drlib.training.academy.pictures import Line, lines
from drlib.training.academy.points import Teaching
from drlib.training.academy.testbed import TIMEOUT_S, order_of

TRAFFIC: Final = "traffic"
PARTITIONS: Final = 2
BEFORE: Final = 240  # orders on LEFT before the move
AGAIN: Final = 10  # of them, sent twice by their producer
AFTER: Final = 120  # orders on RIGHT after the move
BATCH: Final = 30
CRASHED: Final = 2  # batches of each topic that were handled but not committed
KEYS: Final = 20


class OrderAndDuplicates(MoveLesson):
    key = "L5"
    title = "Order and duplicates"
    first = (TRAFFIC, "lesson.traffic()")
    teaching = Teaching(
        high="Customers are counted, not orders: there are no more of them than keys.",
        low="Kafka keeps order in a partition, and none between topics: one newer order that is read too early mixes up a "
        "customer, and every customer has orders in both topics.",
        pending="the ordinary application has handled orders",
    )
    hints = (
        "Which of the two topics has the older orders? When may the first newer order be handled?",
        "drlib.OrderedConsumer over a drlib.ActiveCluster reads the mirror topic to its end first. How do you recognize an "
        "order that comes twice?",
        "with drlib.ActiveCluster(lesson.application, lesson.file, topic=lesson.pointer_topic) as active, "
        "drlib.OrderedConsumer(active, lesson.group, lesson.topic) as consumer: call lesson.handle(record) for each record "
        "whose value is new; then consumer.commit().",
    )
    claims = (
        "the ledger has every order",
        "the ledger has the orders of each key in their order",
        "the ledger has no order twice",
    )
    orders: Final = BEFORE + AFTER  # different orders

    def traffic(self) -> Table:
        """Write orders to LEFT and mirror them; move the applications to RIGHT; write newer orders to RIGHT."""
        self.step(TRAFFIC, self._traffic)
        rows = []
        for topic, contents in ((self.copy, "orders before the move"), (self.topic, "orders after the move")):
            records = self.testbed.read("RIGHT", topic)
            customers = len({record.key for record in records})
            rows.append(
                {"topic": topic, "on": "RIGHT", "records": len(records), "customers": customers, "contents": contents}
            )
        note = f"{AGAIN} orders were sent twice by their producer, as application retries do."
        return Table("Two topics with the orders of the same customers", rows, note=note)

    def handle(self, record: Record) -> None:
        """Handle an order as billing does: write it to the ledger. It is acknowledged when this returns."""
        self.require(*self.first)
        if not isinstance(record, Record):
            given = f"{type(record).__name__} is given"
            raise UsageError("this is no record", given, "Call lesson.handle(record) with what the consumer returned.")
        self._append(self.ledger, [record.value or b""])

    def start_over(self) -> Table:
        """Empty the ledger and delete the group's committed offsets, for another try."""
        self.require(TRAFFIC, "lesson.traffic()")
        with self.testbed.cluster("RIGHT") as right:
            right.delete_group(self.group)
        self._recreate(self.ledger)
        return Table("The ledger is empty, and billing starts from the beginning", [])

    @property
    def ledger(self) -> str:
        """The topic on RIGHT to which your application writes the orders it has handled."""
        return self.testbed.name("ledger")

    def question(self) -> str:
        return (
            "An application moves to RIGHT and uses one consumer for each of the two topics. For how many of the customers "
            "(keys) does it handle an order after a newer one?"
        )

    def reference_answer(self) -> str:
        return str(KEYS)

    def measured(self) -> float | None:
        """The customers out of order in the ledger of the ordinary application."""
        handled = self._handled(self._ordinary)
        return len(_keys_out_of_order(handled)) if handled else None

    def show_truth(self) -> Table:
        rows = [
            {
                "application": name,
                "handled": len(handled),
                "customers out of order": len(_keys_out_of_order(handled)),
                "orders handled twice": _repeated(handled),
            }
            for name, handled in (("ordinary", self._handled(self._ordinary)), ("yours", self._handled(self.ledger)))
        ]
        return Table("Handled orders", rows, note=f"There are {KEYS} customers and {self.orders} different orders.")

    def inject_fault(self) -> Mapping[str, int]:
        self._recreate(self._ordinary)
        for commits in (False, True):  # it crashes before its first commit and is started again
            self._run_ordinary_application(commits)
        return {}

    def fault_state(self) -> Table:
        handled = self._handled(self._ordinary)
        rows = [
            {"what": "orders handled", "ordinary": len(handled)},
            {"what": "customers with an order after a newer one", "ordinary": len(_keys_out_of_order(handled))},
            {"what": "orders handled more than once", "ordinary": _repeated(handled)},
        ]
        note = f"There are {self.orders} different orders."
        return Table("An ordinary application, after the move and a crash", rows, note=note)

    def apply_reference(self) -> None:
        self.start_over()
        values: set[bytes | None] = set()
        with (
            ActiveCluster(self.application, self.file, topic=self.pointer_topic, timeout_s=ANSWER_S) as active,
            OrderedConsumer(active, self.group, self.topic) as consumer,
        ):
            for record in consumer:
                if record.value not in values:
                    values.add(record.value)
                    self.handle(record)
                if len(values) == self.orders:
                    break
            consumer.commit()

    def verify(self, number: int) -> CheckResult:
        handled = self._handled(self.ledger)
        if not handled:
            return CheckResult(False, "the ledger is empty", "Your application has handled nothing.")
        if partitions := self._uncommitted():
            observed = f"{len(handled)} handled, but billing has not committed {', '.join(partitions)} to the end"
            return CheckResult(False, observed, "What is not committed is handled again after a restart.")
        if number == 1:
            known, unknown = {*handled} & {*range(self.orders)}, {*handled} - {*range(self.orders)}
            observed = f"{len(known)} of {self.orders}" + (
                f", and {len(unknown)} that are no orders" if unknown else ""
            )
            return CheckResult(len(known) == self.orders and not unknown, observed, "Not every order was handled.")
        if number == 2:
            wrong = _keys_out_of_order(handled)
            observed = f"{len(wrong)} customers out of order"
            return CheckResult(
                not wrong, observed, "Newer orders were handled before older ones. The ledger keeps that."
            )
        repeated = _repeated(handled)
        observed = f"{repeated} orders more than once"
        return CheckResult(not repeated, observed, "Some were handled although they had been. The ledger keeps that.")

    def figure(self) -> go.Figure:
        drawn = []
        for name, ledger, dash in (("ordinary", self._ordinary, "solid"), ("yours", self.ledger, "dash")):
            numbers = [number for number in self._handled(ledger) if number % KEYS == 0]
            drawn.append(Line(name, list(range(1, len(numbers) + 1)), numbers, dash))
        title = "One customer's orders, as they were handled"
        return lines(title, drawn, "1st, 2nd, 3rd ... handled", "number of the order")

    @property
    def _ordinary(self) -> str:
        """The ledger of the ordinary application."""
        return self.testbed.name("ordinary-ledger")

    def _traffic(self) -> None:
        testbed = self.testbed
        for alias in ("LEFT", "RIGHT"):
            testbed.create_topic(alias, self.topic, PARTITIONS)
        testbed.create_topic("RIGHT", self.ledger, 1)
        twice = range(BEFORE - 2 * AGAIN, BEFORE - AGAIN)
        testbed.write("LEFT", self.topic, [*range(BEFORE - AGAIN), *twice, *range(BEFORE - AGAIN, BEFORE)])
        testbed.start_mirror()
        testbed.wait_mirrored(self.topic)
        self.stop_worker()
        testbed.write("RIGHT", self.topic, range(BEFORE, BEFORE + AFTER))
        self.point_at("RIGHT")

    def _recreate(self, ledger: str) -> None:
        with self.testbed.cluster("RIGHT") as right:
            if right.delete_topic(ledger):
                self.testbed.wait("the ledger is deleted", lambda: not right.topics([ledger]))
        self.testbed.create_topic("RIGHT", ledger, 1)

    def _run_ordinary_application(self, commits: bool) -> None:
        """Run one consumer for each topic, a batch of each in turn; without `commits` it ends after `CRASHED` batches."""
        topics = (self.topic, self.copy)
        settings = self._client_settings | {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        group = self.testbed.name("ordinary")
        left = {topic: len(self.testbed.read("RIGHT", topic)) if commits else CRASHED * BATCH for topic in topics}
        consumers = {topic: Consumer({**settings, "group.id": f"{group}-{n}"}) for n, topic in enumerate(topics)}
        try:
            for topic, consumer in consumers.items():
                consumer.subscribe([topic])
            self.testbed.wait("the ordinary application is done", lambda: self._consume_batches(consumers, left))
            if commits:
                for consumer in consumers.values():
                    consumer.commit(asynchronous=False)
        finally:
            for consumer in consumers.values():
                consumer.close()

    def _consume_batches(self, consumers: Mapping[str, Consumer], left: dict[str, int]) -> bool:
        """Handle a batch of each topic and reduce `left` by it; True when nothing is left."""
        for topic, consumer in consumers.items():
            batch = consumer.consume(min(BATCH, left[topic]), timeout=0.1) if left[topic] else []
            values = [message.value() or b"" for message in batch if message.error() is None]
            left[topic] -= len(values)
            self._append(self._ordinary, [value if isinstance(value, bytes) else value.encode() for value in values])
        return not any(left.values())

    @property
    def _client_settings(self) -> dict[str, object]:
        return {**librdkafka(self.testbed.lab.clusters["RIGHT"].settings()), "log_level": 0}

    @cached_property
    def _producer(self) -> Producer:
        return Producer({**self._client_settings, "enable.idempotence": True, "linger.ms": 0})

    def _append(self, ledger: str, values: list[bytes]) -> None:
        for value in values:
            self._producer.produce(ledger, value)
        if self._producer.flush(TIMEOUT_S):
            raise Unreachable(
                "the ledger could not be written", "RIGHT does not answer", "Read the broker's log in the lab."
            )

    def _handled(self, ledger: str) -> list[int]:
        """The numbers of the orders in a ledger, in order."""
        return [order_of(record) for record in self.testbed.read("RIGHT", ledger)]

    def _uncommitted(self) -> list[str]:
        """The partitions whose last record the group has not committed on RIGHT."""
        committed = self.testbed.positions("RIGHT", self.group)
        last: dict[TopicPartition, int] = {}
        for topic in (self.copy, self.topic):
            for record in self.testbed.read("RIGHT", topic):
                last[record.partition] = max(record.offset, last.get(record.partition, -1))
        return [str(partition) for partition, offset in sorted(last.items()) if committed.get(partition, 0) <= offset]


def _keys_out_of_order(handled: list[int]) -> set[int]:
    """Keys with an order that was first handled after a newer order of the key."""
    newest: dict[int, int] = {}
    wrong = set()
    for number in dict.fromkeys(handled):
        key = number % KEYS
        if number < newest.get(key, -1):
            wrong.add(key)
        newest[key] = max(newest.get(key, -1), number)
    return wrong


def _repeated(handled: list[int]) -> int:
    return sum(count > 1 for count in Counter(handled).values())
