"""L1, offsets do not match across clusters: a group's position translated by hand, then by the map.

Rules: the logs really differ: retention has taken the beginning of the topic on LEFT before the mirror came, and its records
were written in transactions, some of them aborted, whose markers take offsets. The break is what scripts do that copy
numbers from one cluster to the other. Whether a position is right is judged by the records that follow it on either side,
not by the map; what billing had still to read on LEFT is remembered, since a group can be moved there, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import plotly.graph_objects as go
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import AdminClient

from drlib.kafka.admin.descriptions import Record
from drlib.mirror.offsets.translation.external_offsets import translate_offsets
from drlib.model import TopicPartition
from drlib.training.academy.lesson import CheckResult, Lesson
from drlib.training.academy.pictures import Line, lines
from drlib.training.academy.stage import KEYS
from drlib.ui.display import Shown

WRITE: Final = "write"
PARTITIONS: Final = 2
TRANSACTIONS: Final = 12
EACH: Final = 40  # records of a transaction, in both partitions
ABORTED: Final = 3  # every third is aborted
EXPIRED: Final = (60, 25)  # records that retention took before the mirror came
READ: Final = (0.5, 0.7)  # of what is left, that the group has read
_WAIT_S: Final = 30.0


class OffsetsDoNotMatch(Lesson):
    key = "L1"
    title = "Offsets do not match across clusters"
    hints = (
        "An offset is a place in one log. Look for the record that comes next, not for the number: lesson.records(...).",
        "lesson.records('LEFT', 0) is what billing reads next there. Find it with lesson.records('RIGHT', 0, offset=...).",
        "drlib.translate_offsets(lesson.file, 'LEFT', 'RIGHT', lesson.positions()) knows; lesson.commit({0: ..., 1: ...}).",
    )
    claims = (
        "in partition 0 billing's next record on RIGHT is its next one on LEFT",
        "in partition 1 it is, too",
        "billing would read on RIGHT what it has not read on LEFT: nothing skipped, nothing twice",
    )

    def write(self) -> Shown:
        """Transactions on LEFT, some aborted, the oldest records expired; then the mirror; then a group somewhere in it."""
        self.step(WRITE, self._write)
        rows = []
        for alias, topic in (("LEFT", self.topic), ("RIGHT", self.copy)):
            starts, ends = self.testbed.bounds(alias, topic)
            for number in range(PARTITIONS):
                records = len(self._log(alias, number))
                rows.append(
                    {
                        "cluster": alias,
                        "partition": number,
                        "log start": starts[number],
                        "log end": ends[number],
                        "records a reader sees": records,
                        "billing stands at": self._said(alias, number),
                    }
                )
        return Shown(
            "The same records, other offsets", rows, note="Markers of transactions take offsets and are no records."
        )

    def positions(self) -> list[tuple[str, int, int]]:
        """billing's positions on LEFT as drlib.translate_offsets takes them: topic, partition, offset."""
        found = self.testbed.positions("LEFT", self.group)
        return [(at.topic, at.partition, offset) for at, offset in sorted(found.items())]

    def verify(self, number: int) -> CheckResult:
        if number in (1, 2):
            return self._next_is_same(number - 1)
        ours = [self._owed(n) for n in range(PARTITIONS)]
        theirs = [self._unread("RIGHT", n) for n in range(PARTITIONS)]
        skipped = sum(len(set(here) - set(there)) for here, there in zip(ours, theirs, strict=True))
        again = sum(len(set(there) - set(here)) for here, there in zip(ours, theirs, strict=True))
        placed = all(self._stands("RIGHT", n) is not None for n in range(PARTITIONS))
        seen = f"{skipped} would be skipped, {again} read again"
        return CheckResult(placed and all(ours) and ours == theirs, seen, "Correct the partition that is off.")

    def records(self, alias: str, partition: int, offset: int | None = None, count: int = 5) -> Shown:
        """`count` records of the topic on LEFT, or its copy on RIGHT, from `offset` or from where billing stands."""
        first = offset if offset is not None else self._stands(alias, partition) or 0
        shown = [r for r in self._log(alias, partition) if r.offset >= first][:count]
        rows = [{"offset": r.offset, "key": _text(r.key), "value": _text(r.value)} for r in shown]
        return Shown(f"{self._name(alias)}-{partition} on {alias}, from {first}", rows)

    def commit(self, positions: Mapping[int, int]) -> Shown:
        """Put billing on RIGHT at `positions`, by partition: an ordinary commit for a group that nobody is in."""
        self.require(WRITE, "lesson.write()")
        wanted = {TopicPartition(self.copy, n): offset for n, offset in positions.items()}
        self.testbed.commit("RIGHT", self.group, wanted)
        return self.fault_state()

    def question(self) -> str:
        self.require(WRITE, "lesson.write()")
        at = self._stands("LEFT", 0)
        return f"billing stands at {at} in {self.topic}-0 on LEFT. At which offset of {self.copy}-0 does it go on at RIGHT?"

    def reference_answer(self) -> str:
        return str(self._translated()[0])

    def show_truth(self) -> Shown:
        rows = []
        for number, offset in enumerate(self._translated()):
            here, there = self._stands("LEFT", number), offset
            rows.append(
                {
                    "partition": number,
                    "on LEFT": here,
                    "next on LEFT": _value(self._log("LEFT", number), here),
                    "on RIGHT": there,
                    "next on RIGHT": _value(self._log("RIGHT", number), there),
                }
            )
        note = f"In partition 0 it is {rows[0]['on RIGHT']}: the map says so, and the record there proves it."
        return Shown("Where billing goes on", rows, note=note)

    def inject_fault(self) -> Mapping[str, int]:
        self.require(WRITE, "lesson.write()")
        found = self.testbed.positions("LEFT", self.group)
        self.testbed.commit(
            "RIGHT", self.group, {TopicPartition(self.copy, at.partition): n for at, n in found.items()}
        )
        return {}

    def fault_state(self) -> Shown:
        rows = []
        for number in range(PARTITIONS):
            ours, theirs = self._unread("LEFT", number), self._unread("RIGHT", number)
            rows.append(
                {
                    "partition": number,
                    "billing on LEFT": self._stands("LEFT", number),
                    "billing on RIGHT": self._said("RIGHT", number),
                    "would be skipped": len(set(ours) - set(theirs)),
                    "would be read again": len(set(theirs) - set(ours)),
                }
            )
        return Shown("billing on RIGHT, as it is committed now", rows, note="Committed is not the same as right.")

    def apply_reference(self) -> None:
        self.commit(dict(enumerate(self._translated())))

    def figure(self) -> go.Figure:
        here, there = self._log("LEFT", 0), self._log("RIGHT", 0)
        placed = {r.value: r.offset for r in there}
        both = [(r.offset, placed[r.value]) for r in here if r.value in placed]
        top = max((x for x, _ in both), default=0)
        ours, theirs = self._stands("LEFT", 0), self._stands("RIGHT", 0)
        drawn = [
            Line("where the record is on RIGHT", [x for x, _ in both], [y for _, y in both], marks=True),
            Line("if offsets were the same", [0, top] if both else [], [0, top] if both else [], dash="dash"),
        ]
        if ours is not None and theirs is not None:
            drawn.append(Line("billing", [ours], [theirs], marks=True))
        return lines("Partition 0: where each record is on either side", drawn, "offset on LEFT", "offset on RIGHT")

    def _name(self, alias: str) -> str:
        return self.topic if alias == "LEFT" else self.copy

    def _write(self) -> Mapping[str, int]:
        """Begun before and not ended, the log is made anew, unless billing stands in it: then it is whole, maybe mirrored."""
        testbed = self.testbed
        positions = testbed.positions("LEFT", self.group)
        if len(positions) < PARTITIONS:
            positions = self._written()
            testbed.commit("LEFT", self.group, positions)
        testbed.start_mirror()
        testbed.wait_crossed(self.topic)
        return {f"stood{at.partition}": offset for at, offset in positions.items()}

    def _written(self) -> dict[TopicPartition, int]:
        """The topic on LEFT, which nobody mirrors yet, and where billing is to stand in it."""
        testbed = self.testbed
        with testbed.cluster("LEFT") as left:
            if left.delete_topic(self.topic):
                testbed.wait("the topic is gone", lambda: not left.topics([self.topic]))
        testbed.make("LEFT", self.topic, PARTITIONS)
        bootstrap = testbed.lab.clusters["LEFT"].bootstrap
        _transactions(bootstrap, self.topic, self.group)
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        gone = [ConfluentTopicPartition(self.topic, n, first) for n, first in enumerate(EXPIRED)]
        for future in admin.delete_records(gone, request_timeout=_WAIT_S).values():
            future.result(_WAIT_S)
        positions = {}
        for number, share in enumerate(READ):
            records = self._log("LEFT", number)
            positions[TopicPartition(self.topic, number)] = records[int(len(records) * share)].offset
        return positions

    def _log(self, alias: str, partition: int) -> list[Record]:
        return [r for r in self.testbed.read(alias, self._name(alias)) if r.partition.partition == partition]

    def _stands(self, alias: str, partition: int) -> int | None:
        return self.testbed.positions(alias, self.group).get(TopicPartition(self._name(alias), partition))

    def _said(self, alias: str, partition: int) -> int | str:
        at = self._stands(alias, partition)
        return "nowhere" if at is None else at

    def _unread(self, alias: str, partition: int) -> list[bytes | None]:
        """What the group would read there; everything where it has no position."""
        first = self._stands(alias, partition)
        return [r.value for r in self._log(alias, partition) if first is None or r.offset >= first]

    def _owed(self, partition: int) -> list[bytes | None]:
        """What billing had not read on LEFT when the lesson began."""
        stood = self.numbers[f"stood{partition}"]
        return [r.value for r in self._log("LEFT", partition) if r.offset >= stood]

    def _translated(self) -> list[int]:
        found = translate_offsets(self.file, "LEFT", "RIGHT", self.positions())
        return [one.translation.offset or 0 for one in found]

    def _next_is_same(self, partition: int) -> CheckResult:
        there = self._stands("RIGHT", partition)
        ours, theirs = self._owed(partition), self._unread("RIGHT", partition)
        look = f"lesson.records('RIGHT', {partition}, offset=...) shows what is where"
        if there is None or not ours:
            return CheckResult(
                False, "billing has no position there" if there is None else "LEFT's records are gone", look
            )
        seen = f"next on LEFT: {_text(ours[0])}; at {there} on RIGHT: {_text(theirs[0]) if theirs else 'no record'}"
        return CheckResult(bool(theirs) and ours[0] == theirs[0] and len(ours) == len(theirs), seen, look)


def _transactions(bootstrap: str, topic: str, name: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(_WAIT_S)
    number = 0
    for turn in range(TRANSACTIONS):
        producer.begin_transaction()
        for _ in range(EACH):
            producer.produce(topic, value=f"order {number}", key=f"key {number % KEYS}", partition=number % PARTITIONS)
            number += 1
        if turn % ABORTED == 1:
            producer.abort_transaction(_WAIT_S)
        else:
            producer.commit_transaction(_WAIT_S)


def _text(value: bytes | None) -> str:
    return (value or b"").decode()


def _value(records: Sequence[Record], position: int | None) -> str:
    """What a reader at `position` gets next."""
    return next((_text(r.value) for r in records if position is not None and r.offset >= position), "")
