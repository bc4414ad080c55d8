"""L3, an unplanned failover: LEFT is killed with records on it that nobody else has, and the learner moves the rest to
RIGHT.

Rules: the break is real: the worker dies first, LEFT goes on acknowledging, then LEFT is killed. What was lost is
counted from what LEFT acknowledged. The group's right position is judged by the records that follow it, which LEFT's
numbers tell; a record counts as written where RIGHT has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import plotly.graph_objects as go
from confluent_kafka import KafkaException, Producer

from drlib.client.active_cluster import active_config
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions, translate_groups
from drlib.model import GroupTranslation, TopicPartition
from drlib.training.academy.lesson import BREAK, CheckResult
from drlib.training.academy.move_lesson import ANSWER_S, MoveLesson, pointer_warnings
from drlib.training.academy.pictures import bars
from drlib.training.academy.stage import OVER
from drlib.ui.display import Shown

TRAFFIC: Final = "traffic"
PARTITIONS: Final = 2
MIRRORED: Final = 800
READ: Final = 250  # of each partition, by the group
TAIL: Final = 150  # acknowledged by LEFT when nobody mirrored any more
_TEST: Final = b"is anybody there?"


class UnplannedFailover(MoveLesson):
    key = "L3"
    title = "An unplanned failover"
    hints = (
        "Three things move: billing's position, the pointer, and with it the producers. LEFT answers nobody any more.",
        "lesson.translate() asks RIGHT alone. Commit what it says, then publish the pointer with drlib.publish_pointer.",
        "lesson.commit({0: ..., 1: ...}) with lesson.translate()'s offsets; then drlib.publish_pointer(lesson.file, 'RIGHT', "
        "lesson.application, topic=lesson.pointer_topic, remote_prefix='LEFT.', cutover=lesson.cutover(), timeout_s=4).",
    )
    claims = (
        "billing goes on at RIGHT with the first record it has not read",
        "the pointer names RIGHT, and where the copy ends",
        "an application that asks the pointer can write",
    )

    def traffic(self) -> Shown:
        """Orders on LEFT, mirrored; billing has read some; the pointer names LEFT."""
        self.step(TRAFFIC, self._traffic)
        return Shown(
            "Before",
            self._rows() if not self.has_done(BREAK) else [],
            note="Positions are kept on RIGHT as checkpoints.",
        )

    def translate(self) -> Shown:
        """Where billing stood on LEFT and what that is on RIGHT, asked of RIGHT alone."""
        return Shown(
            "billing, translated from what RIGHT knows",
            [
                {
                    "partition": one.source.partition,
                    "on LEFT": one.source_offset,
                    "on RIGHT": one.translation.offset,
                    "meaning": one.translation.kind.value,
                }
                for one in self._translated()
            ],
        )

    def commit(self, positions: Mapping[int, int]) -> Shown:
        """Put billing on RIGHT at `positions` in the copy, by partition."""
        self.require(TRAFFIC, "lesson.traffic()")
        self.testbed.commit("RIGHT", self.group, self.in_topic(self.copy, positions))
        return self.fault_state()

    def question(self) -> str:
        return (
            f"{MIRRORED} orders have crossed. The mirror's worker dies, {TAIL} more orders are acknowledged, then LEFT dies. "
            f"After a failover to RIGHT, how many acknowledged orders does nobody find there?"
        )

    def reference_answer(self) -> str:
        return str(TAIL)

    def show_truth(self) -> Shown:
        self.require(BREAK, "lesson.break_it()")
        there = {r.value for r in self.testbed.read("RIGHT", self.copy)}
        acknowledged = self.numbers["acknowledged"]
        lost = [n for n in range(acknowledged) if f"order {n}".encode() not in there]
        rows = [{"what": "acknowledged by LEFT", "orders": acknowledged}, {"what": "on RIGHT", "orders": len(there)}]
        rows.append({"what": "on LEFT's disks alone", "orders": len(lost)})
        first = f", order {lost[0]} to order {lost[-1]}" if lost else ""
        return Shown(
            "What the failover cost", rows, note=f"It is {len(lost)}{first}. No failover brings them: lesson L4 does."
        )

    def inject_fault(self) -> Mapping[str, int]:
        self.require(TRAFFIC, "lesson.traffic()")
        mirror, left = self.testbed.mirror(), self.testbed.lab.clusters["LEFT"]
        mirror.kill()
        if left.alive:
            self.testbed.write("LEFT", self.topic, range(MIRRORED + TAIL), partitions=PARTITIONS)
            left.kill()
        return {"acknowledged": MIRRORED + TAIL}

    def fault_state(self) -> Shown:
        alive = self.testbed.lab.clusters["LEFT"].alive
        found = self.pointer()
        stands = self.testbed.positions("RIGHT", self.group)
        rows: list[dict[str, object]] = [
            {"what": "LEFT", "now": "serves" if alive else "is dead (SIGKILL)"},
            {"what": "the pointer names", "now": "nobody" if found is None else found.active},
        ]
        for number in range(PARTITIONS):
            at = stands.get(TopicPartition(self.copy, number))
            rows.append(
                {"what": f"billing in {self.copy}-{number} on RIGHT", "now": "nowhere" if at is None else str(at)}
            )
        return Shown("After", rows, note="Applications wait for a pointer that names a cluster which lives.")

    def apply_reference(self) -> None:
        self.commit({one.source.partition: one.translation.offset or 0 for one in self._translated()})
        self.point_at("RIGHT")

    def verify(self, number: int) -> CheckResult:
        self.require(TRAFFIC, "lesson.traffic()")
        return (self._group_is_right, self._pointer_is_right, self._can_write)[number - 1]()

    def figure(self) -> go.Figure:
        there: list[int] = [0] * PARTITIONS
        for record in self.testbed.read("RIGHT", self.copy):
            there[record.partition.partition] += 1
        each = self.numbers.get("acknowledged", MIRRORED) // PARTITIONS
        series = {
            "read before": [READ] * PARTITIONS,
            "to be read at RIGHT": [n - READ for n in there],
            "lost for now": [each - n for n in there],
        }
        names = [f"partition {number}" for number in range(PARTITIONS)]
        return bars("What LEFT had acknowledged", names, series, "orders", stacked=True)

    def _traffic(self) -> None:
        testbed = self.testbed
        for alias in ("LEFT", "RIGHT"):  # on RIGHT it waits for producers that move
            testbed.make(alias, self.topic, PARTITIONS)
        testbed.make("RIGHT", testbed.name("answers"), 1)
        testbed.write("LEFT", self.topic, range(MIRRORED), partitions=PARTITIONS)
        positions = self.in_topic(self.topic, dict.fromkeys(range(PARTITIONS), READ))
        testbed.commit("LEFT", self.group, positions)
        testbed.start_mirror()
        testbed.wait_crossed(self.topic)
        self.point_at("LEFT")
        wanted = {(self.group, at): offset for at, offset in positions.items()}
        testbed.wait("billing's checkpoint is on RIGHT", lambda: wanted.items() <= self._checkpoints().items())

    def _checkpoints(self) -> dict[tuple[str, TopicPartition], int]:
        found = checkpointed_positions(self.testbed.settings, OVER)
        return {key: known.offset for key, known in found.items()}

    def _translated(self) -> list[GroupTranslation]:
        found = translate_groups(self.testbed.settings, OVER, [self.group], source_alive=False)
        return [one for one in found if one.source.topic == self.topic]

    def _rows(self) -> list[dict[str, object]]:
        stands = self.testbed.positions("LEFT", self.group)
        ends = self.testbed.ends("LEFT", self.topic)
        return [
            {"partition": n, "orders on LEFT": end, "billing stands at": stands.get(TopicPartition(self.topic, n))}
            for n, end in enumerate(ends)
        ]

    def _group_is_right(self) -> CheckResult:
        stands = self.testbed.positions("RIGHT", self.group)
        records = self.testbed.read("RIGHT", self.copy)
        wrong = []
        for number in range(PARTITIONS):
            at = stands.get(TopicPartition(self.copy, number))
            wanted = [f"order {n}" for n in range(READ * PARTITIONS + number, MIRRORED, PARTITIONS)]
            behind = [r for r in records if at is not None and r.partition.partition == number and r.offset >= at]
            following = [(r.value or b"").decode() for r in behind[: len(wanted)]]
            if following != wanted:
                found = "unknown" if at is None else following[0] if following else "nothing"
                more = f" with all up to {wanted[-1]} behind it" if found == wanted[0] else ""
                wrong.append(f"partition {number}: next is {found}, should be {wanted[0]}{more}")
        return CheckResult(
            not wrong,
            "; ".join(wrong) or "the next order is the right one",
            "lesson.translate(), then lesson.commit(...)",
        )

    def _pointer_is_right(self) -> CheckResult:
        found, publish = self.pointer(), "drlib.publish_pointer(lesson.file, 'RIGHT', ...)"
        if found is None or found.active != "RIGHT":
            return CheckResult(False, f"it names {'nobody' if found is None else found.active}", publish)
        last = [0] * PARTITIONS
        for record in self.testbed.read("RIGHT", self.copy):
            last[record.partition.partition] = record.offset + 1
        told = found.cutover.get(self.copy, ()) if found.remote_prefix == "LEFT." else ()
        ends = self.testbed.ends("RIGHT", self.copy)
        fits = len(told) == PARTITIONS and all(a <= b <= c for a, b, c in zip(last, told, ends, strict=True))
        said = f"it names RIGHT, the copy to be read to {', '.join(map(str, told)) or 'nowhere'}"
        return CheckResult(
            fits, said, "cutover=lesson.cutover() and remote_prefix='LEFT.' say what is to be read first"
        )

    def _can_write(self) -> CheckResult:
        where = {"topic": self.pointer_topic, "timeout_s": ANSWER_S}
        with pointer_warnings() as doubted:
            config = active_config(self.application, self.file, **where)  # type: ignore[arg-type]
        answers = self.testbed.name("answers")
        before = self.testbed.ends("RIGHT", answers)
        producer = Producer({**config, "message.timeout.ms": int(ANSWER_S * 1000), "log_level": 0})
        refused: list[str] = []
        try:
            producer.produce(
                answers,
                _TEST,
                on_delivery=lambda error, _: refused.append(str(error)) if error else None,
            )
            left = producer.flush(ANSWER_S + 1)
        except KafkaException as error:
            refused, left = [str(error)], 1
        taken, there = not left and not refused, self.testbed.ends("RIGHT", answers) != before
        holds = taken and there
        seen = (
            "its record was acknowledged by RIGHT"
            if holds
            else f"nobody at {config['bootstrap.servers']} took its record"
        )
        if taken and not there:
            seen = "its record was acknowledged, and RIGHT does not have it"
        if doubted:
            seen += "; not every cluster could be asked for the pointer"
        return CheckResult(holds, seen, "Which cluster does the pointer name?")
