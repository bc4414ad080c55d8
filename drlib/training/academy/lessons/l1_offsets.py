"""L1, offsets differ between clusters: a group's position is translated by hand, then with the offset map.

Rules: the logs really differ: retention deleted the first records on LEFT before they could be mirrored, and the producer
used transactions, some of them aborted, whose markers take offsets. The fault is a script's: it copies offsets from one
cluster to the other. A position is judged by the records behind it on both clusters, not by the map. What billing had still
to read on LEFT is taken from the start of the lesson, because the group can be moved on LEFT as well.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import plotly.graph_objects as go
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import AdminClient

from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.admin.descriptions import Record
from drlib.kafka.admin.transactions import wait_visible
from drlib.mirror.offsets.translation.external_offsets import translate_offsets
from drlib.model import TopicPartition
from drlib.runs.table import Table
from drlib.training.academy.lesson import CheckResult, Lesson
from drlib.training.academy.pictures import Line, lines
from drlib.training.academy.points import Teaching
from drlib.training.academy.testbed import KEYS

WRITE: Final = "write"
PARTITIONS: Final = 2
TRANSACTIONS: Final = 12
EACH: Final = 40  # records of a transaction, in both partitions
ABORTED: Final = 3  # every third is aborted
EXPIRED: Final = (60, 25)  # offsets of each partition that are deleted before the mirror starts
READ: Final = (0.5, 0.7)  # share of the remaining records that the group has read
_WAIT_S: Final = 30.0


class OffsetsDoNotMatch(Lesson):
    key = "L1"
    title = "Offsets do not match across clusters"
    first = (WRITE, "lesson.write()")
    teaching = Teaching(
        high="There billing would skip records, without an error: what LEFT deleted or aborted has no offset on RIGHT.",
        low="There billing would read again what it has read on LEFT: nothing is lost, but it handles those records twice.",
        pending="LEFT has the record that billing reads next",
    )
    hints = (
        "An offset is valid in one log only. Look for the next record, not for the number: lesson.records(...).",
        "lesson.records('LEFT', 0) shows billing's next record on LEFT. Find it with lesson.records('RIGHT', 0, offset=...).",
        "drlib.translate_offsets(lesson.file, 'LEFT', 'RIGHT', lesson.positions()) gives the offsets for "
        "lesson.commit({0: ..., 1: ...}).",
    )
    claims = (
        "in partition 0, billing's next record is the same on RIGHT as on LEFT",
        "in partition 1, billing's next record is the same on RIGHT as on LEFT",
        "on RIGHT billing would read exactly what it has not read on LEFT",
    )

    def write(self) -> Table:
        """Write transactions to LEFT, delete the oldest records, start the mirror, and place group billing."""
        self.step(WRITE, self._write)
        rows = []
        for alias, topic in (("LEFT", self.topic), ("RIGHT", self.copy)):
            starts, ends = self.testbed.log_bounds(alias, topic)
            for number in range(PARTITIONS):
                rows.append(
                    {
                        "cluster": alias,
                        "partition": number,
                        "log start offset": starts[number],
                        "end offset": ends[number],
                        "visible records": len(self._log(alias, number)),
                        "billing's offset": self._position_text(alias, number),
                    }
                )
        note = "Transaction markers take offsets but are not visible to consumers."
        return Table("The same records at different offsets", rows, note=note)

    def positions(self) -> list[tuple[str, int, int]]:
        """billing's positions on LEFT as drlib.translate_offsets takes them: topic, partition, offset."""
        self.require(*self.first)
        positions = self.testbed.positions("LEFT", self.group)
        return [(partition.topic, partition.partition, offset) for partition, offset in sorted(positions.items())]

    def records(self, alias: str, partition: int, offset: int | None = None, count: int = 5) -> Table:
        """Show `count` records of the topic on LEFT, or of its mirror topic on RIGHT, from `offset` or billing's position."""
        self.require(*self.first)
        first = offset if offset is not None else self._position(alias, partition) or 0
        shown = [record for record in self._log(alias, partition) if record.offset >= first][:count]
        rows = [{"offset": r.offset, "key": _text(r.key), "value": _text(r.value)} for r in shown]
        return Table(f"{self._topic_on(alias)}-{partition} on {alias}, from offset {first}", rows)

    def commit(self, positions: Mapping[int, int]) -> Table:
        """Commit billing's offsets on RIGHT, by partition. The group has no members, so this is an ordinary offset reset."""
        self.require(WRITE, "lesson.write()")
        committed = {TopicPartition(self.copy, number): offset for number, offset in positions.items()}
        self.testbed.commit("RIGHT", self.group, committed)
        return self.fault_state()

    def question(self) -> str:
        return (
            f"billing's committed offset in {self.topic}-0 on LEFT is {self._position('LEFT', 0)}. "
            f"From which offset of {self.copy}-0 on RIGHT does it have to continue?"
        )

    def reference_answer(self) -> str:
        return str(self._translated()[0])

    def measured(self) -> float | None:
        """Where the record is on RIGHT that billing reads next on LEFT, found in the logs and not by the map."""
        unread = self._unread_at_start(0)
        found = [record.offset for record in self._log("RIGHT", 0) if unread and record.value == unread[0]]
        return found[0] if found else None

    def show_truth(self) -> Table:
        rows = []
        for number, target in enumerate(self._translated()):
            source = self._position("LEFT", number)
            rows.append(
                {
                    "partition": number,
                    "on LEFT": source,
                    "next on LEFT": _next_value(self._log("LEFT", number), source),
                    "on RIGHT": target,
                    "next on RIGHT": _next_value(self._log("RIGHT", number), target),
                }
            )
        note = f"In partition 0 it is {rows[0]['on RIGHT']}: the offset map gives it, and the next record confirms it."
        return Table("Where billing continues", rows, note=note)

    def inject_fault(self) -> Mapping[str, int]:
        positions = self.testbed.positions("LEFT", self.group)
        copied = {TopicPartition(self.copy, partition.partition): offset for partition, offset in positions.items()}
        self.testbed.commit("RIGHT", self.group, copied)
        return {}

    def fault_state(self) -> Table:
        rows = []
        for number in range(PARTITIONS):
            left, right = self._unread("LEFT", number), self._unread("RIGHT", number)
            rows.append(
                {
                    "partition": number,
                    "billing's offset on LEFT": self._position("LEFT", number),
                    "billing's offset on RIGHT": self._position_text("RIGHT", number),
                    "would be skipped": len(set(left) - set(right)),
                    "would be read again": len(set(right) - set(left)),
                }
            )
        note = "Kafka accepts any offset; it does not check whether it is the right one."
        return Table("billing's committed offsets", rows, note=note)

    def apply_reference(self) -> None:
        self.commit(dict(enumerate(self._translated())))

    def verify(self, number: int) -> CheckResult:
        if number in (1, 2):
            return self._check_next_record(number - 1)
        expected = [self._unread_at_start(n) for n in range(PARTITIONS)]
        actual = [self._unread("RIGHT", n) for n in range(PARTITIONS)]
        skipped = sum(len(set(left) - set(right)) for left, right in zip(expected, actual, strict=True))
        again = sum(len(set(right) - set(left)) for left, right in zip(expected, actual, strict=True))
        placed = all(self._position("RIGHT", n) is not None for n in range(PARTITIONS))
        observed = f"{skipped} would be skipped, {again} read again"
        return CheckResult(
            placed and all(expected) and expected == actual, observed, "A partition is at the wrong place."
        )

    def figure(self) -> go.Figure:
        source, copied = self._log("LEFT", 0), self._log("RIGHT", 0)
        target_offsets = {record.value: record.offset for record in copied}
        both = [(record.offset, target_offsets[record.value]) for record in source if record.value in target_offsets]
        top = max((left for left, _ in both), default=0)
        left, right = self._position("LEFT", 0), self._position("RIGHT", 0)
        drawn = [
            Line("offset of the record on RIGHT", [x for x, _ in both], [y for _, y in both], marks=True),
            Line("if offsets were the same", [0, top] if both else [], [0, top] if both else [], dash="dash"),
        ]
        if left is not None and right is not None:
            drawn.append(Line("billing", [left], [right], marks=True))
        return lines("Partition 0: offset of each record on both sides", drawn, "offset on LEFT", "offset on RIGHT")

    def _topic_on(self, alias: str) -> str:
        return self.topic if alias == "LEFT" else self.copy

    def _write(self) -> Mapping[str, int]:
        """Write the log again after an interruption, unless billing has its offsets: then it is complete."""
        testbed = self.testbed
        positions = testbed.positions("LEFT", self.group)
        if len(positions) < PARTITIONS:
            positions = self._write_log()
            testbed.commit("LEFT", self.group, positions)
        testbed.start_mirror()
        testbed.wait_mirrored(self.topic)
        return {f"stood{partition.partition}": offset for partition, offset in positions.items()}

    def _write_log(self) -> dict[TopicPartition, int]:
        """Create the topic on LEFT, which is not mirrored yet; returns the positions for billing."""
        testbed = self.testbed
        with testbed.cluster("LEFT") as left:
            if left.delete_topic(self.topic):
                testbed.wait("the topic is deleted", lambda: not left.topics([self.topic]))
        testbed.create_topic("LEFT", self.topic, PARTITIONS)
        client = {**librdkafka(testbed.lab.clusters["LEFT"].settings()), "log_level": 0}
        _write_transactions(client, self.topic, self.group)
        with testbed.cluster("LEFT") as left:
            ends = left.log_ends(TopicPartition(self.topic, number) for number in range(PARTITIONS))
            wait_visible(left, {partition: end - 1 for partition, end in ends.items()}, _WAIT_S)
        admin = AdminClient(client)
        expired = [ConfluentTopicPartition(self.topic, number, first) for number, first in enumerate(EXPIRED)]
        for future in admin.delete_records(expired, request_timeout=_WAIT_S).values():
            future.result(_WAIT_S)
        positions = {}
        for number, share in enumerate(READ):
            records = self._log("LEFT", number)
            positions[TopicPartition(self.topic, number)] = records[int(len(records) * share)].offset
        return positions

    def _log(self, alias: str, partition: int) -> list[Record]:
        return [r for r in self.testbed.read(alias, self._topic_on(alias)) if r.partition.partition == partition]

    def _position(self, alias: str, partition: int) -> int | None:
        return self.testbed.positions(alias, self.group).get(TopicPartition(self._topic_on(alias), partition))

    def _position_text(self, alias: str, partition: int) -> int | str:
        position = self._position(alias, partition)
        return "none" if position is None else position

    def _unread(self, alias: str, partition: int) -> list[bytes | None]:
        """The records the group would read on a cluster; all of them without a committed offset."""
        first = self._position(alias, partition)
        return [r.value for r in self._log(alias, partition) if first is None or r.offset >= first]

    def _unread_at_start(self, partition: int) -> list[bytes | None]:
        """The records billing had not read on LEFT when the lesson began."""
        first = self.numbers[f"stood{partition}"]
        return [r.value for r in self._log("LEFT", partition) if r.offset >= first]

    def _translated(self) -> list[int]:
        translated = translate_offsets(self.file, "LEFT", "RIGHT", self.positions())
        return [item.translation.offset or 0 for item in translated]

    def _check_next_record(self, partition: int) -> CheckResult:
        position = self._position("RIGHT", partition)
        expected, actual = self._unread_at_start(partition), self._unread("RIGHT", partition)
        if position is None:
            return CheckResult(
                False, "billing has no committed offset on RIGHT", "Its position is to be committed there."
            )
        if not expected:
            return CheckResult(False, "LEFT's records are deleted", "Nothing is left to compare with.", for_good=True)
        right = _text(actual[0]) if actual else "no record"
        observed = f"next on LEFT: {_text(expected[0])}; at {position} on RIGHT: {right}"
        same = bool(actual) and expected[0] == actual[0] and len(expected) == len(actual)
        return CheckResult(same, observed, "The record at the committed offset is not the next one of billing.")


def _write_transactions(client: Mapping[str, object], topic: str, transactional_id: str) -> None:
    producer = Producer({**client, "transactional.id": transactional_id})
    producer.init_transactions(_WAIT_S)
    number = 0
    for transaction in range(TRANSACTIONS):
        producer.begin_transaction()
        for _ in range(EACH):
            producer.produce(topic, value=f"order {number}", key=f"key {number % KEYS}", partition=number % PARTITIONS)
            number += 1
        if transaction % ABORTED == 1:
            producer.abort_transaction(_WAIT_S)
        else:
            producer.commit_transaction(_WAIT_S)


def _text(value: bytes | None) -> str:
    return (value or b"").decode()


def _next_value(records: Sequence[Record], position: int | None) -> str:
    """The value of the first record at or behind `position`."""
    return next((_text(r.value) for r in records if position is not None and r.offset >= position), "")
