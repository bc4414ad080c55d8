"""L4, failback and the tail: LEFT is back with orders that RIGHT does not have, and RIGHT has orders that LEFT does not
have.

Rules: the tail is real: records that LEFT acknowledged after the worker was killed and before LEFT was killed itself. The
applications have moved to RIGHT and worked there. The repair has three steps, with the functions that drills use: settle
the tail, mirror RIGHT's orders to LEFT, commit the group's positions on LEFT. Settling twice copies nothing twice. What the
group has read on RIGHT is known from the lesson, because the group can be moved on RIGHT as well.
Not for: moving producers back, which a planned switchover does (notebook 03).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import plotly.graph_objects as go

from drlib.errors import UsageError
from drlib.kafka.admin.descriptions import Record
from drlib.mirror.offsets.translation.external_offsets import translate_offsets
from drlib.mirror.offsets.unreplicated.find import UnreplicatedRecords, find_unreplicated
from drlib.mirror.offsets.unreplicated.rules import Settle, quarantine_topic
from drlib.mirror.offsets.unreplicated.settle import settle_unreplicated
from drlib.model import TopicPartition
from drlib.runs.table import Table
from drlib.training.academy.lesson import BREAK, CheckResult
from drlib.training.academy.move_lesson import MoveLesson
from drlib.training.academy.pictures import bars
from drlib.training.academy.points import Teaching
from drlib.training.academy.testbed import FORWARD, KEYS, order_of

TRAFFIC: Final = "traffic"
PARTITIONS: Final = 2
MIRRORED: Final = 600
TAIL: Final = 100
LATER: Final = 3 * TAIL  # written to RIGHT after the failover
READ: Final = 40  # of those, in each partition, by the group
BACK: Final = FORWARD.reverse


class FailbackAndTail(MoveLesson):
    key = "L4"
    title = "Failback and the tail"
    first = (TRAFFIC, "lesson.traffic()")
    teaching = Teaching(
        high="RIGHT has what it acknowledged itself. What it does not have is LEFT's tail, and nothing else.",
        low="A mirror from RIGHT to LEFT brings nothing to RIGHT: the tail stays on LEFT until it is settled.",
    )
    hints = (
        "Settle LEFT's tail before you start its mirror: mirrored now, it would land behind the cutover, where no group reads.",
        "lesson.tail() lists it. lesson.settle('recover') or ('quarantine') settles it. lesson.flow_back() mirrors RIGHT.",
        "lesson.settle('recover'); lesson.flow_back(); then drlib.translate_offsets(lesson.file, 'RIGHT', 'LEFT', "
        "lesson.positions()) gives the offsets for lesson.commit({0: ..., 1: ...}).",
    )
    claims = (
        "every order of LEFT's tail is on RIGHT, once",
        "all orders that RIGHT has taken are on LEFT, in order",
        "billing continues on LEFT with the order that it would read next on RIGHT",
    )

    def traffic(self) -> Table:
        """Write orders to LEFT and mirror all of them."""
        self.step(TRAFFIC, self._traffic)
        return self._overview_of_topics()

    def tail(self) -> Table:
        """List the records that only LEFT has, by partition, found with the offset map."""
        self.require(BREAK, "lesson.break_it()")
        tail = self._tail()
        rows = [
            {
                "partition": part.partition.partition,
                "mirrored up to": part.mirrored,
                "end offset": part.end,
                "records": part.records,
            }
            for part in tail.partitions
        ]
        note = "Settled records stay on LEFT, so they are still listed here."
        return Table(f"LEFT's tail: {tail.records} records", rows, note=note)

    def settle(self, how: str = "recover") -> Table:
        """Copy the tail to RIGHT once: "recover" to the topic itself, "quarantine" to a topic of its own for inspection."""
        self.require(BREAK, "lesson.break_it()")
        if how not in (Settle.RECOVER, Settle.QUARANTINE):
            raise UsageError(f"settle({how!r})", "a tail cannot be settled that way", "Use 'recover' or 'quarantine'.")
        self.testbed.wait_no_worker()
        run = f"academy/{self.testbed.prefix}settle"
        done = settle_unreplicated(self.testbed.settings, self._tail(), Settle(how), run)
        rows = [{"recovered": done.recovered, "in quarantine": done.in_quarantine}]
        return Table(
            "The tail is settled",
            rows,
            note="A repeated call continues after an interruption and copies nothing twice.",
        )

    def flow_back(self) -> Table:
        """Mirror RIGHT's orders to LEFT, where their topic has the prefix RIGHT, until all of them are there."""
        self.require(BREAK, "lesson.break_it()")
        self.testbed.start_mirror(BACK)
        self.testbed.wait_mirrored(self.topic, BACK)
        return self._overview_of_topics()

    def positions(self) -> list[tuple[str, int, int]]:
        """billing's positions in RIGHT's own topic, as drlib.translate_offsets takes them: topic, partition, offset."""
        self.require(BREAK, "lesson.break_it()")
        positions = self.testbed.positions("RIGHT", self.group)
        return [(p.topic, p.partition, offset) for p, offset in sorted(positions.items()) if p.topic == self.topic]

    def commit(self, positions: Mapping[int, int]) -> Table:
        """Commit billing's offsets on LEFT in the mirror topic of RIGHT's orders, by partition."""
        self.require(BREAK, "lesson.break_it()")
        self.testbed.commit("LEFT", self.group, self.in_topic(self._home, positions))
        return self._overview_of_topics()

    def question(self) -> str:
        return (
            "All orders are mirrored. The worker is killed, LEFT acknowledges some more, LEFT is killed. RIGHT takes over and "
            "acknowledges three times as many as LEFT did alone. LEFT is started again, and RIGHT is mirrored to it; nothing "
            "else is done. Which percentage of the orders since the worker's death does RIGHT not have?"
        )

    def reference_answer(self) -> str:
        return f"{100 * TAIL / (TAIL + LATER):.0f}"

    def measured(self) -> float | None:
        """The tail as a share of all orders since then, in percent; counted when LEFT was started again."""
        tail, later = self.numbers.get("tail"), self.numbers.get("later")
        return None if tail is None or later is None else round(100 * tail / (tail + later))

    def show_truth(self) -> Table:
        rows: list[dict[str, object]] = [
            {"what": "orders that only LEFT had when it was started again", "value": self.numbers["tail"]},
            {"what": "orders that RIGHT had acknowledged by then", "value": self.numbers.get("later")},
        ]
        return Table("LEFT's tail", rows, note="Once the tail is settled, RIGHT has it as well: see check 1.")

    def inject_fault(self) -> Mapping[str, int]:
        testbed, left = self.testbed, self.testbed.lab.clusters["LEFT"]
        self.kill_worker(testbed.mirror())
        if left.alive:
            testbed.write("LEFT", self.topic, range(MIRRORED + TAIL), partitions=PARTITIONS)
            self.kill_cluster("LEFT")
        first = MIRRORED + TAIL
        testbed.write("RIGHT", self.topic, range(first, first + LATER), partitions=PARTITIONS)
        ends = testbed.end_offsets("RIGHT", self.copy)
        positions = {
            **self.in_topic(self.copy, dict(enumerate(ends))),
            **self.in_topic(self.topic, dict.fromkeys(range(PARTITIONS), READ)),
        }
        testbed.commit("RIGHT", self.group, positions)
        left.restart()
        testbed.wait_no_worker()
        return {"tail": self._tail().records, "later": len(self._local())}

    def fault_state(self) -> Table:
        return self._overview_of_topics()

    def apply_reference(self) -> None:
        self.settle("recover")
        self.flow_back()
        translated = translate_offsets(self.file, "RIGHT", "LEFT", self.positions())
        self.commit({item.source.partition: item.translation.offset or 0 for item in translated})

    def verify(self, number: int) -> CheckResult:
        return (self._check_tail, self._check_flow_back, self._check_group)[number - 1]()

    def stop_actions(self) -> tuple[Callable[[], None], ...]:
        return (self.testbed.stop_mirror, lambda: self.testbed.stop_mirror(BACK))

    def figure(self) -> go.Figure:
        records = {
            "LEFT's orders": self.testbed.read("LEFT", self.topic),
            "their copy on RIGHT": self.testbed.read("RIGHT", self.copy),
            "RIGHT's orders": self._local(),
            "their copy on LEFT": self.testbed.read("LEFT", self._home),
            "quarantine on RIGHT": self.testbed.read("RIGHT", self._quarantine),
        }
        series = by_origin([[order_of(record) for record in each] for each in records.values()])
        return bars(
            "Where orders are, and which of them are LEFT's tail", list(records), series, "orders", stacked=True
        )

    @property
    def _home(self) -> str:
        """The mirror topic of RIGHT's orders on LEFT."""
        return self.testbed.copy(self.topic, BACK)

    @property
    def _quarantine(self) -> str:
        return quarantine_topic("LEFT", self.topic)

    def _traffic(self) -> None:
        for alias in ("LEFT", "RIGHT"):
            self.testbed.create_topic(alias, self.topic, PARTITIONS)
        self.testbed.write("LEFT", self.topic, range(MIRRORED), partitions=PARTITIONS)
        self.testbed.start_mirror()
        self.testbed.wait_mirrored(self.topic)

    def _tail(self) -> UnreplicatedRecords:
        return find_unreplicated(self.testbed.settings, FORWARD, [self.topic])

    def _local(self) -> list[Record]:
        return self.testbed.read("RIGHT", self.topic)

    def _overview_of_topics(self) -> Table:
        rows: list[dict[str, object]] = []
        for alias, topic in (("LEFT", self.topic), ("RIGHT", self.copy), ("RIGHT", self.topic), ("LEFT", self._home)):
            committed = self.testbed.positions(alias, self.group)
            offsets = [committed.get(TopicPartition(topic, number)) for number in range(PARTITIONS)]
            rows.append(
                {
                    "topic": topic,
                    "on": alias,
                    "orders": len(self.testbed.read(alias, topic)),
                    "billing's offsets": ", ".join("none" if offset is None else str(offset) for offset in offsets),
                }
            )
        note = "Topics of the same name on two clusters are different topics. The prefix of a mirror topic names its source."
        return Table("Orders by topic and cluster", rows, note=note)

    def _check_tail(self) -> CheckResult:
        records = (*self._local(), *self.testbed.read("RIGHT", self._quarantine))
        counts, contents = Counter(record.value for record in records), {(r.key, r.value) for r in records}
        tail = [_order(number) for number in range(MIRRORED, MIRRORED + TAIL)]
        missing = sum(order not in contents for order in tail)
        repeated = sum(counts[value] > 1 for _, value in tail)
        observed = f"{TAIL - missing} of {TAIL} are on RIGHT, {repeated} of them more than once"
        return CheckResult(not missing and not repeated, observed, "The tail is not settled, or not only once.")

    def _check_flow_back(self) -> CheckResult:
        local, home = _by_partition(self._local()), _by_partition(self.testbed.read("LEFT", self._home))
        first = MIRRORED + TAIL
        received = {value for values in local.values() for value in values}
        complete = {_order(number)[1] for number in range(first, first + LATER)} <= received
        observed = f"{sum(map(len, local.values()))} on RIGHT, {sum(map(len, home.values()))} on LEFT"
        return self.check_copy(complete and local == home, observed, "LEFT has not all of RIGHT's orders.", BACK)

    def _check_group(self) -> CheckResult:
        committed = self.testbed.positions("LEFT", self.group)
        local, home = self._local(), self.testbed.read("LEFT", self._home)
        wrong = []
        for number in range(PARTITIONS):
            expected = _unread(local, number, READ) or []
            actual = _unread(home, number, committed.get(TopicPartition(self._home, number)))
            if not expected or actual != expected:
                left = "no committed offset" if actual is None else f"{len(actual)} unread"
                wrong.append(f"partition {number}: {left} on LEFT, {len(expected)} unread on RIGHT")
        observed = "; ".join(wrong) or "the unread orders are the same on both sides"
        return CheckResult(not wrong, observed, "On LEFT billing is not where it was on RIGHT.")


def by_origin(topics: Sequence[Sequence[int]]) -> dict[str, list[int]]:
    """For each topic, given by its orders: how many were mirrored in time or written on RIGHT, and how many are LEFT's tail."""
    tail = [sum(MIRRORED <= number < MIRRORED + TAIL for number in orders) for orders in topics]
    others = [len(orders) - those for orders, those in zip(topics, tail, strict=True)]
    return {"mirrored before, or RIGHT's own": others, "LEFT's tail": tail}


def _order(number: int) -> tuple[bytes, bytes]:
    """Key and value as LEFT acknowledged them."""
    return f"key {number % KEYS}".encode(), f"order {number}".encode()


def _by_partition(records: list[Record]) -> dict[int, list[bytes | None]]:
    values: dict[int, list[bytes | None]] = {}
    for record in records:
        values.setdefault(record.partition.partition, []).append(record.value)
    return values


def _unread(records: list[Record], partition: int, position: int | None) -> list[bytes | None] | None:
    """The values from `position` on in `partition`; None without a position."""
    if position is None:
        return None
    return [r.value for r in records if r.partition.partition == partition and r.offset >= position]
