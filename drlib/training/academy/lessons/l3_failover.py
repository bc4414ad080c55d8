"""L3, an unplanned failover: LEFT is killed while it has records that RIGHT does not have, and the learner moves to RIGHT.

Rules: the fault is real: the worker is killed first, LEFT acknowledges more records, then LEFT is killed. The loss is
counted from what LEFT acknowledged. The group's position is judged by the records behind it on RIGHT. A write counts if
RIGHT has the record.
"""

from collections.abc import Mapping
from typing import Final

import plotly.graph_objects as go
from confluent_kafka import KafkaException, Producer

from drlib.client.active_cluster import active_config
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions, translate_groups
from drlib.model import GroupTranslation, TopicPartition
from drlib.runs.table import Table
from drlib.training.academy.lesson import BREAK, CheckResult
from drlib.training.academy.move_lesson import ANSWER_S, MoveLesson, pointer_warnings
from drlib.training.academy.pictures import bars
from drlib.training.academy.points import Teaching
from drlib.training.academy.testbed import FORWARD

TRAFFIC: Final = "traffic"
PARTITIONS: Final = 2
MIRRORED: Final = 800
READ: Final = 250  # of each partition, by the group
TAIL: Final = 150  # acknowledged by LEFT after the worker was killed
_TEST: Final = b"test record"


