"""L4, failback and the tail: LEFT is back with orders that nobody else has, and RIGHT has some that LEFT never saw.

Rules: the tail is real: acknowledged by LEFT after the worker's death and before its own. Applications have moved to
RIGHT and worked there. The repair is in three parts, each by what drills use: settle the tail, let RIGHT's records flow
back, put the group where it stood. A tail that was settled once is not settled again. What the group had read at RIGHT
is known from the lesson, since a group can be moved there, too.
Not for: moving producers home, which a planned switchover does (notebook 03).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import plotly.graph_objects as go

from drlib.errors import UsageError
from drlib.kafka.admin.descriptions import Record
from drlib.mirror.offsets.translation.external_offsets import translate_offsets
from drlib.mirror.offsets.unreplicated.find import UnreplicatedRecords, read_tail
from drlib.mirror.offsets.unreplicated.rules import Settle, quarantine_topic
from drlib.mirror.offsets.unreplicated.settle import settle_tail
from drlib.model import TopicPartition
from drlib.training.academy.lesson import BREAK, CheckResult
from drlib.training.academy.move_lesson import MoveLesson
from drlib.training.academy.pictures import bars
from drlib.training.academy.stage import KEYS, OVER
from drlib.ui.display import Shown

TRAFFIC: Final = "traffic"
PARTITIONS: Final = 2
MIRRORED: Final = 600
TAIL: Final = 100
LATER: Final = 200  # written to RIGHT after the failover
READ: Final = 40  # of those, in each partition, by the group
BACK: Final = OVER.reverse


class FailbackAndTail(MoveLesson):
    key = "L4"
    title = "Failback and the tail"
    hints = (
        "Nobody may mirror LEFT before its tail is settled: it would come behind the cutover, where nobody reads any more.",
        "lesson.tail() tells it, lesson.settle('recover') or ('quarantine') settles it; lesson.flow_back() mirrors RIGHT.",
        "lesson.settle('recover'); lesson.flow_back(); then drlib.translate_offsets(lesson.file, 'RIGHT', 'LEFT', "
        "lesson.positions()) says what to give to lesson.commit({0: ..., 1: ...}).",
    )
    claims = (
        "every order of LEFT's tail is on RIGHT, once",
        "all that RIGHT took is on LEFT, in order",
        "billing goes on at LEFT with the order it would have read next at RIGHT",
    )

    def traffic(self) -> Shown:
        """Orders on LEFT, all of them mirrored."""
        self.step(TRAFFIC, self._traffic)
        return self._where()

    def tail(self) -> Shown:
        """What only LEFT has: told from the map, record by record."""
        self.require(BREAK, "lesson.break_it()")
        found = self._tail()
        rows = [
            {
                "partition": part.partition.partition,
                "mirrored to": part.mirrored,
                "ends at": part.end,
                "records": part.records,
            }
            for part in found.partitions
        ]
        return Shown(
            f"LEFT's tail: {found.records} records",
            rows,
            note="Settled records are told here still; they stay on LEFT.",
        )

    def settle(self, how: str = "recover") -> Shown:
        """Bring the tail to RIGHT once: recover writes it to the topic, quarantine sets it aside for somebody to decide."""
        self.require(BREAK, "lesson.break_it()")
        if how not in (Settle.RECOVER, Settle.QUARANTINE):
            raise UsageError(
                f"a tail is not settled by {how!r}", "it is brought over or set aside", "Use recover or quarantine."
            )
        self.testbed.wait_nobody()
        done = settle_tail(self.testbed.settings, self._tail(), Settle(how), f"academy/{self.testbed.prefix}settle")
        rows = [{"recovered": done.recovered, "in quarantine": done.in_quarantine}]
        return Shown("The tail, settled", rows, note="Run again, it goes on where it ended and doubles nothing.")

    def flow_back(self) -> Shown:
        """Mirror RIGHT's orders to LEFT, where they are called RIGHT.(topic), until all of them are there."""
        self.require(BREAK, "lesson.break_it()")
        self.testbed.start_mirror(BACK)
        self.testbed.wait_crossed(self.topic, BACK)
        return self._where()

    def positions(self) -> list[tuple[str, int, int]]:
        """billing's positions in RIGHT's own topic, as drlib.translate_offsets takes them: topic, partition, offset."""
        found = self.testbed.positions("RIGHT", self.group)
        return [(at.topic, at.partition, offset) for at, offset in sorted(found.items()) if at.topic == self.topic]

    def commit(self, positions: Mapping[int, int]) -> Shown:
        """Put billing on LEFT at `positions` in RIGHT's copy, by partition."""
        self.require(BREAK, "lesson.break_it()")
        self.testbed.commit("LEFT", self.group, self.in_topic(self._home, positions))
        return self._where()

    def question(self) -> str:
        return (
            f"{MIRRORED} orders have crossed. The worker dies, {TAIL} more are acknowledged by LEFT, LEFT dies. "
            f"RIGHT takes over and {LATER} orders of its own. LEFT comes back: how many orders does it have that RIGHT has not?"
        )

    def reference_answer(self) -> str:
        return str(TAIL)

    def show_truth(self) -> Shown:
        self.require(BREAK, "lesson.break_it()")
        found = self.numbers["tail"]
        note = f"It was {found}. Settled, every one of them is on RIGHT as well: see the check."
        return Shown(
            "LEFT's tail", [{"what": "orders that only LEFT had when it came back", "value": found}], note=note
        )

    def inject_fault(self) -> Mapping[str, int]:
        self.require(TRAFFIC, "lesson.traffic()")
        testbed, mirror, left = self.testbed, self.testbed.mirror(), self.testbed.lab.clusters["LEFT"]
        mirror.kill()
        if left.alive:
            testbed.write("LEFT", self.topic, range(MIRRORED + TAIL), partitions=PARTITIONS)
            left.kill()
        first = MIRRORED + TAIL
        testbed.write("RIGHT", self.topic, range(first, first + LATER), partitions=PARTITIONS)
        ends = testbed.ends("RIGHT", self.copy)
        positions = {
            **self.in_topic(self.copy, dict(enumerate(ends))),
            **self.in_topic(self.topic, dict.fromkeys(range(PARTITIONS), READ)),
        }
        testbed.commit("RIGHT", self.group, positions)
        left.restart()
        testbed.wait_nobody()
        return {"tail": self._tail().records}

    def fault_state(self) -> Shown:
        return self._where()

    def apply_reference(self) -> None:
        self.settle("recover")
        self.flow_back()
        found = translate_offsets(self.file, "RIGHT", "LEFT", self.positions())
        self.commit({one.source.partition: one.translation.offset or 0 for one in found})

    def verify(self, number: int) -> CheckResult:
        self.require(BREAK, "lesson.break_it()")
        return (self._tail_is_settled, self._flowed_back, self._group_is_home)[number - 1]()

    def stop_actions(self) -> tuple[Callable[[], None], ...]:
        return (self.testbed.stop_mirror, lambda: self.testbed.stop_mirror(BACK))

    def figure(self) -> go.Figure:
        values = {
            "LEFT's orders": len(self.testbed.read("LEFT", self.topic)),
            "their copy on RIGHT": len(self.testbed.read("RIGHT", self.copy)),
            "RIGHT's orders": len(self._local()),
            "their copy on LEFT": len(self.testbed.read("LEFT", self._home)),
            "quarantine on RIGHT": len(self.testbed.read("RIGHT", self._quarantine)),
        }
        return bars("Where orders are", list(values), {"orders": list(values.values())}, "orders")

    @property
    def _home(self) -> str:
        """RIGHT's orders on LEFT."""
        return self.testbed.copy(self.topic, BACK)

    @property
    def _quarantine(self) -> str:
        return quarantine_topic("LEFT", self.topic)

    def _traffic(self) -> None:
        for alias in ("LEFT", "RIGHT"):
            self.testbed.make(alias, self.topic, PARTITIONS)
        self.testbed.write("LEFT", self.topic, range(MIRRORED), partitions=PARTITIONS)
        self.testbed.start_mirror()
        self.testbed.wait_crossed(self.topic)

    def _tail(self) -> UnreplicatedRecords:
        return read_tail(self.testbed.settings, OVER, [self.topic])

    def _local(self) -> list[Record]:
        return self.testbed.read("RIGHT", self.topic)

    def _where(self) -> Shown:
        rows: list[dict[str, object]] = []
        for alias, topic in (("LEFT", self.topic), ("RIGHT", self.copy), ("RIGHT", self.topic), ("LEFT", self._home)):
            stands = self.testbed.positions(alias, self.group)
            at = [stands.get(TopicPartition(topic, number)) for number in range(PARTITIONS)]
            rows.append(
                {
                    "topic": topic,
                    "on": alias,
                    "orders": len(self.testbed.read(alias, topic)),
                    "billing stands at": ", ".join("nowhere" if one is None else str(one) for one in at),
                }
            )
        return Shown(
            "Who has what",
            rows,
            note="The same name is a topic of its own on each cluster; copies say where they are from.",
        )

    def _tail_is_settled(self) -> CheckResult:
        found = (*self._local(), *self.testbed.read("RIGHT", self._quarantine))
        there, whole = Counter(r.value for r in found), {(r.key, r.value) for r in found}
        wanted = [_order(n) for n in range(MIRRORED, MIRRORED + TAIL)]
        missing, twice = sum(one not in whole for one in wanted), sum(there[value] > 1 for _, value in wanted)
        seen = f"{TAIL - missing} of {TAIL} are there, {twice} of them more than once"
        return CheckResult(not missing and not twice, seen, "lesson.settle('recover') or lesson.settle('quarantine')")

    def _flowed_back(self) -> CheckResult:
        ours, theirs = _by_partition(self._local()), _by_partition(self.testbed.read("LEFT", self._home))
        count = sum(map(len, theirs.values()))
        first = MIRRORED + TAIL
        taken = {_order(n)[1] for n in range(first, first + LATER)} <= {one for those in ours.values() for one in those}
        seen = f"{sum(map(len, ours.values()))} on RIGHT, {count} on LEFT"
        return self.check_copy(taken and ours == theirs, seen, "lesson.flow_back()", BACK)

    def _group_is_home(self) -> CheckResult:
        home = self.testbed.positions("LEFT", self.group)
        local, copied = self._local(), self.testbed.read("LEFT", self._home)
        wrong = []
        for number in range(PARTITIONS):
            wanted = _unread(local, number, READ) or []
            found = _unread(copied, number, home.get(TopicPartition(self._home, number)))
            if not wanted or found != wanted:
                there = "no position" if found is None else f"{len(found)} to read"
                wrong.append(f"partition {number}: {there} on LEFT, {len(wanted)} on RIGHT")
        seen = "; ".join(wrong) or "what it has to read is the same on both sides"
        return CheckResult(not wrong, seen, "drlib.translate_offsets(lesson.file, 'RIGHT', 'LEFT', lesson.positions())")


def _order(number: int) -> tuple[bytes, bytes]:
    """Key and value, as LEFT acknowledged them."""
    return f"key {number % KEYS}".encode(), f"order {number}".encode()


def _by_partition(records: list[Record]) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {}
    for record in records:
        found.setdefault(record.partition.partition, []).append(record.value)
    return found


def _unread(records: list[Record], partition: int, position: int | None) -> list[bytes | None] | None:
    """What a reader at `position` still has to read there; None without a position."""
    if position is None:
        return None
    return [r.value for r in records if r.partition.partition == partition and r.offset >= position]