class UnplannedFailover(MoveLesson):
    key = "L3"
    title = "An unplanned failover"
    first = (TRAFFIC, "lesson.traffic()")
    teaching = Teaching(
        high="What only LEFT has cannot be read on RIGHT, and an exact checkpoint makes billing read nothing again.",
        low="billing continues at its checkpoint, not at the end: what was mirrored before it had read it is still to be read.",
    )
    hints = (
        "Move billing's position and the pointer; the producers follow the pointer. LEFT does not answer any more.",
        "lesson.translate() asks RIGHT only. Commit its offsets, then publish the pointer with drlib.publish_pointer.",
        "lesson.commit({0: ..., 1: ...}) with the offsets of lesson.translate(); then drlib.publish_pointer(lesson.file, "
        "'RIGHT', lesson.application, topic=lesson.pointer_topic, remote_prefix='LEFT.', cutover=lesson.cutover(), "
        "timeout_s=4).",
    )
    claims = (
        "billing continues on RIGHT with the first order it has not read",
        "the pointer names RIGHT and the end of the mirror topic",
        "an application that follows the pointer can write",
    )

    def traffic(self) -> Table:
        """Write and mirror orders; place billing in the middle; publish a pointer to LEFT."""
        self.step(TRAFFIC, self._traffic)
        rows = [] if self.has_done(BREAK) else self._rows()
        return Table("Before the failover", rows, note="The mirror keeps group positions on RIGHT as checkpoints.")

    def translate(self) -> Table:
        """Show billing's positions on LEFT and their translation, both known to RIGHT alone."""
        self.require(*self.first)
        rows = [
            {
                "partition": item.source.partition,
                "on LEFT": item.source_offset,
                "on RIGHT": item.translation.offset,
                "meaning": item.translation.kind.value,
            }
            for item in self._translated()
        ]
        return Table("billing, translated from what RIGHT knows", rows)

    def commit(self, positions: Mapping[int, int]) -> Table:
        """Commit billing's offsets in the mirror topic on RIGHT, by partition."""
        self.require(TRAFFIC, "lesson.traffic()")
        self.testbed.commit("RIGHT", self.group, self.in_topic(self.copy, positions))
        return self.fault_state()

    def question(self) -> str:
        return (
            f"All orders of the table above are mirrored. The worker is killed, LEFT acknowledges {TAIL} more, then LEFT is "
            "killed. billing, whose offsets the table shows, continues on RIGHT at its checkpoint. How many orders does it "
            "find there that it has not read?"
        )

    def reference_answer(self) -> str:
        return str(MIRRORED - READ * PARTITIONS)

    def measured(self) -> float | None:
        """The orders on RIGHT at and behind billing's translated offsets."""
        offsets = {item.source.partition: item.translation.offset for item in self._translated()}
        if len(offsets) < PARTITIONS or None in offsets.values():
            return None
        return sum(r.offset >= (offsets[r.partition.partition] or 0) for r in self.testbed.read("RIGHT", self.copy))

    def show_truth(self) -> Table:
        copied = {record.value for record in self.testbed.read("RIGHT", self.copy)}
        acknowledged = self.numbers["acknowledged"]
        missing = [number for number in range(acknowledged) if f"order {number}".encode() not in copied]
        rows = [
            {"what": "acknowledged by LEFT", "orders": acknowledged},
            {"what": "on RIGHT", "orders": len(copied)},
            {"what": "only on LEFT's disks", "orders": len(missing)},
        ]
        names = f", order {missing[0]} to order {missing[-1]}" if missing else ""
        note = f"Missing on RIGHT: {len(missing)}{names}. A failover cannot recover them; lesson L4 does, when LEFT is back."
        return Table("The cost of the failover", rows, note=note)

    def inject_fault(self) -> Mapping[str, int]:
        left = self.testbed.lab.clusters["LEFT"]
        self.kill_worker(self.testbed.mirror())
        if left.alive:
            self.testbed.write("LEFT", self.topic, range(MIRRORED + TAIL), partitions=PARTITIONS)
            self.kill_cluster("LEFT")
        return {"acknowledged": MIRRORED + TAIL}

    def fault_state(self) -> Table:
        left_runs = self.testbed.lab.clusters["LEFT"].alive
        pointer = self.pointer()
        positions = self.testbed.positions("RIGHT", self.group)
        rows: list[dict[str, object]] = [
            {"what": "LEFT", "state": "runs" if left_runs else "was killed (SIGKILL)"},
            {"what": "the pointer names", "state": "no cluster" if pointer is None else pointer.active},
        ]
        for number in range(PARTITIONS):
            offset = positions.get(TopicPartition(self.copy, number))
            what = f"billing's offset in {self.copy}-{number} on RIGHT"
            rows.append({"what": what, "state": "none" if offset is None else str(offset)})
        return Table("Current state", rows, note="Applications wait until the pointer names a cluster that answers.")

    def apply_reference(self) -> None:
        self.commit({item.source.partition: item.translation.offset or 0 for item in self._translated()})
        self.point_at("RIGHT")

    def verify(self, number: int) -> CheckResult:
        return (self._check_group, self._check_pointer, self._check_write)[number - 1]()

    def figure(self) -> go.Figure:
        copied = [0] * PARTITIONS
        for record in self.testbed.read("RIGHT", self.copy):
            copied[record.partition.partition] += 1
        each = self.numbers.get("acknowledged", MIRRORED) // PARTITIONS
        series = {
            "read before": [READ] * PARTITIONS,
            "to be read on RIGHT": [count - READ for count in copied],
            "missing on RIGHT": [each - count for count in copied],
        }
        names = [f"partition {number}" for number in range(PARTITIONS)]
        return bars("What LEFT had acknowledged", names, series, "orders", stacked=True)

    def _traffic(self) -> None:
        testbed = self.testbed
        for alias in ("LEFT", "RIGHT"):  # the topic on RIGHT is for producers after the failover
            testbed.create_topic(alias, self.topic, PARTITIONS)
        testbed.create_topic("RIGHT", self._answers, 1)
        testbed.write("LEFT", self.topic, range(MIRRORED), partitions=PARTITIONS)
        positions = self.in_topic(self.topic, dict.fromkeys(range(PARTITIONS), READ))
        testbed.commit("LEFT", self.group, positions)
        testbed.start_mirror()
        testbed.wait_mirrored(self.topic)
        self.point_at("LEFT")
        wanted = {(self.group, partition): offset for partition, offset in positions.items()}
        testbed.wait("billing's checkpoint is on RIGHT", lambda: wanted.items() <= self._checkpoints().items())

    @property
    def _answers(self) -> str:
        """The topic on RIGHT to which check 3 writes."""
        return self.testbed.name("answers")

    def _checkpoints(self) -> dict[tuple[str, TopicPartition], int]:
        checkpoints = checkpointed_positions(self.testbed.settings, FORWARD)
        return {key: known.offset for key, known in checkpoints.items()}

    def _translated(self) -> list[GroupTranslation]:
        translated = translate_groups(self.testbed.settings, FORWARD, [self.group], source_alive=False)
        return [item for item in translated if item.source.topic == self.topic]

    def _rows(self) -> list[dict[str, object]]:
        positions = self.testbed.positions("LEFT", self.group)
        return [
            {
                "partition": number,
                "orders on LEFT": end,
                "billing's offset": positions.get(TopicPartition(self.topic, number)),
            }
            for number, end in enumerate(self.testbed.end_offsets("LEFT", self.topic))
        ]

    def _check_group(self) -> CheckResult:
        positions = self.testbed.positions("RIGHT", self.group)
        records = self.testbed.read("RIGHT", self.copy)
        wrong = []
        for number in range(PARTITIONS):
            offset = positions.get(TopicPartition(self.copy, number))
            expected = [f"order {n}" for n in range(READ * PARTITIONS + number, MIRRORED, PARTITIONS)]
            unread = [
                r for r in records if offset is not None and r.partition.partition == number and r.offset >= offset
            ]
            actual = [(record.value or b"").decode() for record in unread[: len(expected)]]
            if actual != expected:
                first = "unknown" if offset is None else actual[0] if actual else "none"
                wrong.append(f"partition {number}: next order is {first}, {len(unread)} are behind that place")
        observed = "; ".join(wrong) or "the next orders are the right ones"
        return CheckResult(not wrong, observed, "billing is not where RIGHT knows that it was on LEFT.")

    def _check_pointer(self) -> CheckResult:
        pointer = self.pointer()
        if pointer is None or pointer.active != "RIGHT":
            observed = f"it names {'no cluster' if pointer is None else pointer.active}"
            return CheckResult(False, observed, "Applications still look for LEFT.")
        last = [0] * PARTITIONS
        for record in self.testbed.read("RIGHT", self.copy):
            last[record.partition.partition] = record.offset + 1
        cutover = pointer.cutover.get(self.copy, ()) if pointer.remote_prefix == "LEFT." else ()
        ends = self.testbed.end_offsets("RIGHT", self.copy)
        right = len(cutover) == PARTITIONS and all(
            least <= offset <= most for least, offset, most in zip(last, cutover, ends, strict=True)
        )
        observed = f"it names RIGHT; cutover of the mirror topic: {', '.join(map(str, cutover)) or 'none'}"
        return CheckResult(right, observed, "It does not say up to where the mirror topic is to be read first.")

    def _check_write(self) -> CheckResult:
        options = {"topic": self.pointer_topic, "timeout_s": ANSWER_S}
        with pointer_warnings() as warnings:
            config = active_config(self.application, self.file, **options)  # type: ignore[arg-type]
        ends = self.testbed.end_offsets("RIGHT", self._answers)
        acknowledged = _write_test_record(config, self._answers)
        on_right = self.testbed.end_offsets("RIGHT", self._answers) != ends
        if acknowledged and on_right:
            observed = "RIGHT acknowledged the application's record"
        elif acknowledged:
            observed = "the record was acknowledged, but RIGHT does not have it"
        else:
            observed = f"{config['bootstrap.servers']} did not acknowledge the application's record"
        if warnings:
            observed += "; a cluster did not answer for the pointer"
        return CheckResult(
            acknowledged and on_right, observed, "The pointer does not lead it to a cluster that serves."
        )


def _write_test_record(config: Mapping[str, object], topic: str) -> bool:
    """Write a record as the application would; True if it was acknowledged within `ANSWER_S` seconds."""
    errors: list[str] = []
    producer = Producer({**config, "message.timeout.ms": int(ANSWER_S * 1000), "log_level": 0})
    try:
        producer.produce(topic, _TEST, on_delivery=lambda error, _: errors.append(str(error)) if error else None)
        return not producer.flush(ANSWER_S + 1) and not errors
    except KafkaException:
        return False
